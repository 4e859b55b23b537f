"""The languages in which timers are described, each a module with the same functions."""

from collections.abc import Mapping
from typing import Protocol

from scheduler_service.timing import chinese, english
from scheduler_service.timing.durations import Duration
from scheduler_service.timing.timer import Timer
from scheduler_service.timing.zones import Zone


class Words(Protocol):
    """The words of one language. None of them raises."""

    def describe(self, timer: Timer) -> str:
        """The timer as one sentence, without a full stop."""

    def note(self, zone: Zone, moment: int) -> str | None:
        """A note if clocks change on the local day of `moment` (UTC ms), else None."""

    def length(self, duration: Duration) -> str:
        """The duration in counts of its units, the largest first."""


LANGUAGES: Mapping[str, Words] = {"en": english, "zh": chinese}
"""By the tag of RFC 5646; the first one is that of a caller who prefers none of them."""
