"""The answers that callers do not read: how long each may wait, and how much they may take together."""

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

UNREAD_SECONDS = 1.0
"""So long nothing of an answer may be read before its connection gives way."""

UNREAD_BYTES = 48 << 20
"""What the answers of all callers may take in memory of which nothing has been read for so long."""

LOOK_SECONDS = 0.25


class Unread(Protocol):
    """A connection that has more to send than its caller reads."""

    @property
    def unsent_bytes(self) -> int:
        """How much of its answer waits in memory."""


Waiting = TypeVar("Waiting", bound=Unread)


class UnreadAnswers(Generic[Waiting]):
    """The connections whose callers do not read, the longest first.

    Every `look_seconds` it is seen who has read some. Where the others have read nothing for a second, and
    their answers take more than `most_bytes` together, `cut` is called for them, the longest first, until the
    rest takes less. `now` returns seconds.
    """

    def __init__(
        self,
        *,
        cut: Callable[[Waiting], None],
        now: Callable[[], float],
        most_bytes: int = UNREAD_BYTES,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._cut = cut
        self._now = now
        self._most_bytes = most_bytes
        self._look_seconds = look_seconds
        self._since: dict[Waiting, float] = {}
        self._sizes: dict[Waiting, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def add(self, connection: Waiting) -> None:
        """Notes that more of its answer waits than is buffered."""
        self._since.setdefault(connection, self._now())
        self._schedule()

    def remove(self, connection: Waiting) -> None:
        """Notes that its caller has read nearly all, or that it is closed."""
        self._since.pop(connection, None)
        self._sizes.pop(connection, None)

    def longest(self) -> Waiting | None:
        """The one that gives way first, where nothing of one has been read for a second."""
        connection, since = next(iter(self._since.items()), (None, 0.0))
        return connection if self._now() - since >= UNREAD_SECONDS else None

    def look(self) -> None:
        """Sees who has read, and cuts those that hold too much and have not."""
        now = self._now()
        for connection in [*self._since]:
            size = connection.unsent_bytes
            if size < self._sizes.get(connection, size):
                del self._since[connection]  # to the end: what comes first has waited for longest
                self._since[connection] = now
            self._sizes[connection] = size
        waiting = [one for one, since in self._since.items() if now - since >= UNREAD_SECONDS]
        taken = sum(map(self._sizes.__getitem__, waiting))
        for connection in waiting:
            if taken <= self._most_bytes:
                return
            taken -= self._sizes[connection]
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
