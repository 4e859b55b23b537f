"""The answers that callers do not read: how long each may wait, and how much they may take together."""

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

UNREAD_SECONDS = 1.0
"""So long less than `READ_BYTES` of an answer may be read before its connection gives way."""

READ_BYTES = 32 << 10
"""An answer of which less is read meanwhile would stay for minutes."""

UNREAD_BYTES = 20 << 20
"""What the answers of all callers may take in memory of which so little has been read for so long.

Less than what they may take before the next ones wait for them (`api.large_answers`).
"""

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
    """The connections whose callers do not read, the longest first.

    Every `look_seconds` it is seen who has read some. Where the others have read next to nothing for
    a second, and their answers take more than `most_bytes` together, `cut` is called for them, the longest
    first, until the rest takes less. `now` returns seconds.
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
        # What was unsent at that moment.
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
        """The one that gives way first, where next to nothing of one has been read for a second."""
        connection, since = next(iter(self._since.items()), (None, 0.0))
        return connection if self._now() - since >= UNREAD_SECONDS else None

    def look(self) -> None:
        """Sees who has read, and cuts those that hold too much and have not."""
        now = self._now()
        for connection in [*self._since]:
            size = connection.unsent_bytes
            if size <= self._sizes.setdefault(connection, size) - READ_BYTES:
                del self._since[connection]  # to the end: what comes first has waited for longest
                self._since[connection] = now
                self._sizes[connection] = size
        waiting = [one for one, since in self._since.items() if now - since >= UNREAD_SECONDS]
        kept = {one: one.kept_bytes for one in waiting}
        taken = sum(kept.values())
        for connection in waiting:
            if taken <= self._most_bytes:
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
