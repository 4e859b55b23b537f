"""The connections of one route: whether another one may be opened, and the calls that wait for one."""

import asyncio
import time
from collections.abc import Callable
from itertools import takewhile

from scheduler_service.pacing.fair_line import FairLine
from scheduler_service.transport.connection import HttpConnection
from scheduler_service.transport.descriptor_budget import DescriptorBudget
from scheduler_service.transport.egress_guard import Route
from scheduler_service.transport.errors import TimedOut, TransportError

MOST_CONNECTIONS = 512
"""So many a route has at most, unless its sender says otherwise."""

# Per route at the same time. Opening a connection costs several times what an exchange does: when hundreds of
# calls are due at one moment, the first connections serve most of them before another one could be opened.
_MAX_OPENING = 16

# This many connections keep the loop busy when their answers arrive without a pause. Each further one costs
# the scheduler and the target more than an exchange, and a burst of them overflows the target's queue of
# connections that it has not accepted yet (mostly 100 to 500 long): the rest retry after a whole second.
_BUSY_CONNECTIONS = 48

_BUSY_SECONDS = 0.005


class Waiter:
    """A place in the queue. `given` resolves to a connection, None (one may be opened) or the call's error.

    `is_short`: it has waited for a descriptor. `tenant`: whose call it is.
    """

    __slots__ = ("_origin", "given", "is_short", "tenant")

    def __init__(self, origin: str, loop: asyncio.AbstractEventLoop, tenant: str = "") -> None:
        self.given: asyncio.Future[HttpConnection | TransportError | None] = loop.create_future()
        self._origin = origin
        self.tenant = tenant
        self.is_short = False

    def give(self, connection: HttpConnection | None) -> bool:
        """False: the call no longer waits, and nothing was given."""
        if self.given.done():
            return False
        self.given.set_result(connection)
        return True

    def expire(self) -> None:
        """The call's time is up (called by Deadlines)."""
        self.fail(unreached(self._origin, is_short=self.is_short))

    def fail(self, error: TransportError) -> None:
        """The call ends with `error`, unless it waits no longer."""
        if not self.given.done():
            self.given.set_result(error)


class ConnectionLimit:
    """The connections of one route, at most `most`, those being opened, and the calls that wait for one.

    A route is busy when the loop has handled its answers for 5 ms without once finding none: calls then wait
    for the loop, not for connections, and beyond 48 connections none is opened. When an iteration of the loop
    finds no answer, `on_room` is called: intermittent answers come from afar or from a slow target, and more
    connections help. Each connection takes a descriptor of `budget`. `clock` returns seconds.
    """

    def __init__(
        self,
        route: Route,
        loop: asyncio.AbstractEventLoop,
        most: int,
        on_room: Callable[["ConnectionLimit"], None],
        budget: "DescriptorBudget[ConnectionLimit]",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.route = route
        self.idle: list[HttpConnection] = []
        self.open: set[HttpConnection] = set()
        self.opening = 0
        self.waiting = FairLine[Waiter, None]()  # tenants take turns
        self._loop = loop
        self._most = most
        self._on_room = on_room
        self._budget = budget
        self._clock = clock
        self._returned = 0
        self._busy_since: float | None = None

    @property
    def held(self) -> int:
        """Connections that carry a call or are being opened."""
        return len(self.open) + self.opening - len(self.idle)

    def begin_opening(self) -> None:
        """Notes that one is being opened."""
        self.opening += 1
        self._budget.used += 1

    def end_opening(self) -> None:
        """Notes that this has succeeded or failed."""
        self.opening -= 1
        self._budget.used -= 1

    def add(self, connection: HttpConnection) -> None:
        """Notes that `connection` is open."""
        self.open.add(connection)
        self._budget.used += 1

    def drop(self, connection: HttpConnection) -> None:
        """Notes that `connection` is closed."""
        self._budget.forget(connection)
        if connection in self.open:
            self.open.remove(connection)
            self._budget.used -= 1
        if connection in self.idle:
            self.idle.remove(connection)

    def has_room(self) -> bool:
        """Whether one more may be opened now; if for want of a descriptor alone it may not, it is blocked."""
        total = len(self.open) + self.opening
        if self.opening >= _MAX_OPENING or total >= self._most:
            return False
        if total >= _BUSY_CONNECTIONS and self._is_busy():
            return False
        return self._budget.admits(self)

    def note_delays(self) -> None:
        """Counts those calls that wait for a descriptor; none of them twice."""
        if self not in self._budget.blocked:
            return
        count = 0
        for own in self.waiting.newest_first():
            for waiter in takewhile(lambda one: not one.is_short, own):
                waiter.is_short = True
                count += 1
        if count:
            self._budget.delays.count("calls", count, origin=self.route.site.origin, limit=self._budget.total)

    def is_empty(self) -> bool:
        """Whether it can be forgotten: no connection, and no call that waits for one."""
        return not self.open and not self.opening and not self.waiting

    def count_return(self) -> None:
        """Notes that a connection has finished its exchange."""
        if len(self.open) < _BUSY_CONNECTIONS:
            return
        self._returned += 1
        if self._busy_since is None:
            self._busy_since = self._clock()
            self._loop.call_soon(self._begin_round)

    def _is_busy(self) -> bool:
        return self._busy_since is not None and self._clock() - self._busy_since >= _BUSY_SECONDS

    def _begin_round(self) -> None:
        """The loop starts to handle the answers that have arrived; later ones count for the next round."""
        self._returned = 0
        self._loop.call_soon(self._end_round)

    def _end_round(self) -> None:
        """The loop has handled one round of answers and polled for more without waiting."""
        if self._returned:
            self._begin_round()
            return
        self._busy_since = None
        if self.waiting:
            self._on_room(self)


def unreached(origin: str, *, is_short: bool = False) -> TimedOut:
    """The outcome of a call that got no connection in time; `is_short`: for want of a descriptor."""
    if is_short:
        return TimedOut(f"{origin} had to wait for a descriptor until its time was up: raise LimitNOFILE")
    return TimedOut(f"{origin} could not be reached in time")
