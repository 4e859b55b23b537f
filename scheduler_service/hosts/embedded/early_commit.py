"""How far ahead of its moment a firing is committed (docs/decisions/0017)."""

from collections.abc import Sequence

# How far ahead of its moment a firing is committed. A commit takes 1 or 2 ms, beside a checkpoint up to 10.
EARLY_COMMIT_MS = 20
# How long of that it waits for others, to be committed together with them.
BATCH_WINDOW_MS = 10
# How early the turns of a burst may begin: enough for 5,000 firings at one moment in one process.
BURST_LEAD_MS = 500

# How early a turn may begin while another tenant's burst is let go: its commit waits for some of that one's,
# for 30 to 130 ms, and is over before its moment nevertheless.
SHARED_LEAD_MS = 200

# The cost of one firing's turn. An estimate above the real cost only means that a burst begins earlier.
TURN_MICROSECONDS = 100
MICROSECONDS_PER_MS = 1_000


class EarlyCommit:
    """Usually `usual` ms; ahead of a burst as long as the turns of its firings take, at most `longest` ms.

    A burst is more firings at about one moment than can be taken in the usual time: the last one would be
    late by all turns before its own. All moments are wall ms.

    Within the usual time firings wait up to `batch_window` ms for others: those that ring together are one
    group of the writer, and wake the loop and the writer once. Nothing rings earlier than `longest`.
    """

    def __init__(self, *, usual: int, longest: int, batch_window: int = 0) -> None:
        self._usual = usual
        self._after_batching = usual - batch_window
        self.longest = max(longest, usual)
        self._begin = 0
        self._end = 0
        self._shared = 0

    def share(self, *, is_shared: bool) -> None:
        """From now on all firings ring as early as beside a burst of another tenant, or as usual."""
        self._shared = min(SHARED_LEAD_MS, self.longest) if is_shared else 0

    def survey(self, moments: Sequence[int]) -> None:
        """Finds the first burst among `moments`, the near future in order."""
        self._begin = self._end = 0
        if (
            self.longest == self._usual
            or len(moments) * TURN_MICROSECONDS <= self._after_batching * MICROSECONDS_PER_MS
        ):
            return
        # Backwards: `free` is when, at the latest, all that comes after has to begin.
        end, free = moments[-1], moments[-1] * MICROSECONDS_PER_MS
        for moment in reversed(moments):
            if moment * MICROSECONDS_PER_MS < free:
                end, free = moment, moment * MICROSECONDS_PER_MS
            free -= TURN_MICROSECONDS
            if moment * MICROSECONDS_PER_MS - free > self._after_batching * MICROSECONDS_PER_MS:
                self._begin, self._end = max(free // MICROSECONDS_PER_MS, moment - self.longest), end

    def reach(self, now: int) -> int:
        """The moment up to which firings ring at `now`."""
        usual = now + max(self._usual, self._shared)
        return max(usual, min(self._end, now + self.longest)) if self._is_burst(now) else usual

    def pause(self, now: int, moment: int) -> int:
        """In how many ms to ring, where the next firing is due at `moment`."""
        usual = max(self._after_batching, self._shared)
        ahead = self.longest if self._is_burst(now) and moment <= self._end else usual
        pause = moment - ahead - now
        if now < self._begin:
            pause = min(pause, self._begin - now)
        return max(pause, 0)

    def _is_burst(self, now: int) -> bool:
        return self._begin <= now < self._end
