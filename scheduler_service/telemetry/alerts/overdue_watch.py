"""Finds firings that are overdue, late or not begun, and that what was open has ended."""

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.ports.alerts import AlertLine, AlertOccasion, AlertTable
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry
from scheduler_service.ports.clock import Clock
from scheduler_service.telemetry.alerts.alert_rules import AlertRule, find_labels, note_all

PAGE = 1_000
MARK = "planned "
"""Of each rule a mark of its own: up to which planned moment its firings were looked at."""
SETTLED = 10 * SECOND
"""So long after a look what it passed is looked at again: the history may get a firing later than that.

It does where firings and a look become due at once: after a clock was set, or a process stood still.
"""
SEEN_MOST = 50_000

Firing = tuple[str, str | None, int | None]
"""The rule, and the execution."""


class LatenessWatch:
    """Looks at each planned moment when the bound of a rule after it has passed.

    A firing that has an execution is in the history; of a job that is stuck, or whose turn could not be
    taken, the catalogue still has the moment at which it was due.
    """

    def __init__(
        self,
        *,
        rules: Sequence[AlertRule],
        table: AlertTable,
        catalogue: Catalogue,
        clock: Clock,
    ) -> None:
        self._rules = [rule for rule in rules if OccurrenceKind.OVERDUE in rule.kinds]
        self._table = table
        self._catalogue = catalogue
        self._clock = clock
        self._marks: dict[str, int] = {}
        self._passed: dict[str, deque[tuple[int, int]]] = {}
        self._seen: OrderedDict[Firing, None] = OrderedDict()
        now = clock.now()
        self._made_at, self._kept_at = now.wall, now.steady

    async def begin(self) -> None:
        """Takes up the marks; the first time nothing before this process counts. Raises StoreUnavailable."""
        if not self._rules:
            return
        known = await self._table.marks()
        self._marks = {rule.name: known.get(MARK + rule.name, self._made_at) for rule in self._rules}

    async def look(self) -> None:
        """Raises StoreUnavailable: what was not noted is found by the next look."""
        now = self._clock.now()
        for rule in self._rules:
            await self._look_at_executions(rule, now.wall - rule.overdue)
            await self._look_at_jobs(rule, now.wall)
        if self._rules and now.steady - self._kept_at >= MINUTE:
            await self._table.note((), {MARK + name: at for name, at in self._marks.items()})
            self._kept_at = now.steady

    async def _look_at_executions(self, rule: AlertRule, last: int) -> None:
        mark = self._marks[rule.name]
        first = min(mark, self._settled(rule)) + 1
        if last < first:
            return
        skip = 0
        while True:
            found = await self._table.late(first, last, rule.overdue, PAGE, skip)
            if len(found) < PAGE:
                break
            await self._note(rule, found, mark)
            planned = found[-1].planned_at or first
            skip = skip + PAGE if planned == first else 0
            first = planned
        mark = max(last, mark)
        await self._note(rule, found, mark)
        self._marks[rule.name] = mark

    async def _note(self, rule: AlertRule, found: Sequence[Occurrence], mark: int) -> None:
        fresh = [one for one in found if (rule.name, one.uid, one.execute_number) not in self._seen]
        labels = await find_labels(self._catalogue, self._rules, fresh)
        began = [one for one in fresh if one.lateness_ms is not None]
        waits = [one for one in fresh if one.lateness_ms is None]
        noted = [*note_all(rule, began, labels), *note_all(rule, waits, labels, lasts=True)]
        await self._table.note(noted, {MARK + rule.name: mark} if noted else {})
        self._remember(rule, fresh)

    def _settled(self, rule: AlertRule) -> int:
        """The mark of `SETTLED` ago; notes the present one."""
        now, passed = self._clock.now().steady, self._passed.setdefault(rule.name, deque())
        passed.append((now, self._marks[rule.name]))
        while passed[0][0] < now - SETTLED:
            passed.popleft()
        return passed[0][1]

    def _remember(self, rule: AlertRule, fresh: Sequence[Occurrence]) -> None:
        for one in fresh:
            self._seen[rule.name, one.uid, one.execute_number] = None
        while len(self._seen) > SEEN_MOST:
            self._seen.popitem(last=False)

    async def _look_at_jobs(self, rule: AlertRule, now: int) -> None:
        first, limit, last = 0, PAGE, now - rule.overdue
        while True:
            stuck = await self._catalogue.upcoming(first, last, limit, tenant=None)
            noted = [
                AlertOccasion(
                    alert=rule.name, subject=entry.job_id, occurrence=_overdue(entry, now), lasts=True
                )
                for entry in stuck
                if rule.is_for(entry.job_id, entry.labels)
            ]
            await self._table.note(noted, {})
            if len(stuck) < limit:
                return
            planned = stuck[-1].next_fire or first
            limit = 2 * limit if planned == first else PAGE
            first = planned


