"""Reads the jobs of a service as declared, as last applied and as stored, and judges each."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

import msgspec

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.services import Applied, Service
from scheduler_service.engine.decision import Job
from scheduler_service.engine.job_gone import GONE
from scheduler_service.pacing.slices import Slices
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Compile, Definition
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.services import ServiceTable
from scheduler_service.services.declared import (
    UNDECLARED,
    Action,
    Case,
    Declarations,
    DeclaredJob,
    StoredJob,
    Verdict,
    judge,
    must_compare,
)

READ_AT_ONCE = 20
"""Of so many jobs the entries are read together: each may have labels of a MiB."""
Entries = Callable[[Sequence[str]], Awaitable[Mapping[str, CatalogueEntry]]]
ReadDefinition = Callable[[str, int], Awaitable[bytes | None]]
ReadJob = Callable[[str], Awaitable[Job | None]]


class Finding(msgspec.Struct, frozen=True):
    """One job and its verdict. `definition` is the declared one, if it had to be read."""

    case: Case
    verdict: Verdict
    definition: Definition | None = None


class ReconcileInputs:
    """Reads all that a verdict needs. `entries` returns the catalogue rows of the given jobs.

    `definition` reads a stored text by uid and revision, `read_job` a job's current state, `compile_text`
    compiles a definition that was posted before.
    """

    def __init__(
        self,
        *,
        declarations: Declarations,
        table: ServiceTable,
        entries: Entries,
        definition: ReadDefinition,
        read_job: ReadJob,
        compile_text: Compile,
        clock: Clock,
    ) -> None:
        self._declarations = declarations
        self._table = table
        self._entries = entries
        self._definition = definition
        self._read_job = read_job
        self._compile = compile_text
        self._clock = clock

    async def look(
        self, service: Service, *, after: str = "", force: bool = False, anew: bool = False
    ) -> AsyncGenerator[Finding, None]:
        """One finding per job that is or was declared, in order of id, above `after`. Raises StoreError.

        `anew`: a registration has declared them anew, so that those paused as `gone` go on. A compiled
        definition takes up to forty times its text: the caller keeps few.
        """
        declared = await self._declarations.read(service)
        applied = {one.job_id: one for one in await self._table.applied(service.tenant, service.name)}
        job_ids = [job_id for job_id in sorted({*declared, *applied}) if job_id > after]
        texts = _DeclaredTexts(self._declarations, service)
        now = self._clock.now().wall
        slices = Slices()  # reading a definition takes about 0.3 ms, a long one 3 ms
        for start in range(0, len(job_ids), READ_AT_ONCE):
            some = job_ids[start : start + READ_AT_ONCE]
            entries = await self._entries(some)
            for job_id in some:
                await slices.pause()
                wanted, done = declared.get(job_id), applied.get(job_id)
                asks = anew if wanted is not None else done is not None and done.removed_at is None
                stored = await self._describe(entries.get(job_id), done, asks_reason=asks)
                yield await self._judge(Case(service, job_id, wanted, done, stored, now, force), texts)

    async def stored_text(self, finding: Finding) -> bytes | None:
        """The stored definition of the job, or None. Raises StoreUnavailable."""
        stored = finding.case.stored
        return None if stored is None else await self._definition(stored.uid, stored.revision)

    async def identity(self, job_id: str) -> str | None:
        """The uid of the existing job, or None. Raises StoreUnavailable."""
        entry = (await self._entries([job_id])).get(job_id)
        return None if entry is None or entry.state is JobState.DESTROYED else entry.uid

    async def _describe(
        self, entry: CatalogueEntry | None, done: Applied | None, *, asks_reason: bool
    ) -> StoredJob | None:
        if entry is None or entry.state is JobState.DESTROYED:
            return None
        asks_owner = done is None or done.uid != entry.uid
        asks_reason = asks_reason and entry.state is JobState.PAUSED
        job = await self._read_job(entry.job_id) if asks_owner or asks_reason else None
        head = None if job is None or job.document is None else job.document.head
        owner = head.owner if head is not None and asks_owner else ""
        reason = head.pause_reason if asks_reason and head is not None and head.uid == entry.uid else ""
        is_gone = reason in (GONE, UNDECLARED)
        return StoredJob(entry.uid, entry.revision, entry.state, owner, is_gone=is_gone)

    async def _judge(self, case: Case, texts: "_DeclaredTexts") -> Finding:
        compares = must_compare(case.declared, case.applied, case.stored)
        if not compares and judge(case).action not in (Action.CREATE, Action.UPDATE):
            return Finding(case, judge(case))
        assert case.declared is not None
        text = await texts.of(case.declared)
        definition = Definition(text, await self._compile(text))
        if compares and case.stored is not None:
            equal = await self._is_equal(case.stored, definition)
            case = msgspec.structs.replace(case, stored=msgspec.structs.replace(case.stored, equal=equal))
        return Finding(case, judge(case), definition)

    async def _is_equal(self, stored: StoredJob, definition: Definition) -> bool:
        text = await self._definition(stored.uid, stored.revision)
        if text is None:
            return False
        return (
            text == definition.text
            or (await self._compile(text)).fingerprint == definition.program.fingerprint
        )


class _DeclaredTexts:
    """The declared texts of one service, read on first use."""

    def __init__(self, declarations: Declarations, service: Service) -> None:
        self._declarations = declarations
        self._service = service
        self._known: Mapping[str, bytes] | None = None

    async def of(self, declared: DeclaredJob) -> bytes:
        if self._known is None:
            self._known = await self._declarations.texts(self._service)
        text = self._known.get(declared.job_id)
        if text is None:
            raise StoreUnavailable("the service has declared other timers meanwhile", is_public=True)
        return text
