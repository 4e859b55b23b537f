"""Brings jobs from the store into memory, each with the programs of its definitions."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable

from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.decision import Job
from scheduler_service.engine.document_bytes import ContextsApart, SnapshotError, decode
from scheduler_service.engine.job_summary import revisions
from scheduler_service.engine.program import Program, weigh
from scheduler_service.hosts.job_cache import CachedJob, LoadedJob, has_open_executions
from scheduler_service.ports.delivery import Compile
from scheduler_service.ports.errors import StateUnreadable, StoreUnavailable
from scheduler_service.ports.state import StateStore

MOST = 10_000
MOST_BYTES = 16 << 20


class ProgramCache:
    """Compiles each definition that it reads once, as long as it is among those used last.

    Those are at most `size`, and weigh at most about `most_bytes`.
    """

    def __init__(
        self,
        *,
        read: Callable[[str, int], Awaitable[bytes | None]],
        compiler: Compile,
        size: int = MOST,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._read = read
        self._compile = compiler
        self._size = size
        self._most_bytes = most_bytes
        self._bytes = 0
        self._known: OrderedDict[tuple[str, int], tuple[Program, int]] = OrderedDict()

    async def load(self, job_key: str, uid: str, revisions: Iterable[int]) -> dict[int, Program]:
        """The programs of `revisions`. Raises StoreUnavailable."""
        return {revision: await self._one(job_key, uid, revision) for revision in revisions}

    def keep(self, uid: str, revision: int, program: Program, text: bytes, weight: int | None = None) -> int:
        """Caches the program of `text`, which has just been committed or read. Returns what it weighs.

        `weight`: that of `text`, if it is known.
        """
        known, key = self._known, (uid, revision)
        if weight is None:
            weight = weigh(text)
        before = known.pop(key, None)
        known[key] = program, weight
        self._bytes += weight if before is None else weight - before[1]
        while len(known) > self._size or (self._bytes > self._most_bytes and len(known) > 1):
            self._bytes -= known.popitem(last=False)[1][1]
        return weight

    def weight(self, uid: str, revisions: Iterable[int]) -> int:
        """What those of `revisions` that are cached weigh together, in bytes."""
        weight = 0
        for revision in revisions:  # a loop, as each creation comes here
            kept = self._known.get((uid, revision))
            if kept is not None:
                weight += kept[1]
        return weight

    async def _one(self, job_key: str, uid: str, revision: int) -> Program:
        known = self._known.get((uid, revision))
        if known is not None:
            self._known.move_to_end((uid, revision))
            return known[0]
        text = await self._read(uid, revision)
        if text is None:
            raise StoreUnavailable(
                f"definition {revision} of job life {uid} is missing in the store: create the job again",
                is_public=True,
            )
        program = await self._compile(text, read_job_key(job_key)[0])
        self.keep(uid, revision, program, text)
        return program


class JobLoading:
    """Loads the jobs of one store. `programs`: those of the definitions that were used last."""

    def __init__(self, *, store: StateStore, compiler: Compile) -> None:
        self._store = store
        self.programs = ProgramCache(read=store.definition, compiler=compiler)

    async def take_in(self, cached: CachedJob, loaded: LoadedJob | None = None) -> None:
        """Makes `cached` what the store has of the job; `loaded`: what the caller has just read of it.

        Raises StateUnreadable, StoreUnavailable.
        """
        if loaded is None:
            loaded = await self._load(cached.job_id)
        stored, document = loaded.stored, loaded.document
        programs = dict[int, Program]()
        if document is not None:
            programs = await self.programs.load(cached.job_id, document.head.uid, revisions(document))
            cached.program_bytes = self.programs.weight(document.head.uid, programs)
        cached.document, cached.programs = document, programs
        if stored is not None:
            cached.state_bytes = len(stored.document or b"")
            cached.entry = stored.entry
            cached.sequence = max(cached.sequence, stored.sequence, stored.used)
            cached.committed = 0 if document is None else stored.sequence
            cached.due = cached.durable_due = stored.due
        cached.cut_off = has_open_executions(document)
        cached.loaded = True

    async def _load(self, job_id: str) -> LoadedJob:
        stored = await self._store.load(job_id)
        if stored is None or stored.document is None:
            return LoadedJob(stored, None)
        try:
            return LoadedJob(stored, decode(stored.document))
        except ContextsApart as error:
            raise StateUnreadable(f"job {job_id}: {error}", is_public=True) from error
        except SnapshotError as error:  # this job does nothing, and the others go on
            raise StateUnreadable(
                f"job {job_id}: {error}; stop the service, run 'punctual db repair', "
                "and create the job again",
                is_public=True,
            ) from error


async def read_packed(
    job_key: str, packed: bytes | None, programs: ProgramCache, holder: Holder
) -> Job | None:
    """The job of a document that another process has packed; None: there is none. Raises StoreUnavailable."""
    if not packed:
        return None
    document = decode(packed)
    return Job(document, await programs.load(job_key, document.head.uid, revisions(document)), holder)
