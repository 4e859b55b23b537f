"""The alerts of a service: once a second it looks, notes, and says what is to be said."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from scheduler_service.domain.job_key import DEFAULT_TENANT, write_job_key
from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.ports.alerts import AlertOccasion, AlertTable
from scheduler_service.ports.clock import Alarm, Timekeeper
from scheduler_service.ports.errors import StoreError
from scheduler_service.telemetry.alerts.alert_messages import AlertMessages
from scheduler_service.telemetry.alerts.alert_rules import OF_THE_SERVICE, SERVICE, AlertRule
from scheduler_service.telemetry.alerts.failure_watch import BEHIND, FailureWatch
from scheduler_service.telemetry.alerts.overdue_watch import LatenessWatch, RecoveryWatch
from scheduler_service.telemetry.log_summaries import Tally

ROUND = SECOND
RECOVERY_PAUSE = 3 * SECOND
KEPT = 5 * BEHIND
"""So long a line outlives its last message: what is found once more in the history is known by it."""
HELD_MOST = 1_000

LOST_BY_BACK = {
    OccurrenceKind.INSTANCE_BACK: OccurrenceKind.INSTANCE_LOST,
    OccurrenceKind.WORKER_BACK: OccurrenceKind.WORKER_LOST,
    OccurrenceKind.NODE_JOINED: OccurrenceKind.NODE_LOST,
    OccurrenceKind.STORE_BACK: OccurrenceKind.STORE_LOST,
}
OVER_AT_A_START = (OccurrenceKind.STORE_LOST, OccurrenceKind.WORKER_LOST)
"""What is known to a process alone, and is not so any more when the next one has started."""

Leads = Callable[[], Awaitable[bool]]
"""Whether this node is the one that looks and says, of all in its cluster. Raises StoreError."""
FindLost = Callable[[], Awaitable[Sequence[Occurrence]]]
"""What else is lost now, as the nodes of a cluster are: told again while it lasts. Raises StoreError."""


async def always() -> bool:
    """There is one node only."""
    return True


async def nothing() -> Sequence[Occurrence]:
    """Nothing else can be lost."""
    return ()


class AlertLoopParts(msgspec.Struct, frozen=True, kw_only=True):
    """What the loop uses."""

    rules: Sequence[AlertRule]
    table: AlertTable
    clock: Timekeeper
    failure_watch: FailureWatch
    lateness: LatenessWatch
    recovery: RecoveryWatch
    messages: AlertMessages
    delayed: Tally
    leads: Leads = always
    find_lost: FindLost = nothing


class AlertLoop:
    """Takes what happens to the service, finds what happens to jobs, and says both.

    Where the database or the store is away, all of it waits: at most 1,000 happenings of the service, and of
    the jobs all that the history has.
    """

    def __init__(self, parts: AlertLoopParts) -> None:
        self._parts = parts
        self._kinds = frozenset[OccurrenceKind]().union(*(rule.kinds for rule in parts.rules))
        self._held: deque[Occurrence] = deque(maxlen=HELD_MOST)
        self._alarm: Alarm | None = None
        self._task: asyncio.Task[None] | None = None
        self._has_begun = False
        self._recovered_at = self._purged_at = parts.clock.now().steady
        self._lost_stores: dict[str, int] = {}
        self._has_settled = False
        self._is_stopped = False

    @property
    def is_idle(self) -> bool:
        """Whether no round is under way."""
        return self._task is None or self._task.done()

    def take(self, occurrence: Occurrence) -> None:
        """Keeps what happened to the service for the next round (`telemetry.event_source.Take`)."""
        kind, subject = occurrence.kind, occurrence.subject or SERVICE
        if kind is OccurrenceKind.STORE_LOST:
            self._lost_stores.setdefault(subject, occurrence.at)
        elif kind is OccurrenceKind.STORE_BACK:
            self._parts.failure_watch.rewind(self._lost_stores.pop(subject, occurrence.at))
        elif kind is OccurrenceKind.WORKER_BACK:
            self._take_stores_back(occurrence)
        if kind in self._kinds & OF_THE_SERVICE or LOST_BY_BACK.get(kind) in self._kinds:
            self._held.append(occurrence)

    def _take_stores_back(self, occurrence: Occurrence) -> None:
        """A worker process that runs again has its files again; the one before could not say so."""
        own = f"worker {occurrence.subject}"
        for subject in [one for one in self._lost_stores if one == own or one.startswith(f"{own}/")]:
            self.take(Occurrence(kind=OccurrenceKind.STORE_BACK, at=occurrence.at, subject=subject))

    def start(self) -> None:
        """Begins the rounds."""
        self._is_stopped = False
        self._plan()

    async def stop(self) -> None:
        """Ends them; what was not said is said after the next start."""
        self._is_stopped = True
        if self._alarm is not None:
            self._alarm.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._parts.delayed.flush()

    async def round(self) -> None:
        """One round. Raises StoreError: what was not done is done by a later one."""
        parts = self._parts
        if not self._has_settled:
            await self._settle()
        await self._note_held()
        if not await parts.leads():
            self._has_begun = False
            return
        if not self._has_begun:
            await parts.failure_watch.begin()
            await parts.lateness.begin()
            self._has_begun = True
        await parts.failure_watch.look()
        await parts.lateness.look()
        self._held.extend(await parts.find_lost())
        await self._note_held()
        steady = parts.clock.now().steady
        if steady - self._recovered_at >= RECOVERY_PAUSE:
            self._recovered_at = steady
            await parts.recovery.look()
        for rule in parts.messages.in_turn(parts.rules):
            await parts.messages.say(rule)
        if steady - self._purged_at >= MINUTE:
            self._purged_at = steady
            await self._purge()

    def _plan(self) -> None:
        self._alarm = self._parts.clock.call_after(ROUND, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            await self.round()
        except StoreError as error:
            self._parts.delayed.count("times", error=str(error))
        finally:
            if not self._is_stopped:
                self._plan()

    async def _settle(self) -> None:
        """What was open of the process before has ended with its start."""
        lines = await self._parts.table.open(OVER_AT_A_START, HELD_MOST)
        if lines:
            await self._parts.table.recover(lines, self._parts.clock.now().wall)
        self._has_settled = True

    async def _note_held(self) -> None:
        """Happenings of the service, in their order; those that cannot be kept now stay held."""
        table = self._parts.table
        while self._held:
            one = self._held[0]
            lost = LOST_BY_BACK.get(one.kind)
            subject = _subject_of(one)
            if lost is None:
                rules = [rule.name for rule in self._parts.rules if one.kind in rule.kinds]
                lasts = one.kind is not OccurrenceKind.LIMIT_REACHED
                noted = [
                    AlertOccasion(alert=name, subject=subject, occurrence=one, lasts=lasts) for name in rules
                ]
                await table.note(noted, {})
            else:
                lines = [line for line in await table.open((lost,), HELD_MOST) if line.subject == subject]
                if lines:
                    await table.recover(lines, one.at)
            self._held.popleft()

    async def _purge(self) -> None:
        rules, now = self._parts.rules, self._parts.clock.now().wall
        longest = max(rule.interval for rule in rules)
        await self._parts.table.purge(now - max(longest, KEPT), [rule.name for rule in rules])


def _subject_of(one: Occurrence) -> str:
    """Instances of two tenants may have one name: theirs begins with the tenant, as the key of a job does."""
    subject = one.subject or SERVICE
    is_instance = OccurrenceKind.INSTANCE_LOST in (one.kind, LOST_BY_BACK.get(one.kind))
    return write_job_key(one.tenant or DEFAULT_TENANT, subject) if is_instance else subject
