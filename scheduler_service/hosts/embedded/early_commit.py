"""How far ahead of their moments firings are rung (docs/decisions/0017)."""

from collections.abc import Sequence

# What the turn of a firing costs, in microseconds; to take it for dearer than it is means to begin earlier.
TURN = 100
MILLISECOND = 1_000


class EarlyCommit:
    """Usually `usual` ms; ahead of a crowd as long as the turns of its firings take, at most `longest` ms.

    A crowd is more firings at about one moment than can be taken in the usual time, so that the last would
    be late by all turns before its own. All moments are of the wall, in ms.

    Within the usual time, firings wait up to `stride` ms for others: what is rung together is one group of
    the writer's, and wakes the loop and the writer once. Nothing is rung earlier than `longest`.
    """

    def __init__(self, *, usual: int, longest: int, stride: int = 0) -> None:
        self._usual = usual
        self._sure = usual - stride
        self.longest = max(longest, usual)
        self._begin = 0
        self._end = 0

    def survey(self, moments: Sequence[int]) -> None:
        """Takes in what is due in the near future, in order: where its first crowd lies."""
        self._begin = self._end = 0
        if self.longest == self._usual or len(moments) * TURN <= self._sure * MILLISECOND:
            return
        # Backwards: `free` is when, at the latest, all that comes after has to begin.
        end, free = moments[-1], moments[-1] * MILLISECOND
        for moment in reversed(moments):
            if moment * MILLISECOND < free:
                end, free = moment, moment * MILLISECOND
            free -= TURN
            if moment * MILLISECOND - free > self._sure * MILLISECOND:
                self._begin, self._end = max(free // MILLISECOND, moment - self.longest), end

    def reach(self, now: int) -> int:
        """The moment up to which is rung at `now`."""
        usual = now + self._usual
        return max(usual, min(self._end, now + self.longest)) if self._is_rush(now) else usual

    def pause(self, now: int, moment: int) -> int:
        """In how many ms to ring, where the next is due at `moment`."""
        ahead = self.longest if self._is_rush(now) and moment <= self._end else self._sure
        pause = moment - ahead - now
        if now < self._begin:
            pause = min(pause, self._begin - now)
        return max(pause, 0)

    def _is_rush(self, now: int) -> bool:
        return self._begin <= now < self._end
