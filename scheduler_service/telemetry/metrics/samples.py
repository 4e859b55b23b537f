"""Figures as they are counted, and as they travel from a process to whoever is scraped."""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from scheduler_service.domain.moments import SECOND
from scheduler_service.telemetry.metrics.families import Family


class Sample(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One figure of the family of this name; `labels` are the values of its labels, in their order.

    Of a histogram, `value` is the sum, and `buckets` counts what was up to each of its bounds and above the
    one before, with what was above the last bound at the end. The label `process` is added at the scrape.
    """

    family: str
    labels: tuple[str, ...]
    value: float
    buckets: tuple[int, ...] = ()


Source = Callable[[], Iterable[Sample]]
"""Reads figures from memory: at once, without waiting."""
Ask = Callable[[], Awaitable[Sequence[Sample]]]
"""Asks a store, another process or a thread for figures; may raise anything."""


class Histogram:
    """Counts values by the bounds of `family`; belongs to one thread. A unit has `per_unit` of the values."""

    __slots__ = ("_bounds", "_family", "counts", "total")

    def __init__(self, family: Family, *, per_unit: float = 1) -> None:
        self._family = family
        self._bounds = [bound * per_unit for bound in family.bounds]
        self.counts = [0] * (len(self._bounds) + 1)
        self.total: float = 0

    def observe(self, value: float) -> None:
        """One more value."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def sample(self, *labels: str) -> Sample:
        """What was counted so far."""
        return Sample(self._family.name, labels, self.total, tuple(self.counts))


SHORT_MS = 1_024
"""Whole milliseconds below this are counted one by one, which takes a third of the time."""


class Milliseconds:
    """Counts times in whole ms by the bounds of `family`, which are in seconds; belongs to one thread.

    Whoever counts on the path of an execution adds to `short[ms]` itself where `0 <= ms < SHORT_MS`.
    """

    __slots__ = ("_family", "_long", "short")

    def __init__(self, family: Family) -> None:
        self._family = family
        self._long = Histogram(family, per_unit=SECOND)
        self.short = [0] * SHORT_MS

    def observe(self, ms: int) -> None:
        """One more time; below 0 counts as 0."""
        if ms < SHORT_MS:
            self.short[max(0, ms)] += 1
        else:
            self._long.observe(ms)

    def sample(self, *labels: str) -> Sample:
        """What was counted so far, in seconds."""
        counts, total = list(self._long.counts), self._long.total
        for ms, count in enumerate(self.short):
            if count:
                counts[bisect_left(self._family.bounds, ms / SECOND)] += count
                total += ms * count
        return Sample(self._family.name, labels, total / SECOND, tuple(counts))
