"""What one node has of a rate limit that holds over all nodes: it counts its calls against its permits."""

from collections import deque
from collections.abc import Callable

import msgspec

from scheduler_service.domain.services import RateLimit
from scheduler_service.services.rate_book import Gives, Mine, Spent, count_all

IDLE_MS = 2_000
"""After so long without a call a node gives back what it has, and asks for nothing any more."""
ASK_AGAIN_MS = 250
"""How soon a call that may not be made is looked at again; what is granted meanwhile is told at once."""
Key = tuple[str, str]


class Parted(msgspec.Struct, frozen=True):
    """`count` permits that were taken out of a window to be given; the moments of those that were used."""

    count: int
    own: tuple[int, ...]
    foreign: tuple[Spent, ...]


class SharedWindow:
    """Implements `services.rate_window.Window` over the permits of one node.

    `on_want` is called where calls wait that another permit would allow. Permits count until the moment to
    which they were lent.
    """

    def __init__(self, *, key: Key, on_want: Callable[[], None]) -> None:
        self.key = key
        self.limit: RateLimit | None = None
        self._on_want = on_want
        self._held = self._until = self._unmet = self._touched = 0
        self._own: deque[int] = deque()
        self._foreign: tuple[Spent, ...] = ()
        self._has_given = False

    @property
    def held(self) -> int:
        """The permits that it has, used or not."""
        return self._held

    @property
    def is_wanting(self) -> bool:
        """Whether calls wait of which the book was not told."""
        return self._unmet > 0

    def wait(self, limit: RateLimit, now: int) -> int:
        """Milliseconds until another call may be allowed; 0: it is."""
        self.limit, self._touched = limit, now
        if now >= self._until or not self._held:
            return ASK_AGAIN_MS
        self._drop_old(now)
        most = min(self._held, limit.count)
        if self._busy < most:
            return 0
        moments = sorted([*self._own, *(one.at for one in self._foreign for _ in range(one.count))])
        pause = moments[self._busy - most] + limit.per - now
        return pause if self._held >= limit.count else min(pause, ASK_AGAIN_MS)

    def want(self, count: int, now: int) -> None:
        """So many calls wait: the next visit of the book asks for as many permits."""
        self._unmet, self._touched = max(self._unmet, count), now
        if self.limit is not None and (self._held < self.limit.count or now >= self._until):
            self._on_want()

    def want_again(self, count: int) -> None:
        """What was told to the book did not reach it."""
        self._unmet = max(self._unmet, count)

    def take(self, now: int) -> None:
        """Counts a call."""
        self._own.append(now)
        self._touched = now

    def give_back(self, taken: int, count: int) -> None:
        """Of the calls that were counted at `taken`, `count` were not made. Older ones count no more."""
        for _ in range(min(count, self._own.count(taken))):
            self._own.remove(taken)

    def describe(self, now: int, *, is_leaving: bool = False) -> Mine:
        """What it has, for the book; without a call for two seconds it leaves. Who waits is told once."""
        self._drop_old(now)
        unmet, self._unmet = self._unmet, 0
        yields, self._has_given = self._has_given, False
        return Mine(
            free=max(self._held - self._busy, 0),
            own=tuple(self._own),
            foreign=self._foreign,
            unmet=unmet,
            is_leaving=is_leaving or now - self._touched >= IDLE_MS,
            yields=yields,
        )

    def part_with(self, gives: Gives) -> Parted:
        """Uses no more what it gives. What is returned can be taken back where it was not written."""
        own = tuple(self._own.popleft() for _ in range(min(gives.own, len(self._own))))
        foreign = self._foreign if gives.foreign else ()
        if gives.foreign:
            self._foreign = ()
        count = gives.free + gives.own + count_all(foreign)
        self._held -= count
        self._has_given = count > 0
        return Parted(count, own, foreign)

    def take_back(self, parted: Parted) -> None:
        """It was not given."""
        self._held += parted.count
        self._has_given = False
        self._own.extendleft(reversed(parted.own))
        self._foreign = (*parted.foreign, *self._foreign)

    def receive(self, free: int, foreign: tuple[Spent, ...], until: int) -> None:
        """These permits are lent to it, with those that it has, to this moment."""
        self._held += free + count_all(foreign)
        self._foreign += foreign
        self._until = until

    def lose_all(self) -> None:
        """What it had is no longer its own, or it is unknown; whoever reads the book counts it as used."""
        self._held = self._until = 0
        self._own.clear()
        self._foreign = ()

    @property
    def _busy(self) -> int:
        return len(self._own) + (count_all(self._foreign) if self._foreign else 0)

    def _drop_old(self, now: int) -> None:
        if self.limit is None:
            return
        over = now - self.limit.per
        while self._own and self._own[0] <= over:
            self._own.popleft()
        if self._foreign:
            self._foreign = tuple(one for one in self._foreign if one.at > over)
