"""The connections of callers: how many there may be, how long each may wait, and what they take of memory."""

import asyncio
import math
from collections.abc import Callable, Iterable
from typing import Protocol

from scheduler_service.ports.log import Log
from scheduler_service.telemetry.log_summaries import Tally

ANSWER_SECONDS = 5.0
"""So long a whole request may be answered before its connection gives way, as one that only waits."""

HELD_BYTES = 32 << 20
"""What the requests of all callers may take in memory as they came, large bodies beyond their first 64 KiB
and connections with little of it left out."""

UNREAD_SECONDS = 1.0
"""So long nothing of an answer may be read before its connection gives way."""

UNREAD_BYTES = 24 << 20
"""What the answers of all callers may take in memory of which nothing has been read for so long."""

SLOW_BYTES = 48 << 20
"""What all may take that are not read as fast as they are written."""

LOOK_SECONDS = 0.25
STALL_SECONDS = 30.0
LINGER_SECONDS = 5.0


class Connection(Protocol):
    """A connection of a caller."""

    @property
    def unsent_bytes(self) -> int:
        """How much of its answer is still to be read, also what is still to be written of it."""

    @property
    def kept_bytes(self) -> int:
        """How much memory its answer takes as long as that is not read to its end."""

    def end(self) -> None:
        """Closes it after its answers."""

    def cut(self) -> None:
        """Closes it at once, whatever was still to be sent."""


class ConnectionLine(dict[Connection, float]):
    """Connections by the moment from which each waits, the longest first; cut after so many seconds.

    `reason` is what the log counts them as, None: not at all.
    """

    def __init__(self, seconds: float, reason: str | None = None) -> None:
        super().__init__()
        self.seconds = seconds
        self.reason = reason

    def first(self) -> Connection | None:
        """The one that has waited for longest."""
        return next(iter(self), None)

    def since(self) -> float:
        """The moment from which the first one waits; infinite: there is none."""
        return next(iter(self.values()), math.inf)


