"""The answers that callers do not read: how long each may wait, and how much they may take together."""

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

UNREAD_SECONDS = 1.0
"""So long nothing of an answer may be read before its connection gives way."""

UNREAD_BYTES = 24 << 20
"""What the answers of all callers may take in memory of which nothing has been read for so long."""

SLOW_BYTES = 48 << 20
"""What all may take that are not read as fast as they are written."""

LOOK_SECONDS = 0.25


class Unread(Protocol):
    """A connection that has more to send than its caller reads."""

    @property
    def unsent_bytes(self) -> int:
        """How much of its answer is still to be read."""

    @property
    def kept_bytes(self) -> int:
        """How much memory its answer takes as long as that is not read to its end."""


Waiting = TypeVar("Waiting", bound=Unread)


class UnreadAnswers(Generic[Waiting]):
    """The connections whose callers do not read, or not as fast as is written to them.

    Every `look_seconds` it is seen who has read some. Where those of which nothing was read for a second take
    more than `unread_bytes` together, `cut` is called for them, the longest first, until the rest takes less;
    then for whichever has waited for longest, as long as all of them take more than `slow_bytes`. `now`
    returns seconds.
    """

    def __init__(
        self,
        *,
        cut: Callable[[Waiting], None],
        now: Callable[[], float],
        unread_bytes: int = UNREAD_BYTES,
        slow_bytes: int = SLOW_BYTES,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._cut = cut
        self._now = now
        self._unread_bytes = unread_bytes
        self._slow_bytes = slow_bytes
        self._look_seconds = look_seconds
        # Since when nothing was read, and how much was unsent then; the longest first.
        self._since: dict[Waiting, float] = {}
        self._sizes: dict[Waiting, int] = {}
        self._waiting: dict[Waiting, None] = {}  # all, in the order in which they began to wait
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def add(self, connection: Waiting) -> None:
        """Notes that more of its answer waits than is buffered."""
        self._since.setdefault(connection, self._now())
        self._waiting.setdefault(connection)
        self._schedule()

    def remove(self, connection: Waiting) -> None:
        """Notes that its caller has read nearly all, or that it is closed."""
        self._since.pop(connection, None)
        self._sizes.pop(connection, None)
        self._waiting.pop(connection, None)

    def longest(self) -> Waiting | None:
        """The one that gives way first, where nothing of one has been read for a second."""
        connection, since = next(iter(self._since.items()), (None, 0.0))
        return connection if self._now() - since >= UNREAD_SECONDS else None

    def look(self) -> None:
        """Sees who has read, and cuts those that hold too much."""
        now = self._now()
        for connection in [*self._since]:
            size = connection.unsent_bytes
            if size < self._sizes.get(connection, size):
                del self._since[connection]  # to the end: what comes first has waited for longest
                self._since[connection] = now
            self._sizes[connection] = size
        unread = [one for one, since in self._since.items() if now - since >= UNREAD_SECONDS]
        self._cut_down(unread, self._unread_bytes)
        self._cut_down([*self._waiting], self._slow_bytes)

    def _cut_down(self, waiting: list[Waiting], most: int) -> None:
        kept = {one: one.kept_bytes for one in waiting}
        taken = sum(kept.values())
        for connection in waiting:
            if taken <= most:
                return
            taken -= kept[connection]
            self._cut(connection)

    def close(self) -> None:
        """Ends the timer; nothing is cut any more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        if self._timer is None and self._since and not self._is_closed:
            self._timer = asyncio.get_running_loop().call_later(self._look_seconds, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.look()
        self._schedule()
