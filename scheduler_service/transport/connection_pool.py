"""Kept-alive connections by origin, the most recently used one first; over the limit, calls queue."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any

from scheduler_service.pacing.waiting_room import Room
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.metric_list import Sample
from scheduler_service.transport.addresses import Site
from scheduler_service.transport.client_certificates import ClientCertificates
from scheduler_service.transport.connection import Deadlines, HttpConnection
from scheduler_service.transport.connection_limit import ConnectionLimit, Waiter, unreached
from scheduler_service.transport.connector import Connector
from scheduler_service.transport.descriptor_budget import DescriptorBudget
from scheduler_service.transport.egress_guard import Guard, Route, Trust
from scheduler_service.transport.errors import ConnectFailed, MachineExhausted, TransportError

_EXHAUSTED_SECONDS = 0.05  # until a connection is tried again for which this machine had no descriptor

RESPONSES_BYTES = 32 << 20
"""So much large responses take together: being read, or not yet taken by their jobs."""


class Pool:
    """Hands out connections to addresses that the guard has admitted.

    At most `connections` per route; few of them are opened at a time, and beyond 48 only those that would
    shorten a wait (`ConnectionLimit`). A waiting call takes the first connection that is opened or returned.
    One idle for `idle_seconds` is closed; that is shorter than the keep-alive of common servers, so that they
    rarely close one during a write. One older than `age_seconds` is not kept, so that a change of the name's
    addresses is followed. All routes together take `descriptors` at most, shared as `DescriptorBudget` says;
    where this machine has no descriptor, a connection is tried again until the deadline of its call. Large
    responses of all of them are read as there is `room`. `certificates` are shown to their origins.
    """

    def __init__(
        self,
        *,
        guard: Guard,
        deadlines: Deadlines,
        trust: Callable[[], ssl.SSLContext],
        response_bytes: int,
        connections: int,
        idle_seconds: float,
        age_seconds: float,
        descriptors: int,
        log: Log,
        room: Room,
        certificates: ClientCertificates | None = None,
    ) -> None:
        self._connector = Connector(
            guard=guard,
            deadlines=deadlines,
            trust=trust,
            response_bytes=response_bytes,
            room=room,
            certificates=certificates,
        )
        self._room = room
        self._deadlines = deadlines
        self._connections = connections
        self._idle_seconds = idle_seconds
        self._age_seconds = age_seconds
        self.budget: DescriptorBudget[ConnectionLimit] = DescriptorBudget(
            descriptors, count_idle=self._count_idle, close_idle=self._close_longest_idle, log=log
        )
        self._limits: dict[tuple[str, Trust], ConnectionLimit] = {}
        self._limit_of: dict[HttpConnection, ConnectionLimit] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._refusal: str | None = None

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """Cached: `get_running_loop` makes a system call each time."""
        return asyncio.get_running_loop()

    @property
    def routes(self) -> int:
        """How many have a connection, or a call that waits for one."""
        return len(self._limits)

    def count_calls(self, most: int) -> dict[str, dict[str, int]]:
        """Connections and waiting calls of the `most` busiest origins."""
        found: dict[str, dict[str, int]] = {}
        for (origin, _), limit in self._limits.items():
            counts = found.setdefault(origin, dict.fromkeys(("open", "idle", "opening", "waiting"), 0))
            counts["open"] += len(limit.open)
            counts["idle"] += len(limit.idle)
            counts["opening"] += limit.opening
            counts["waiting"] += len(limit.waiting)
        busiest = sorted(found, key=lambda origin: -sum(found[origin].values()))
        return {origin: found[origin] for origin in busiest[:most]}

    def samples(self) -> Iterator[Sample]:
        """How many connections there are in each state, what waits for one, and what large responses take."""
        limits = self._limits.values()
        idle = sum(len(limit.idle) for limit in limits)
        states = {
            "busy": sum(len(limit.open) for limit in limits) - idle,
            "idle": idle,
            "opening": sum(limit.opening for limit in limits),
        }
        for state, count in states.items():
            yield Sample(metric_list.CALL_CONNECTIONS.name, (state,), count)
        yield Sample(metric_list.CALLS_WAITING.name, (), sum(len(limit.waiting) for limit in limits))
        yield Sample(metric_list.CALL_DESCRIPTORS.name, (), self.budget.total)
        yield Sample(metric_list.RESPONSE_BYTES.name, (), self._room.taken)
        yield Sample(metric_list.RESPONSES_WAITING.name, (), self._room.waiting)

    def take(self, site: Site, trust: Trust) -> HttpConnection | None:
        """The most recently used idle connection that this machine has not seen closed; or None."""
        limit = self._limits.get((site.origin, trust))
        if limit is None or not limit.idle:
            return None
        now = self._loop.time()
        while limit.idle:
            connection = limit.idle.pop()
            if now - connection.idle_since < self._idle_seconds and connection.is_alive():
                return connection
            connection.abandon()
        return None

    def get(
        self, route: Route, deadline: float, *, is_new: bool = False, tenant: str = ""
    ) -> Coroutine[Any, Any, HttpConnection]:
        """A connection to an admitted address, by `deadline`; may wait in the queue. To be awaited at once.

        `is_new`: one that has carried no exchange. Calls of several tenants that wait take turns.

        Raises TransportError; once the pool is closed, ConnectFailed with the reason of `close`.
        A call waits without a task and a timer of its own: in a burst, most calls wait.
        """
        if self._refusal is not None:
            raise ConnectFailed(self._refusal)
        key = route.site.origin, route.trust
        limit = self._limits.get(key)
        if limit is None:
            limit = self._limits[key] = ConnectionLimit(
                route, self._loop, self._connections, self._pass_on, self.budget
            )
        if limit.has_room():
            limit.begin_opening()
            return self._open_counted(limit, deadline)
        return self._queue(limit, deadline, is_new=is_new, tenant=tenant)

    async def _open_counted(self, limit: ConnectionLimit, deadline: float) -> HttpConnection:
        """A new connection, already counted in `opening`."""
        opened: asyncio.Task[HttpConnection] | None = None
        try:
            # A task of its own: timeouts need one, and the caller may have none.
            opened = asyncio.create_task(self._open(limit, deadline))
            return await opened
        except asyncio.CancelledError:
            if opened is not None and opened.done() and not opened.cancelled() and opened.exception() is None:
                self.release(opened.result())
            raise
        finally:
            # The error's traceback refers to this frame: a cycle that would keep the whole request alive.
            opened = None
            limit.end_opening()
            self._pass_on(limit)

    def release(self, connection: HttpConnection) -> None:
        """Takes a connection back after its exchange: for the next waiting call, or to keep it."""
        limit = self._limit_of.get(connection)
        now = self._loop.time()
        if limit is None or now - connection.opened_at > self._age_seconds:
            connection.abandon()
            return
        connection.idle_since = now
        limit.count_return()
        if self.budget.blocked and self.budget.owes(limit, connection):
            connection.abandon()
            return
        while limit.waiting:
            if limit.waiting.pop()[0].give(connection):
                return
        limit.idle.append(connection)
        if self._sweep is None:
            self._schedule()
        if self.budget.blocked:
            self._share()

    def lose(self, connection: HttpConnection) -> None:
        """Forgets a closed connection; the next waiting call may open another one."""
        limit = self._limit_of.pop(connection, None)
        if limit is None:
            return
        limit.drop(connection)
        self._pass_on(limit)

    def close(self, reason: str) -> None:
        """Closes every connection; exchanges in flight and calls that wait in line end with `reason`."""
        self._refusal = reason
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for limit in self._limits.values():  # first: a connection that fails makes room for who waits
            while limit.waiting:
                limit.waiting.pop()[0].fail(ConnectFailed(reason))
        for connection in tuple(self._limit_of):
            connection.fail(reason)
        self.budget.close()

    async def _queue(
        self, limit: ConnectionLimit, deadline: float, *, is_new: bool, tenant: str
    ) -> HttpConnection:
        """A live connection that was returned or opened by another call, or a new one where it may open one.

        Raises TransportError: TimedOut, and ConnectFailed where the pool is closed meanwhile.
        """
        waiter = Waiter(limit.route.site.origin, self._loop, tenant)
        limit.waiting.add(waiter, None, tenant)
        if self.budget.blocked:
            limit.note_delays()
        bucket = self._deadlines.arm(waiter, deadline)
        try:
            given = await waiter.given
        except asyncio.CancelledError:
            self._leave(limit, waiter)
            raise
        finally:
            bucket.discard(waiter)
        if isinstance(given, TransportError):
            self._leave(limit, waiter)
            try:
                raise given
            finally:
                del given, waiter  # its traceback refers to this frame, as above
        if given is not None and (is_new or not given.is_alive()):
            given.abandon()
            limit.begin_opening()
            self._limits.setdefault(_key(limit.route), limit)  # forgotten, if that was its last connection
            given = None
        return await self._open_counted(limit, deadline) if given is None else given

    def _leave(self, limit: ConnectionLimit, waiter: Waiter) -> None:
        """Removes a waiting call from the queue, and passes on what it was given meanwhile."""
        if not limit.waiting.discard(waiter, waiter.tenant) and not waiter.given.cancelled():
            given = waiter.given.result()
            if isinstance(given, HttpConnection):
                self.release(given)
            elif given is None:
                limit.end_opening()
                self._pass_on(limit)
        self._forget(limit)

    def _pass_on(self, limit: ConnectionLimit) -> None:
        """Lets waiting calls open connections while there is room; forgets a route that is not used."""
        if self.budget.blocked:
            if limit.waiting:
                self.budget.blocked.setdefault(limit)  # in line with the others
            self._share()
        else:
            _serve(limit)
        self._forget(limit)

    def _forget(self, limit: ConnectionLimit) -> None:
        """Removes a route that is not used; without a call in line, it waits for no descriptor either."""
        if limit.waiting:
            return
        self.budget.blocked.pop(limit, None)
        key = _key(limit.route)
        if limit.is_empty() and self._limits.get(key) is limit:
            del self._limits[key]

    def _share(self) -> None:
        """Lets routes that wait for a descriptor have those that are free, the neediest first."""
        while (neediest := self.budget.next()) is not None:
            _serve(neediest)

    def _count_idle(self) -> int:
        return sum(len(limit.idle) for limit in self._limits.values())

    def _close_longest_idle(self) -> HttpConnection | None:
        holders = [limit for limit in self._limits.values() if limit.idle]
        if not holders:
            return None
        connection = min(holders, key=lambda limit: limit.idle[0].idle_since).idle.pop(0)
        connection.abandon()
        return connection

    async def _open(self, limit: ConnectionLimit, deadline: float) -> HttpConnection:
        is_short = False
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while True:
                    self._check_open()
                    with suppress(MachineExhausted):
                        return self._adopt(limit, await self._connector.connect(limit.route, self))
                    is_short = True
                    self.budget.note_exhausted("connect")
                    await asyncio.sleep(_EXHAUSTED_SECONDS)
        # Outside of the block: else it would keep the error of the timeout, which refers to this task.
        raise unreached(limit.route.site.origin, is_short=is_short)

    def _adopt(self, limit: ConnectionLimit, connection: HttpConnection) -> HttpConnection:
        """`connection`, now one of the route. Raises ConnectFailed where the pool was closed meanwhile."""
        if self._refusal is not None:
            connection.abandon()
            self._check_open()
        if not connection.is_closed:
            limit.add(connection)
            self._limit_of[connection] = limit
        return connection

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise ConnectFailed(self._refusal)

    def _schedule(self) -> None:
        self._sweep = self._loop.call_later(self._idle_seconds, self._close_idle)

    def _close_idle(self) -> None:
        self._sweep = None
        oldest = self._loop.time() - self._idle_seconds
        for limit in tuple(self._limits.values()):
            while limit.idle and limit.idle[0].idle_since <= oldest:
                limit.idle.pop(0).abandon()
        if any(limit.idle for limit in self._limits.values()):
            self._schedule()


def _key(route: Route) -> tuple[str, Trust]:
    return route.site.origin, route.trust


def _serve(limit: ConnectionLimit) -> None:
    """Lets its waiting calls open connections while there is room."""
    while limit.waiting and limit.has_room():
        if limit.waiting.pop()[0].give(None):
            limit.begin_opening()
    limit.note_delays()