def is_over(entry: CatalogueEntry, latest: int) -> bool:
    """Whether the job has begun all firings that were due up to `latest` (wall ms)."""
    return (entry.next_fire is None or entry.next_fire > latest) and entry.waiting == 0


def _overdue(entry: CatalogueEntry, now: int) -> Occurrence:
    return Occurrence(
        kind=OccurrenceKind.OVERDUE,
        at=now,
        tenant=entry.tenant,
        job_id=entry.job_id,
        uid=entry.uid,
        planned_at=entry.next_fire,
    )


LINES_A_LOOK = 500
OF_JOBS = frozenset({OccurrenceKind.FAILING, OccurrenceKind.OVERDUE, OccurrenceKind.JOB_PAUSED})

IsOnline = Callable[[str, str], bool]
"""Whether an instance is online, by its service, named with the tenant as jobs are, and its id."""
ListNodes = Callable[[], Awaitable[Mapping[str, bool]]]
"""The nodes of the cluster, and whether each is alive; one that has left is not among them."""


async def no_nodes() -> Mapping[str, bool]:
    """There is no cluster."""
    return {}


class RecoveryWatch:
    """Looks through the open lines, a page at each call."""

    def __init__(
        self,
        *,
        rules: Sequence[AlertRule],
        table: AlertTable,
        catalogue: Catalogue,
        clock: Clock,
        is_online: IsOnline,
        nodes: ListNodes = no_nodes,
    ) -> None:
        self._rules = {rule.name: rule for rule in rules}
        self._table = table
        self._catalogue = catalogue
        self._clock = clock
        self._is_online = is_online
        self._nodes = nodes
        self._after: AlertLine | None = None

    async def look(self) -> None:
        """Raises StoreError: what has ended is found by a later look."""
        kinds = (
            OccurrenceKind.FAILING,
            OccurrenceKind.OVERDUE,
            OccurrenceKind.JOB_PAUSED,
            OccurrenceKind.INSTANCE_LOST,
            OccurrenceKind.NODE_LOST,
        )
        lines = await self._table.open(kinds, LINES_A_LOOK, self._after)
        self._after = lines[-1] if len(lines) == LINES_A_LOOK else None
        if not lines:
            return
        ended, gone = await self._judge_jobs(lines)
        for line in lines:
            if line.kind is OccurrenceKind.INSTANCE_LOST:
                service, _, instance = line.subject.partition("/")
                if self._is_online(service, instance):
                    ended.append(line)
        alive = await self._nodes() if any(line.kind is OccurrenceKind.NODE_LOST for line in lines) else {}
        for line in lines:
            if line.kind is OccurrenceKind.NODE_LOST:
                if line.subject not in alive:
                    gone.append(line)
                elif alive[line.subject]:
                    ended.append(line)
        if ended:
            await self._table.recover(ended, self._clock.now().wall)
        if gone:
            await self._table.drop(gone)

    async def _judge_jobs(self, lines: Sequence[AlertLine]) -> tuple[list[AlertLine], list[AlertLine]]:
        """Those that are over, and those whose job is there no more."""
        wanted = [line for line in lines if line.kind in OF_JOBS]
        if not wanted:
            return [], []
        entries = await self._catalogue.some(sorted({line.subject for line in wanted}))
        failing = [line.subject for line in wanted if line.kind is OccurrenceKind.FAILING]
        runs = await self._table.runs(failing, 1) if failing else {}
        ended: list[AlertLine] = []
        gone: list[AlertLine] = []
        for line in wanted:
            entry = entries.get(line.subject)
            if entry is None or entry.state is JobState.DESTROYED:
                gone.append(line)
            elif line.kind is OccurrenceKind.JOB_PAUSED:
                if entry.state is not JobState.PAUSED:
                    ended.append(line)
            elif line.kind is OccurrenceKind.OVERDUE:
                if self._is_on_time(line, entry):
                    ended.append(line)
            elif runs[line.subject] and not runs[line.subject][0].has_failed:
                ended.append(line)
        return ended, gone

    def _is_on_time(self, line: AlertLine, entry: CatalogueEntry) -> bool:
        rule = self._rules.get(line.alert)
        return rule is None or is_over(entry, self._clock.now().wall - rule.overdue)
