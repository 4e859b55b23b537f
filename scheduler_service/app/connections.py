"""The connections of callers: how many there may be, and how long one may stay without a request."""

import asyncio
import math
from collections.abc import Callable
from typing import Protocol

from scheduler_service.app.unread_answers import UnreadAnswers
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.tally import Tally

ANSWER_SECONDS = 5.0
"""So long a whole request may be answered before its connection gives way, as one that only waits."""

HELD_BYTES = 32 << 20
"""What the requests of all callers may take in memory as they came, large bodies beyond their first 64 KiB
and connections with little of it left out."""


class Connection(Protocol):
    """A connection of a caller."""

    @property
    def unsent_bytes(self) -> int:
        """How much of its answer waits to be read."""

    @property
    def kept_bytes(self) -> int:
        """How much memory its answer takes as long as that is not read to its end."""

    def cut(self) -> None:
        """Closes it at once, whatever was still to be sent."""


class Connections:
    """The open connections of one listener, `most` at the same time.

    Beyond `most` one gives way: the oldest that has sent no whole head yet, then one whose answer is not read
    for a second, then the one that waits for its next request for longest. So a caller gets in, however many
    others say or read nothing, and these end no caller that has asked; only where `most` requests are being
    answered a further connection is refused. One whose head is not complete within `head_seconds` is cut;
    after a request it has `idle_seconds` more. Where what callers have sent takes more than `held_bytes`, the
    connection is cut that has held some of it for longest; one whose answer is due is left alone for five
    seconds. Where there is no other, the one that has just sent more is cut. Where answers that are not read
    take too much memory, those give way that have waited for longest (`UnreadAnswers`). `clock` returns
    seconds.
    """

    def __init__(
        self,
        *,
        most: int,
        head_seconds: float,
        idle_seconds: float,
        log: Log,
        clock: Callable[[], float] | None = None,
        held_bytes: int = HELD_BYTES,
    ) -> None:
        self.most = most
        self.count = 0
        self.events = Tally("connections_closed", log=log)
        self._head_seconds = head_seconds
        self._again_seconds = idle_seconds + head_seconds
        self._clock = clock
        self._room = held_bytes
        self._holding: dict[Connection, int] = {}
        # Those of `_holding`, by the moment at which each began to send, or its answer was due.
        self._sending: dict[Connection, float] = {}
        self._answering: dict[Connection, float] = {}
        # All by the moment at which the wait began, the longest first.
        self._silent: dict[Connection, float] = {}
        self._idle: dict[Connection, float] = {}
        self._unread = UnreadAnswers[Connection](
            cut=lambda connection: self._cut(connection, "overUnread"),
            now=self._now,
        )
        self._sweep: asyncio.TimerHandle | None = None

    def admit(self, connection: Connection) -> bool:
        """Takes a new connection; False: it is to be refused. Either way `forget` follows when it closes."""
        self.count += 1
        if self.count > self.most and not self.shed("overLimit"):
            self.events.count("refused", limit=self.most)
            return False
        self._silent[connection] = self._now()
        self._schedule()
        return True

    def begin(self, connection: Connection) -> None:
        """Notes that the head of a request is complete."""
        self._silent.pop(connection, None)
        self._idle.pop(connection, None)

    def finish(self, connection: Connection) -> None:
        """Notes that all its requests are answered: it waits for the next one."""
        self._idle[connection] = self._now()
        self._schedule()

    def block(self, connection: Connection) -> None:
        """Notes that more of its answer waits than is buffered: the caller does not read."""
        self._unread.add(connection)

    def unblock(self, connection: Connection) -> None:
        """Notes that the caller has read."""
        self._unread.remove(connection)

    def hold(self, connection: Connection, size: int, *, is_answering: bool = False) -> None:
        """Notes how many bytes of requests a connection has; 0: not enough to be counted.

        `is_answering`: one of the requests has come to its end, and its answer is due.
        """
        self._room -= size - self._holding.pop(connection, 0)
        if size:
            self._holding[connection] = size
            own, other = self._sending, self._answering
            if is_answering:
                own, other = other, own
            other.pop(connection, None)
            own.setdefault(connection, self._now())
        else:
            self._let_go(connection)
        while self._room < 0 and self._holding:
            first = self._find_longest() or connection
            self._room += self._holding.pop(first)
            self._let_go(first)
            self._cut(first, "overHeld")

    def _let_go(self, connection: Connection) -> None:
        self._sending.pop(connection, None)
        self._answering.pop(connection, None)

    def _find_longest(self) -> Connection | None:
        """The one that holds for longest, without those whose answer is due for less than 5 s."""
        sending, sends_since = next(iter(self._sending.items()), (None, math.inf))
        answering, since = next(iter(self._answering.items()), (None, math.inf))
        return answering if since <= min(sends_since, self._now() - ANSWER_SECONDS) else sending

    def forget(self, connection: Connection) -> None:
        """Notes that it is closed."""
        self.count -= 1
        self._room += self._holding.pop(connection, 0)
        self._let_go(connection)
        self._silent.pop(connection, None)
        self._idle.pop(connection, None)
        self._unread.remove(connection)

    def shed(self, reason: str) -> bool:
        """Cuts the oldest silent connection, else one that does not read, else an idle one; False: none."""
        # However new: else a flood of silent ones would end the callers that ask again and again.
        first = next(iter(self._silent), None) or self._unread.longest() or next(iter(self._idle), None)
        if first is None:
            return False
        self._cut(first, reason)
        return True

    def sweep(self) -> None:
        """Cuts those whose time is up."""
        now = self._now()
        self._cut_before(self._silent, now - self._head_seconds)
        self._cut_before(self._idle, now - self._again_seconds)

    def close(self) -> None:
        """Ends the timer; nothing is cut any more."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._unread.close()
        self.events.flush()

    def _cut_before(self, waiting: dict[Connection, float], oldest: float) -> None:
        while waiting:
            connection, since = next(iter(waiting.items()))
            if since > oldest:
                break
            self._cut(connection, "silent")

    def _cut(self, connection: Connection, reason: str) -> None:
        self._silent.pop(connection, None)
        self._idle.pop(connection, None)
        self._unread.remove(connection)
        self.events.count(reason, limit=self.most)
        connection.cut()

    def _schedule(self) -> None:
        if self._sweep is None:
            loop = asyncio.get_running_loop()
            self._sweep = loop.call_later(self._head_seconds / 4, self._ring)

    def _ring(self) -> None:
        self._sweep = None
        self.sweep()
        if self._silent or self._idle:
            self._schedule()

    def _now(self) -> float:
        return (self._clock or asyncio.get_running_loop().time)()
