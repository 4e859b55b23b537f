"""The connections of one route: whether another one may be opened, and who waits for one."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from scheduler_service.transport.connection import HttpConnection
from scheduler_service.transport.errors import TimedOut
from scheduler_service.transport.resolver import Route

# Of one route at the same time. To open costs several times what an exchange does: when hundreds of calls
# are due at one moment, most of them are served by the first connections before another one would stand.
_OPENING = 16

# So many keep the loop busy where they come back at once. Each further one costs us and the target more than
# an exchange, and a crowd of them fills the target's queue of connections that it has not accepted yet
# (mostly 100 to 500 long): whose place was not there tries again after a whole second.
_PLENTY = 48

_BRISK_SECONDS = 0.005


class Waiter:
    """A place in line: `given` ends with a connection, with None (one may be opened), or with TimedOut."""

    __slots__ = ("_origin", "given")

    def __init__(self, origin: str, loop: asyncio.AbstractEventLoop) -> None:
        self.given: asyncio.Future[HttpConnection | TimedOut | None] = loop.create_future()
        self._origin = origin

    def give(self, connection: HttpConnection | None) -> bool:
        """Whether somebody still waited here."""
        if self.given.done():
            return False
        self.given.set_result(connection)
        return True

    def expire(self) -> None:
        """The call's time is up (called by Deadlines)."""
        if not self.given.done():
            self.given.set_result(unreached(self._origin))


class ConnectionLimit:
    """The connections of one route, at most `most`, and who waits for one; `opening` are on their way.

    A line is brisk when the loop has dealt with its answers for 5 ms, and each time that it looked there was
    another one: then calls wait for the loop, not for connections, and beyond 48 none is opened. As soon as
    there is none, `on_room` is called: what comes in gusts comes from afar or from a slow target.
    `clock` tells seconds.
    """

    def __init__(
        self,
        route: Route,
        loop: asyncio.AbstractEventLoop,
        most: int,
        on_room: Callable[["ConnectionLimit"], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.route = route
        self.idle: list[HttpConnection] = []
        self.open: set[HttpConnection] = set()
        self.opening = 0
        self.waiting: deque[Waiter] = deque()
        self._loop = loop
        self._most = most
        self._on_room = on_room
        self._clock = clock
        self._returned = 0
        self._busy_since: float | None = None

    def has_room(self) -> bool:
        """Whether one more may be opened now."""
        total = len(self.open) + self.opening
        if self.opening >= _OPENING or total >= self._most:
            return False
        return total < _PLENTY or not self._is_brisk()

    def is_empty(self) -> bool:
        """Whether nobody needs it any more."""
        return not self.open and not self.opening and not self.waiting

    def count_return(self) -> None:
        """A connection came back from its exchange."""
        if len(self.open) < _PLENTY:
            return
        self._returned += 1
        if self._busy_since is None:
            self._busy_since = self._clock()
            self._loop.call_soon(self._begin_round)

    def _is_brisk(self) -> bool:
        return self._busy_since is not None and self._clock() - self._busy_since >= _BRISK_SECONDS

    def _begin_round(self) -> None:
        """The loop begins to deal with what has come; what comes until it is done is counted anew."""
        self._returned = 0
        self._loop.call_soon(self._end_round)

    def _end_round(self) -> None:
        """The loop has dealt with a round's answers, and looked for others without a wait."""
        if self._returned:
            self._begin_round()
            return
        self._busy_since = None
        if self.waiting:
            self._on_room(self)


def unreached(origin: str) -> TimedOut:
    """What a call ends with that got no connection in time."""
    return TimedOut(f"{origin} could not be reached in time: look at the target.")
