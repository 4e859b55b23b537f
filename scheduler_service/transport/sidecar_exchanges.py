"""Exchanges with this node's daprd over connections that are kept, and the token of its API."""

import asyncio
import math
import ssl
import sys
from functools import cached_property

from scheduler_service.domain.wire import Headers
from scheduler_service.language.urls import SIDECAR_HEADER
from scheduler_service.pacing.waiting_room import Room
from scheduler_service.transport.addresses import read_site
from scheduler_service.transport.connection import Deadlines
from scheduler_service.transport.connection_pool import Pool
from scheduler_service.transport.dns_lookups import SystemResolver
from scheduler_service.transport.egress_guard import EgressPolicy, Guard, Route, Trust
from scheduler_service.transport.errors import TimedOut, Unreached
from scheduler_service.transport.response_parser import ParsedResponse

REFUSED_REMEDY = "dapr.api_token (or DAPR_API_TOKEN) has to be the DAPR_API_TOKEN of daprd"


def show_token(token: str | None) -> Headers:
    """The header by which a caller shows `DAPR_API_TOKEN`; none without it: an empty one would be refused."""
    return () if token is None else ((SIDECAR_HEADER, token),)


HOST = "127.0.0.1"
IDLE_SECONDS = 60.0
_STOPPED = "The connections of this node were closed: it stops."


class KeptConnections:
    """At most `most` connections to `port` of this machine, each with one exchange at a time.

    Who comes when all are in use waits for one, the first to come first. Nothing is sent twice. Answers are
    read up to `response_bytes`. Belongs to the event loop in which it is first used.
    """

    def __init__(self, *, port: int, most: int, response_bytes: int) -> None:
        self._route = Route(read_site("http", f"{HOST}:{port}"), Trust.OWN)
        self._deadlines = Deadlines()
        self._pool = Pool(
            guard=Guard(policy=EgressPolicy(allow=(), deny=()), resolver=SystemResolver()),
            deadlines=self._deadlines,
            trust=ssl.create_default_context,
            response_bytes=response_bytes,
            connections=most,
            idle_seconds=IDLE_SECONDS,
            age_seconds=math.inf,
            descriptors=2 * most,  # of which one route has half
            log=lambda event, /, **keys: None,
            room=Room(sys.maxsize),
        )

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """Cached: `get_running_loop` makes a system call each time."""
        return asyncio.get_running_loop()

    async def exchange(self, request: bytes, *, method: str, seconds: float) -> ParsedResponse:
        """The answer to `request`, a whole one with its head, within `seconds`. Raises TransportError.

        After an error, and where the caller is cancelled, the connection is closed; whether the server has
        acted is unknown, unless the error is Unreached.
        """
        deadline = self._loop.time() + seconds
        try:
            connection = self._pool.take(self._route.site, Trust.OWN)
            if connection is None:
                connection = await self._pool.get(self._route, deadline)
        except TimedOut as error:
            raise Unreached(f"{error} All connections to it may be in use: is it overloaded?") from None
        return await connection.exchange(request, method=method, deadline=deadline)

    async def close(self) -> None:
        """Closes all; what is under way, and what comes later, ends with ConnectFailed."""
        self._pool.close(_STOPPED)
        self._deadlines.close()
