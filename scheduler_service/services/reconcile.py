"""`system://check-timers`: makes jobs match what services declare (SPEC section 11)."""

import asyncio
from collections import Counter
from collections.abc import Mapping

import msgspec

from scheduler_service.domain.events import Activated, Created, Destroyed, Event, Paused, Updated
from scheduler_service.domain.replies import Refusal
from scheduler_service.domain.services import Applied, Service
from scheduler_service.engine.program import GROUP_BYTES, weigh
from scheduler_service.pacing.slices import Slices
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Command, Deliver
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from scheduler_service.ports.services import ServiceTable
from scheduler_service.services.declared import UNDECLARED, Action
from scheduler_service.services.instances import FORGOTTEN_AFTER
from scheduler_service.services.reconcile_inputs import Finding, ReconcileInputs
from scheduler_service.services.registry import Registry

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

    def _is_settled(self, tenant: str, name: str) -> bool:
        service = self._registry.find(tenant, name)
        return service is None or service.digest in (b"", self._settled.get((tenant, name)))

    async def _scan(self, service: Service, *, force: bool = False) -> Counter[str]:
        key = (service.tenant, service.name)
        self._settled.pop(key, None)
        anew = self._registry.take_anew(*key)
        counts: Counter[str] = Counter(failed=1)
        try:
            counts = await self._apply_all(service, force=force, anew=anew)
        finally:
            if anew and counts["failed"]:
                self._registry.note_anew(*key)
            elif anew:
                self._registry.settle_anew(*key)
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
        reply = await self._deliver(case.job_id, Command(event, finding.definition))
        if isinstance(reply, Refusal):
            return case.applied  # the job changed meanwhile: the next scan sees how
        match verdict.action:
            case Action.CREATE:
                return await self._note_creation(finding)
            case Action.UPDATE if verdict.noted is not None:
                return msgspec.structs.replace(verdict.noted, revision=verdict.noted.revision + 1)
        return verdict.noted

    async def _note_creation(self, finding: Finding) -> Applied | None:
        uid = await self._inputs.identity(finding.case.job_id)
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
