"""Where alerts are kept: what happened and was not said yet, what lasts, how far the history was read."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from scheduler_service.domain.public_events import Occurrence, OccurrenceKind


class AlertState(StrEnum):
    """`point`: it happened, and is over by itself; `open`: it lasts; `recovered`: it has ended."""

    POINT = "point"
    OPEN = "open"
    RECOVERED = "recovered"


class AlertOccasion(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened and that an alert is for; `lasts`: until `recover` says that it is over.

    `is_new`: it is known not to be noted yet, whatever the order in which it was found.
    """

    alert: str
    subject: str
    occurrence: Occurrence
    lasts: bool = False
    is_new: bool = False


class AlertLine(msgspec.Struct, frozen=True, kw_only=True):
    """What one alert knows of one kind and subject; times are wall ms.

    `since`: the first happening, `at` the newest. `count`: how many were not said yet, `total` how many
    there were; `said_at` None: none was said. `occurrence` is the newest one.
    """

    alert: str
    kind: OccurrenceKind
    subject: str
    state: AlertState
    since: int
    at: int
    count: int
    total: int
    said_at: int | None
    occurrence: Occurrence

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is unique by."""
        return self.alert, self.kind.value, self.subject


class Tallied(msgspec.Struct, frozen=True):
    """Lines of one kind and state: how many, and the happenings that they stand for."""

    kind: OccurrenceKind
    state: AlertState
    lines: int
    happenings: int


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What of one alert may be said now: the oldest lines, and sums over all.

    `subjects`: how many different ones; `newest` is the moment of the newest line, or 0.
    """

    lines: tuple[AlertLine, ...]
    subjects: int
    newest: int
    tallied: tuple[Tallied, ...]

    @property
    def total(self) -> int:
        """How many lines there are."""
        return sum(one.lines for one in self.tallied)

    @property
    def happenings(self) -> int:
        """How many happenings; of what has recovered since it was said, its end."""
        return sum(one.happenings for one in self.tallied)


class EndedExecution(msgspec.Struct, frozen=True):
    """An execution that ended by itself."""

    has_failed: bool
    ended_at: int


class AlertTable(Protocol):
    """The table of the alerts, and reads of the history beside it. All raise StoreUnavailable."""

    async def marks(self) -> Mapping[str, int]:
        """Up to which moment each kind of happening was looked for."""

    async def note(self, noted: Sequence[AlertOccasion], marks: Mapping[str, int]) -> Sequence[AlertOccasion]:
        """Keeps what happened and moves the marks: one transaction. A repetition changes nothing.

        Returns those that were not known.

        What lasts and is open already is left as it is. Of what does not last, a happening that does not
        come after the newest one of its line, by its moment and its names, was noted before, unless it is
        known to be new.
        """

    async def recover(self, lines: Sequence[AlertLine], at: int) -> None:
        """These have ended: that is to be said."""

    async def drop(self, lines: Sequence[AlertLine]) -> None:
        """Forgets these, and nothing is said."""

    async def open(
        self,
        kinds: Sequence[OccurrenceKind],
        limit: int,
        after: AlertLine | None = None,
        *,
        is_own: bool = False,
    ) -> Sequence[AlertLine]:
        """What lasts by subject, alert and kind, behind the line `after`; no kinds: of every kind.

        `is_own`: nothing of a tenant other than `default`.
        """

    async def count_open(self, *, is_own: bool = False) -> int:
        """How many last."""

    async def waiting(self, alert: str, until: int, limit: int) -> Waiting:
        """What was not said, and of whose subject nothing was said since `until`."""

    async def said(self, lines: Sequence[AlertLine], at: int) -> None:
        """These were said. What happened meanwhile is still to be said."""

    async def said_all(self, alert: str, until: int, at: int, waiting: Waiting) -> None:
        """All of `waiting` was said at `at`, and what happened later is still to be said.

        Where something else was noted among it meanwhile, all of it is still to be said.
        """

    async def purge(self, before: int, alerts: Sequence[str]) -> None:
        """Removes what was said before `before` and does not last, and the lines of other alerts."""

    async def ended_badly(self, since: int, limit: int, skip: int) -> Sequence[Occurrence]:
        """Executions that failed or were cancelled from `since` on, in order of their end, but the first."""

    async def given_up(self, since: int, limit: int, skip: int) -> Sequence[Occurrence]:
        """The same of deliveries that failed or went into the outbox, by the first time that they did."""

    async def paused(self, since: int, limit: int, skip: int) -> Sequence[Occurrence]:
        """The same of jobs that the service has paused by itself; `count` failures of them in a row."""

    async def late(self, first: int, last: int, bound: int, limit: int, skip: int) -> Sequence[Occurrence]:
        """Firings planned in `first` to `last` that began more than `bound` ms late, or not yet.

        By their moment, but the first `skip`.
        """

    async def runs(self, job_ids: Sequence[str], most: int) -> Mapping[str, Sequence[EndedExecution]]:
        """The newest executions of each job that succeeded or failed, the newest first."""
