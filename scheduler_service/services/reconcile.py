"""`system://check-timers`: makes jobs match what services declare (SPEC section 11)."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

import msgspec

from scheduler_service.domain.audit_acts import OwnAct, act_of_system
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.job_key import write_job_key
from scheduler_service.domain.registered_services import Applied, Service
from scheduler_service.domain.replies import ReachedLimit, Refusal
from scheduler_service.domain.turn_events import Activated, Created, Destroyed, Event, Paused, Updated
from scheduler_service.engine.automatic_pause import GONE
from scheduler_service.engine.compile_cache import read_options, with_service_options
from scheduler_service.engine.decision import Job
from scheduler_service.engine.program import GROUP_BYTES, weigh
from scheduler_service.pacing.slices import Slices
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Command, Compile, Definition, Deliver
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from scheduler_service.ports.services import ServiceTable
from scheduler_service.services.declared_jobs import (
    UNDECLARED,
    Action,
    Apart,
    Case,
    DeclaredJob,
    ExistingJob,
    Verdict,
    judge,
    must_compare,
    read_declared,
)
from scheduler_service.services.instances import FORGOTTEN_AFTER
from scheduler_service.services.registry import Registry

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
    compiles a definition that was posted before. `apart` decodes a declaration beside the loop.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        apart: Apart,
        table: ServiceTable,
        entries: Entries,
        definition: ReadDefinition,
        read_job: ReadJob,
        compile_text: Compile,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._apart = apart
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
        timers = b"[]"
        if service.removed_at is None:
            timers = await self._registry.timers(service.tenant, service.name)
        declared: Mapping[str, DeclaredJob] = await self._apart(lambda: read_declared(timers))
        applied = {one.job_id: one for one in await self._table.applied(service.tenant, service.name)}
        job_ids = [job_id for job_id in sorted({*declared, *applied}) if job_id > after]
        now = self._clock.now().wall
        slices = Slices()  # reading a definition takes about 0.3 ms, a long one 3 ms
        for start in range(0, len(job_ids), READ_AT_ONCE):
            some = job_ids[start : start + READ_AT_ONCE]
            tenant = service.tenant
            entries = await self._entries([write_job_key(tenant, job_id) for job_id in some])
            for job_id in some:
                await slices.pause()
                wanted, done = declared.get(job_id), applied.get(job_id)
                asks = anew if wanted is not None else done is not None and done.removed_at is None
                entry = entries.get(write_job_key(tenant, job_id))
                stored = await self._describe(entry, done, asks_reason=asks)
                yield await self._judge(Case(service, job_id, wanted, done, stored, now, force))

    async def given_options(self, service: Service) -> AsyncGenerator[tuple[Applied, int, Definition], None]:
        """The declared jobs whose definition has other options of their service, their revisions, and as it
        has to be. Raises StoreError."""
        applied = await self._table.applied(service.tenant, service.name)
        slices = Slices()
        for start in range(0, len(applied), READ_AT_ONCE):
            some = [one for one in applied[start : start + READ_AT_ONCE] if one.removed_at is None]
            entries = await self._entries([one.job_key for one in some])
            for one in some:
                entry = entries.get(one.job_key)
                if entry is None or entry.state is JobState.DESTROYED or entry.uid != one.uid:
                    continue
                stored = await self._definition(entry.uid, entry.revision)
                text = None if stored is None else with_service_options(stored, service.options_of_jobs)
                if text is None or read_options(text) == read_options(stored or b""):
                    continue
                await slices.pause(len(text))
                definition = Definition(text, await self._compile(text, service.tenant))
                yield one, entry.revision, definition

    async def stored_text(self, finding: Finding) -> bytes | None:
        """The stored definition of the job, or None. Raises StoreUnavailable."""
        stored = finding.case.stored
        return None if stored is None else await self._definition(stored.uid, stored.revision)

    async def identity(self, job_key: str) -> str | None:
        """The uid of the existing job, or None. Raises StoreUnavailable."""
        entry = (await self._entries([job_key])).get(job_key)
        return None if entry is None or entry.state is JobState.DESTROYED else entry.uid

    async def _describe(
        self, entry: CatalogueEntry | None, done: Applied | None, *, asks_reason: bool
    ) -> ExistingJob | None:
        if entry is None or entry.state is JobState.DESTROYED:
            return None
        asks_owner = done is None or done.uid != entry.uid
        asks_reason = asks_reason and entry.state is JobState.PAUSED
        job = await self._read_job(entry.job_id) if asks_owner or asks_reason else None
        head = None if job is None or job.document is None else job.document.head
        owner = head.owner if head is not None and asks_owner else ""
        reason = head.pause_reason if asks_reason and head is not None and head.uid == entry.uid else ""
        is_gone = reason in (GONE, UNDECLARED)
        return ExistingJob(entry.uid, entry.revision, entry.state, owner, is_gone=is_gone)

    async def _judge(self, case: Case) -> Finding:
        compares = must_compare(case.declared, case.applied, case.stored)
        if not compares and judge(case).action not in (Action.CREATE, Action.UPDATE):
            return Finding(case, judge(case))
        assert case.declared is not None
        text = with_service_options(case.declared.text, case.service.options_of_jobs)
        definition = Definition(text, await self._compile(text, case.service.tenant))
        if compares and case.stored is not None:
            equal = await self._is_equal(case.stored, definition, case.service.tenant)
            case = msgspec.structs.replace(case, stored=msgspec.structs.replace(case.stored, equal=equal))
        return Finding(case, judge(case), definition)

    async def _is_equal(self, stored: ExistingJob, definition: Definition, tenant: str) -> bool:
        text = await self._definition(stored.uid, stored.revision)
        if text is None or text == definition.text:
            return text is not None
        return (await self._compile(text, tenant)).fingerprint == definition.program.fingerprint


BATCH_SIZE = 50
"""Jobs whose results are stored together, before the next batch."""
TURNS_AT_ONCE = 10
"""Turns that run at once and share a commit; in one round of the loop as many begin as fit a slice."""
PAUSED = "paused"
COUNTED = {
    Action.CREATE: "created",
    Action.UPDATE: "updated",
    Action.PAUSE: "paused",
    Action.ACTIVATE: "activated",
    Action.DESTROY: "destroyed",
}


class Reconcile:
    """Scans the declarations service by service; one scan at a time."""

    def __init__(
        self,
        *,
        registry: Registry,
        table: ServiceTable,
        inputs: ReconcileInputs,
        deliver: Deliver,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._table = table
        self._inputs = inputs
        self._deliver = deliver
        self._clock = clock
        self._scanning = asyncio.Lock()
        self._settled: dict[tuple[str, str], bytes] = {}
        self._given: dict[tuple[str, str], bytes | None] = {}
        self._not_made: dict[tuple[str, str], tuple[ReachedLimit, int]] = {}

    async def __call__(self) -> Mapping[str, int]:
        """Scans all services of the table; returns counts.

        Raises StoreUnavailable: at the start if the table cannot be read, at the end if some jobs failed.
        """
        await self._registry.refresh()  # other nodes write into the table, too
        counts: Counter[str] = Counter()
        for service in self._registry.all():
            counts["services"] += 1
            counts.update(await self._try(service))
        await self._registry.forget_instances(self._clock.now().steady - FORGOTTEN_AFTER)
        if counts["failed"]:
            raise StoreUnavailable(
                f"{counts['failed']} declared jobs could not be reconciled: {dict(counts)}"
            )
        return counts

    async def apply(self, service: Service, *, force: bool = False) -> Mapping[str, int]:
        """Scans one service; `force`: replaces edited and foreign jobs too. Raises StoreError."""
        async with self._scanning:
            return await self._scan(service, force=force)

    async def give_options(self, service: Service) -> int:
        """Gives the declared jobs the options that their service says now; how many had others.

        Their schedules stay as they are, and live executions have what they began with. Repeated, it does
        what is left, and so does the next scan. Raises StoreError.
        """
        async with self._scanning:
            return await self._give_options(service)

    def owes_options(self, service: Service) -> bool:
        """Whether this process has not given the jobs of `service` the options that it says now."""
        return self._given.get((service.tenant, service.name), b"") != service.options_of_jobs

    async def _give_options(self, service: Service) -> int:
        count, key = 0, (service.tenant, service.name)
        self._given[key] = None
        async for one, revision, definition in self._inputs.given_options(service):
            act = act_of_system(OwnAct.CHECK_TIMERS, service=service.name, action="options")
            event = Updated(0, if_match=frozenset({revision}), keeps_schedule=True)
            reply = await self._deliver(one.job_key, Command(event, definition, act=act))
            if isinstance(reply, Refusal):
                continue  # it was changed meanwhile
            count += 1
            if one.revision == revision:  # else a person has edited it, which stays so
                await self._table.note([msgspec.structs.replace(one, revision=revision + 1)], [])
        self._given[key] = service.options_of_jobs
        return count

    async def settle(self, tenant: str, name: str) -> bool:
        """Scans a service unless its declaration was scanned since the start of this process.

        So many registrations of one declaration cause one scan, and the others return after it. False: some
        jobs could not be reconciled; the next call tries again. Raises nothing.
        """
        if self._is_settled(tenant, name):
            return True
        async with self._scanning:
            service = self._registry.find(tenant, name)
            if service is None or self._is_settled(tenant, name):
                return True
            try:
                return not (await self._scan(service))["failed"]
            except StoreError:
                return False

    def not_made(self, tenant: str, name: str) -> tuple[ReachedLimit, int] | None:
        """The limit by which the last scan of a service made so many of its jobs not; None: it made all."""
        return self._not_made.get((tenant, name))

    def _is_settled(self, tenant: str, name: str) -> bool:
        service = self._registry.find(tenant, name)
        return service is None or service.digest in (b"", self._settled.get((tenant, name)))

    async def _scan(self, service: Service, *, force: bool = False) -> Counter[str]:
        key = (service.tenant, service.name)
        self._settled.pop(key, None)
        self._not_made.pop(key, None)
        anew = self._registry.take_anew(*key)
        counts: Counter[str] = Counter(failed=1)
        try:
            counts = await self._apply_all(service, force=force, anew=anew)
        finally:
            if anew and counts["failed"]:
                self._registry.note_anew(*key)
            elif anew:
                self._registry.settle_anew(*key)
        if service.removed_at is None and self.owes_options(service):
            counts["updated"] += await self._give_options(service)
        # A removed service is forgotten once all its jobs are gone.
        if service.removed_at is not None and not await self._table.applied(*key):
            await self._registry.forget(service)
        elif not counts["failed"]:
            self._settled[key] = service.digest
        return counts

    async def _apply_all(self, service: Service, *, force: bool, anew: bool) -> Counter[str]:
        counts: Counter[str] = Counter()
        some: list[Finding] = []
        weight = 0
        async for finding in self._inputs.look(service, force=force, anew=anew):
            some.append(finding)
            if finding.definition is not None:
                weight += weigh(finding.definition.text)
            if len(some) == BATCH_SIZE or weight > GROUP_BYTES:
                counts.update(await self._apply_some(some))
                some, weight = [], 0
        counts.update(await self._apply_some(some))
        return counts

    async def _try(self, service: Service) -> Mapping[str, int]:
        """A service that fails must not stop the scan of the others."""
        try:
            return await self.apply(service)
        except StoreError:
            return {"failed": 1}

    async def _apply_some(self, findings: list[Finding]) -> Counter[str]:
        results: list[Applied | BaseException | None] = []
        for start in range(0, len(findings), TURNS_AT_ONCE):
            some = findings[start : start + TURNS_AT_ONCE]
            slices = Slices()
            applied = (self._apply_one(finding, slices) for finding in some)
            results += await asyncio.gather(*applied, return_exceptions=True)
        counts: Counter[str] = Counter()
        kept: list[Applied] = []
        dropped: list[Applied] = []
        for finding, result in zip(findings, results, strict=True):
            before = finding.case.applied
            if isinstance(result, StoreError):
                counts["failed"] += 1
            elif isinstance(result, BaseException):
                raise result
            else:
                counts.update(_count(finding))
                if result is None and before is not None:
                    dropped.append(before)
                elif result is not None and result != before:
                    kept.append(result)
        await self._table.note(kept, dropped)
        return counts

    async def _apply_one(self, finding: Finding, slices: Slices) -> Applied | None:
        """Applies the verdict; returns the row to store for the job. Raises StoreError."""
        verdict, case = finding.verdict, finding.case
        event = _event_of(finding)
        if event is None:
            return verdict.noted
        await slices.pause(0 if finding.definition is None else len(finding.definition.text))
        act = act_of_system(OwnAct.CHECK_TIMERS, service=case.service.name, action=verdict.action.value)
        reply = await self._deliver(case.job_key, Command(event, finding.definition, act=act))
        if isinstance(reply, Refusal):
            if reply.limit is not None:
                key = (case.service.tenant, case.service.name)
                self._not_made[key] = (reply.limit, self._not_made.get(key, (None, 0))[1] + 1)
            return case.applied  # or the job changed meanwhile: the next scan sees how
        match verdict.action:
            case Action.CREATE:
                return await self._note_creation(finding)
            case Action.UPDATE if verdict.noted is not None:
                return msgspec.structs.replace(verdict.noted, revision=verdict.noted.revision + 1)
        return verdict.noted

    async def _note_creation(self, finding: Finding) -> Applied | None:
        uid = await self._inputs.identity(finding.case.job_key)
        noted = finding.verdict.noted
        if uid is None or noted is None:
            return finding.case.applied
        return msgspec.structs.replace(noted, uid=uid, revision=1)


def _event_of(finding: Finding) -> Event | None:
    case, verdict = finding.case, finding.verdict
    owner = case.service.name
    match verdict.action:
        case Action.NONE:
            return None
        case Action.CREATE:
            return Created(uid="", key=b"", owner=owner)
        case Action.UPDATE:
            assert case.stored is not None
            return Updated(0, active=verdict.active, if_match=frozenset({case.stored.revision}), owner=owner)
        case Action.PAUSE:
            return Paused(drain=True, reason=UNDECLARED if case.declared is None else PAUSED)
        case Action.ACTIVATE:
            return Activated()
        case Action.DESTROY:
            return Destroyed()


def _count(finding: Finding) -> dict[str, int]:
    done = COUNTED.get(finding.verdict.action)
    return {} if done is None else {done: 1}
