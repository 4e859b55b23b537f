"""Finds in the history what failed: nothing of it costs an execution anything.

What ends is in the history, also after a crash, whichever process or node it was at. So it is read from
there, behind marks that move in the same transaction as what is noted.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from math import inf

import msgspec

from scheduler_service.domain.execution import ExecutionState, JobState
from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.ports.alerts import AlertOccasion, AlertTable
from scheduler_service.ports.catalogue import Catalogue
from scheduler_service.ports.clock import Clock
from scheduler_service.telemetry.alerts.alert_rules import NONE, AlertRule, Labels, find_labels, note_all

PAGE = 500
PAGES_A_LOOK = 20
BEHIND = 2 * MINUTE
"""So late the history may have something and it is still found: its writers collect what they write."""
LOOK_BACK = 10 * SECOND
"""The pause between two looks at what is marked as read already."""
SEEN_MOST = 50_000

Read = Callable[[int, int, int], Awaitable[Sequence[Occurrence]]]
Name = tuple[OccurrenceKind, str | None, int | None, str | None, int]
"""What one happening is known by; the last one is its moment."""


class AlertSource(msgspec.Struct, frozen=True):
    """One kind of happening in the history: the name of its mark, and how it is read."""

    mark: str
    read: Read
    kinds: frozenset[OccurrenceKind]


class FailureWatch:
    """Notes what failed and what the rules are for, but nothing of the jobs `own`, which send alerts."""

    def __init__(
        self,
        *,
        rules: Sequence[AlertRule],
        table: AlertTable,
        catalogue: Catalogue,
        clock: Clock,
        own: frozenset[str],
    ) -> None:
        self._rules = rules
        self._table = table
        self._catalogue = catalogue
        self._clock = clock
        self._own = own
        failed = frozenset({OccurrenceKind.FINAL_FAILED, OccurrenceKind.FAILING})
        given_up = frozenset({OccurrenceKind.UNDELIVERABLE})
        wanted = frozenset[OccurrenceKind]().union(*(rule.kinds for rule in rules))
        sources = (
            AlertSource("ended", table.ended_badly, failed),
            AlertSource("given up", table.given_up, given_up),
            AlertSource("paused", table.paused, frozenset({OccurrenceKind.JOB_PAUSED})),
        )
        self._sources = [source for source in sources if source.kinds & wanted]
        self._marks: dict[str, int] = {}
        self._seen: OrderedDict[Name, None] = OrderedDict()
        now = clock.now()
        self._made_at = now.wall
        self._back_at = self._kept_at = now.steady
        self._rewound: int | None = None
        # From this moment on (wall ms) all that was noted is in `_seen`; inf: that is not known.
        self._complete_since = inf

    def rewind(self, moment: int) -> None:
        """The history may have been behind since `moment` (wall ms): the next look begins before it."""
        moment -= BEHIND
        self._rewound = moment if self._rewound is None else min(self._rewound, moment)

    async def begin(self) -> None:
        """Takes up the marks; the first time nothing before this process counts. Raises StoreUnavailable."""
        known = await self._table.marks()
        self._marks = {source.mark: known.get(source.mark, self._made_at) for source in self._sources}
        new = {mark: at for mark, at in self._marks.items() if mark not in known}
        await self._table.note((), new)
        for mark in self._marks.keys() - new.keys():
            self.rewind(self._marks[mark])
        self._complete_since = inf

    async def look(self) -> None:
        """Raises StoreUnavailable: what was not noted is found by the next look."""
        now = self._clock.now()
        start, self._rewound = self._rewound, None
        read_since = min(self._marks.values(), default=inf) if start is None else start
        if start is None and now.steady - self._back_at >= LOOK_BACK:
            start, self._back_at = now.wall - BEHIND, now.steady
        for source in self._sources:
            mark = self._marks[source.mark]
            try:
                await self._follow(source, mark if start is None else min(start, mark))
            except BaseException:
                if start is not None:
                    self.rewind(start + BEHIND)
                raise
        if self._complete_since == inf and self._rewound is None:
            self._complete_since = read_since
        if now.steady - self._kept_at >= MINUTE:
            self._kept_at = now.steady
            await self._keep_marks(now.wall - BEHIND)

    async def _keep_marks(self, behind: int) -> None:
        """Also where nothing fails the marks move: else a start would find again what was said long ago."""
        moved = {mark: behind for mark, at in self._marks.items() if at < behind}
        await self._table.note((), moved)
        self._marks.update(moved)

    async def _follow(self, source: AlertSource, since: int) -> None:
        """Reads from `since` on, page by page; each is noted together with the mark behind it."""
        skip = 0
        for _ in range(PAGES_A_LOOK):
            page = await source.read(since, PAGE, skip)
            if not page:
                return
            last = page[-1].at
            await self._note(source, page, last)
            if len(page) < PAGE:
                return
            skip = skip + PAGE if last == since else 0
            since = last
        self.rewind(since + BEHIND)  # the rest is for the next look

    async def _note(self, source: AlertSource, page: Sequence[Occurrence], last: int) -> None:
        fresh = [one for one in page if _name(one) not in self._seen and one.job_id not in self._own]
        marks = {source.mark: last} if last > self._marks[source.mark] else {}
        labels = await find_labels(self._catalogue, self._rules, fresh)
        noted: list[AlertOccasion] = []
        for rule in self._rules:
            for kind in source.kinds & rule.kinds:
                if kind is OccurrenceKind.FAILING:
                    noted += await self._find_failing(rule, fresh, labels)
                elif kind is OccurrenceKind.JOB_PAUSED:
                    noted += note_all(rule, await self._find_paused(fresh), labels, lasts=True)
                else:
                    noted += note_all(rule, fresh, labels, new_since=self._complete_since)
        await self._table.note(noted, marks)
        self._marks.update(marks)
        self._remember(fresh)

    async def _find_failing(
        self, rule: AlertRule, found: Sequence[Occurrence], labels: Labels
    ) -> list[AlertOccasion]:
        """The jobs among these whose newest executions all failed."""
        newest = {
            one.job_id: one
            for one in found
            if one.job_id is not None
            and one.state == ExecutionState.TERMINATED
            and rule.is_for(one.job_id, labels.get(one.job_id, NONE))
        }
        runs = await self._table.runs(tuple(newest), rule.failing) if newest else {}
        failing = [
            msgspec.structs.replace(one, kind=OccurrenceKind.FAILING, count=rule.failing)
            for job_id, one in newest.items()
            if len(runs[job_id]) == rule.failing and all(run.has_failed for run in runs[job_id])
        ]
        return note_all(rule, failing, labels, lasts=True)

    async def _find_paused(self, found: Sequence[Occurrence]) -> list[Occurrence]:
        """Those whose job is still paused: one that was resumed since is none to be told of."""
        jobs = {one.job_id for one in found if one.job_id is not None}
        entries = await self._catalogue.some(sorted(jobs)) if jobs else {}
        paused = {job_id for job_id, entry in entries.items() if entry.state is JobState.PAUSED}
        return [one for one in found if one.job_id in paused]

    def _remember(self, fresh: Sequence[Occurrence]) -> None:
        for one in fresh:
            self._seen[_name(one)] = None
        while len(self._seen) > SEEN_MOST:
            (*_, at), _ = self._seen.popitem(last=False)
            self._complete_since = max(self._complete_since, at + 1)


def _name(one: Occurrence) -> Name:
    return one.kind, one.uid, one.execute_number, one.subject, one.at
