"""Finds out that what was open has ended."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.public_events import OccurrenceKind
from scheduler_service.ports.alerts import AlertLine, AlertTable
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry
from scheduler_service.ports.clock import Clock
from scheduler_service.telemetry.alerts.lateness import is_over
from scheduler_service.telemetry.alerts.rules import AlertRule

PAGE = 500
OF_JOBS = frozenset({OccurrenceKind.FAILING, OccurrenceKind.OVERDUE, OccurrenceKind.JOB_PAUSED})

IsOnline = Callable[[str, str], bool]
"""Whether an instance, by service and id, is online."""
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
        lines = await self._table.open(kinds, PAGE, self._after)
        self._after = lines[-1] if len(lines) == PAGE else None
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