class Connections:
    """The open connections of one listener, `most` at the same time.

    Beyond `most` one gives way: the oldest that has sent no whole head yet, then one whose answer is not read
    for a second, then the one that waits for its next request for longest. So a caller gets in, however many
    others say or read nothing, and these end no caller that has asked; only where `most` requests are being
    answered a further connection is refused. A head is to be complete within `head_seconds`, a connection
    ends `idle_seconds` after its last answer, and one of whose body nothing comes, or of whose answer nothing
    is read, after `stall_seconds`. Where what callers have sent takes more than `held_bytes`, the connection
    is cut that has held some of it for longest; one whose answer is due is left alone for five seconds. Where
    there is no other, the one that has just sent more is cut. Where answers of which nothing was read for a
    second take more than `unread_bytes`, those are cut that began to wait first; so are they, read or not,
    where all that wait to be read take more than `slow_bytes`. `clock` returns seconds.
    """

    def __init__(
        self,
        *,
        most: int,
        head_seconds: float,
        idle_seconds: float,
        log: Log,
        stall_seconds: float = STALL_SECONDS,
        clock: Callable[[], float] | None = None,
        held_bytes: int = HELD_BYTES,
        unread_bytes: int = UNREAD_BYTES,
        slow_bytes: int = SLOW_BYTES,
    ) -> None:
        self.most = most
        self.open: set[Connection] = set()
        self.events = Tally("connections_closed", log=log)
        self._clock = clock or asyncio.get_running_loop().time
        self._heads = ConnectionLine(head_seconds, "silent")
        self._bodies = ConnectionLine(stall_seconds)
        self._idle = ConnectionLine(idle_seconds)
        self._ends = ConnectionLine(LINGER_SECONDS)
        self._lines = (self._heads, self._idle, self._bodies, self._ends)
        self._room = held_bytes
        self._holding: dict[Connection, int] = {}
        # Those of `_holding`, by the moment at which each began to send, or its answer was due.
        self._sending = ConnectionLine(math.inf)
        self._answering = ConnectionLine(ANSWER_SECONDS)
        # Whose answers wait to be read: from when nothing was read, how much was unsent then; and all, in the
        # order in which they began to wait.
        self._unread = ConnectionLine(stall_seconds)
        self._unsent: dict[Connection, int] = {}
        self._slow: dict[Connection, None] = {}
        self._unread_bytes = unread_bytes
        self._slow_bytes = slow_bytes
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = math.inf
        self._is_closed = False
        self._is_empty = asyncio.Event()

    @property
    def count(self) -> int:
        """How many are open, those that are refused included."""
        return len(self.open)

    def admit(self, connection: Connection) -> bool:
        """Takes a new connection; False: it is to be refused. Either way `forget` follows when it closes."""
        self.open.add(connection)
        self._is_empty.clear()
        if self.count > self.most and not self.shed("overLimit"):
            self.events.count("refused", limit=self.most)
            return False
        self._stand(connection, self._heads)
        return True

    def await_head(self, connection: Connection) -> None:
        """Notes that something of a request has come while nothing else is to be done."""
        if connection not in self._heads:
            self._stand(connection, self._heads)

    def begin(self, connection: Connection) -> None:
        """Notes that nothing of a request is missing."""
        for line in self._lines:
            line.pop(connection, None)

    def await_body(self, connection: Connection) -> None:
        """Notes that a head is complete, or some more of its body has come."""
        self._stand(connection, self._bodies)

    def await_request(self, connection: Connection) -> None:
        """Notes that all its requests are answered: it waits for the next one."""
        self._stand(connection, self._idle)

    def await_end(self, connection: Connection) -> None:
        """Notes that nothing is read of it any more: it ends 5 s later."""
        self._stand(connection, self._ends)

    def block(self, connection: Connection) -> None:
        """Notes that more of its answer waits than is buffered: the caller does not read."""
        now = self._clock()
        self._unread.setdefault(connection, now)
        self._slow.setdefault(connection)
        self._ring_by(now + LOOK_SECONDS)

    def unblock(self, connection: Connection) -> None:
        """Notes that the caller has read nearly all."""
        for waiting in (self._unread, self._unsent, self._slow):
            waiting.pop(connection, None)

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
            own.setdefault(connection, self._clock())
        else:
            self._let_go(connection)
        while self._room < 0 and self._holding:
            first = self._find_longest() or connection
            self._room += self._holding.pop(first)
            self._let_go(first)
            self._cut(first, "overHeld")

    def forget(self, connection: Connection) -> None:
        """Notes that it is closed."""
        self.open.discard(connection)
        if not self.open:
            self._is_empty.set()
        self._room += self._holding.pop(connection, 0)
        self._let_go(connection)
        self.begin(connection)
        self.unblock(connection)

    def shed(self, reason: str) -> bool:
        """Cuts the oldest silent connection, else one that does not read, else an idle one; False: none."""
        # However new: else a flood of silent ones would end the callers that ask again and again.
        is_deaf = self._unread.since() <= self._clock() - UNREAD_SECONDS
        first = self._heads.first() or (self._unread.first() if is_deaf else None) or self._idle.first()
        if first is None:
            return False
        self._cut(first, reason)
        return True

    def look(self) -> None:
        """Cuts those whose time is up, and those whose unread answers take too much."""
        now = self._clock()
        self._see_who_reads(now)
        for line in (*self._lines, self._unread):
            while line.since() <= now - line.seconds:
                self._cut(next(iter(line)), line.reason)
        self._cut_down(
            [one for one, since in self._unread.items() if since <= now - UNREAD_SECONDS], self._unread_bytes
        )
        self._cut_down([*self._slow], self._slow_bytes)

    async def end(self) -> None:
        """Ends all, and returns when they are closed."""
        for connection in [*self.open]:
            connection.end()
        if self.open:
            await self._is_empty.wait()
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.events.flush()

    def _stand(self, connection: Connection, line: ConnectionLine) -> None:
        self.begin(connection)
        now = line[connection] = self._clock()
        self._ring_by(now + line.seconds)

    def _let_go(self, connection: Connection) -> None:
        self._sending.pop(connection, None)
        self._answering.pop(connection, None)

    def _find_longest(self) -> Connection | None:
        """The one that holds for longest, without those whose answer is due for less than 5 s."""
        since = self._answering.since()
        is_answering = since <= min(self._sending.since(), self._clock() - ANSWER_SECONDS)
        return (self._answering if is_answering else self._sending).first()

    def _see_who_reads(self, now: float) -> None:
        for connection in [*self._unread]:
            size = connection.unsent_bytes
            if size < self._unsent.get(connection, size):
                del self._unread[connection]  # to the end: what comes first has waited for longest
                self._unread[connection] = now
            self._unsent[connection] = size

    def _cut_down(self, waiting: Iterable[Connection], most: int) -> None:
        """Cuts the first of `waiting` until the answers of the others take no more than `most`."""
        kept = {one: one.kept_bytes for one in waiting}
        taken = sum(kept.values())
        for connection, size in kept.items():
            if taken <= most:
                return
            taken -= size
            self._cut(connection, "overUnread")

    def _cut(self, connection: Connection, reason: str | None) -> None:
        self.begin(connection)
        self.unblock(connection)
        if reason is not None:
            self.events.count(reason, limit=self.most)
        connection.cut()

    def _ring_by(self, moment: float) -> None:
        """Looks no later than at `moment`."""
        if moment < self._rings_at and not self._is_closed:
            if self._timer is not None:
                self._timer.cancel()
            self._rings_at = moment
            self._timer = asyncio.get_running_loop().call_later(max(moment - self._clock(), 0), self._ring)

    def _ring(self) -> None:
        self._timer, self._rings_at = None, math.inf
        self.look()
        next_end = min(line.since() + line.seconds for line in self._lines)
        if self._unread:
            next_end = min(next_end, self._clock() + LOOK_SECONDS)
        if next_end < math.inf:
            self._ring_by(next_end)
