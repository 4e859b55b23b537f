"""The answers that callers do not read: how long each may wait, and how much they may take together."""

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

UNREAD_SECONDS = 1.0
"""So long an answer may wait to be read before its connection gives way."""

UNREAD_BYTES = 48 << 20
"""What the answers of all callers may take in memory that have waited so long."""


class Unread(Protocol):
    """A connection that has more to send than its caller reads."""

    @property
    def unsent_bytes(self) -> int:
        """How much of its answer waits in memory."""


Waiting = TypeVar("Waiting", bound=Unread)


class UnreadAnswers(Generic[Waiting]):
    """The connections whose callers do not read, the longest first.

    Where their answers take more than `most_bytes` together, `cut` is called for those that have waited
    for a second, the longest first, until the others take less. `now` returns seconds.
    """

    def __init__(
        self, *, cut: Callable[[Waiting], None], now: Callable[[], float], most_bytes: int = UNREAD_BYTES
    ) -> None:
        self._cut = cut
        self._now = now
        self._most_bytes = most_bytes
        self._since: dict[Waiting, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, connection: Waiting) -> None:
        """Notes that more of its answer waits than is buffered."""
        self._since.setdefault(connection, self._now())
        self.relieve()

    def remove(self, connection: Waiting) -> None:
        """Notes that its caller has read, or that it is closed."""
        self._since.pop(connection, None)

    def longest(self) -> Waiting | None:
        """The one that gives way first, where one has waited for a second."""
        connection, since = next(iter(self._since.items()), (None, 0.0))
        return connection if self._now() - since >= UNREAD_SECONDS else None

    def relieve(self) -> None:
        """Cuts those that hold too much. While they cannot be cut yet, it comes again in a second."""
        taken = sum(connection.unsent_bytes for connection in self._since)
        while taken > self._most_bytes and (first := self.longest()) is not None:
            taken -= first.unsent_bytes
            self._cut(first)
        if taken > self._most_bytes and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(UNREAD_SECONDS, self.ring)

    def close(self) -> None:
        """Ends the timer; nothing is cut any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def ring(self) -> None:
        """Called a second after what could not be cut at once."""
        self._timer = None
        self.relieve()
