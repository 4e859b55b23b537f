"""The sender: resolve the target, guard the address, send, and follow redirects as far as the step says."""

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from functools import cached_property

from scheduler_service import __version__
from scheduler_service.domain.wire import Answer, Fault, OutboundRequest, Outcome
from scheduler_service.ports.sending import MayGo, NotSent, always
from scheduler_service.transport.addresses import Target, read_url
from scheduler_service.transport.deadlines import Deadlines
from scheduler_service.transport.errors import ConnectFailed, NotBack, TimedOut, TransportError
from scheduler_service.transport.guard import EgressPolicy
from scheduler_service.transport.pool import Pool
from scheduler_service.transport.redirects import follow, write_url
from scheduler_service.transport.request_bytes import Hop, RequestWriter, count_spans
from scheduler_service.transport.resolver import Guard, Resolver, Route
from scheduler_service.transport.response_parser import ParsedResponse
from scheduler_service.transport.service_urls import Directory, ServiceUrls
from scheduler_service.transport.system_functions import PREFIX, SystemFunction, SystemFunctions

LOOK = 0.25
"""How often it looks whether an instance is back, in seconds."""
_REMEMBERED = 4096  # URLs
_REMEMBERED_LENGTH = 512
_STOPPING = "The scheduler is stopping: nothing is sent any more."


class HttpSender:
    """`ports.Sender` over connections of our own (docs/decisions/0003-http-client.md).

    It sends each request once: when a kept-alive connection is closed by the peer in the very moment in which
    we write, nobody can know whether the request was handled, so that ends as a Fault like any other cut.
    Timeouts cover the whole call and may come 16 ms late. Answers in gzip or deflate (asked for by the step's
    own Accept-Encoding) are decoded, and the headers that described the encoded body are left out.
    Belongs to the event loop in which it is first used.
    """

    def __init__(
        self,
        *,
        policy: EgressPolicy,
        directory: Directory,
        resolver: Resolver,
        response_bytes: int,
        owner_url: str | None,
        gateway: str | None,
        system: Mapping[str, SystemFunction],
        trust: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        connections: int = 512,
        idle_seconds: float = 1.5,
        age_seconds: float = 60.0,
    ) -> None:
        self._services = ServiceUrls(directory=directory, owner_url=owner_url, gateway=gateway)
        self._system = SystemFunctions(functions=system)
        self._scribe = RequestWriter(
            agent=f"punctual/{__version__}", spans=count_spans(int.from_bytes(os.urandom(8)))
        )
        self._deadlines = Deadlines()
        self._pool = Pool(
            guard=Guard(policy=policy, resolver=resolver),
            deadlines=self._deadlines,
            trust=trust,
            response_bytes=response_bytes,
            connections=connections,
            idle_seconds=idle_seconds,
            age_seconds=age_seconds,
        )
        self._places: dict[str, Target] = {}
        self._is_closed = False

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """To ask for the running one takes a system call each time."""
        return asyncio.get_running_loop()

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The target's answer, or why there is none. Raises nothing but CancelledError and NotSent."""
        started = self._loop.time()
        try:
            reply, url = await self._answer(request, started + request.timeout / 1000, may_go)
        except TransportError as error:
            return Fault(error.kind, str(error), _milliseconds(self._loop.time() - started))
        return Answer(
            reply.status,
            reply.headers,
            reply.body,
            reply.truncated,
            _milliseconds(self._loop.time() - started),
            url,
        )

    async def close(self) -> None:
        """Closes idle connections and fails what is in flight; what is sent afterwards is a Fault."""
        self._is_closed = True
        self._pool.close(_STOPPING)
        self._deadlines.close()

    async def _answer(
        self, request: OutboundRequest, deadline: float, may_go: MayGo
    ) -> tuple[ParsedResponse | Answer, str]:
        if self._is_closed:
            raise ConnectFailed(_STOPPING)
        is_service = False
        place = self._places.get(request.url)  # most calls go where others went before
        if place is None:
            if request.url.startswith(PREFIX):
                if not may_go():
                    raise NotSent
                # A task of its own: timeouts need one, and a call may have none.
                return await asyncio.create_task(self._call_system(request, deadline)), request.url
            is_service = request.url[:8].lower() == "service:"
            place = await self._find(request, deadline) if is_service else self._read(request.url)
        hop = Hop(request.method, place, request.headers, request.body, is_service)
        reply = await self._exchange(hop, request.trace, deadline, may_go)
        for _ in range(request.redirects):
            following = follow(hop, reply)
            if following is None:
                break
            hop = following
            # It has left: to say that it has not would have it sent again.
            reply = await self._exchange(hop, request.trace, deadline, always)
        return reply, request.url if hop.target is place and not is_service else write_url(hop.target)

    async def _find(self, request: OutboundRequest, deadline: float) -> Target:
        """Where the service is; after a start of ours, as soon as one of its instances is back in time."""
        while True:
            try:
                return self._services.locate(request.url, request.base)
            except NotBack:
                if asyncio.get_running_loop().time() + LOOK >= deadline:
                    raise
            await asyncio.create_task(asyncio.sleep(LOOK))

    async def _call_system(self, request: OutboundRequest, deadline: float) -> Answer:
        try:
            async with asyncio.timeout_at(deadline):
                return await self._system.call(request.url)
        except TimeoutError:
            raise TimedOut(f"{request.url} did not end in time: raise timeoutSeconds.") from None

    def _read(self, url: str) -> Target:
        """Reads a URL that is not among the places yet, and remembers it there."""
        place = read_url(url)
        if len(self._places) >= _REMEMBERED:
            self._places.clear()
        if len(url) <= _REMEMBERED_LENGTH:
            self._places[url] = place
        return place

    async def _exchange(self, hop: Hop, trace: str, deadline: float, may_go: MayGo) -> ParsedResponse:
        data = self._scribe.write(hop, trace)
        connection = self._pool.take(hop.target.site, hop.trusted)
        if connection is None:
            connection = await self._pool.get(Route(hop.target.site, hop.trusted), deadline)
        if not may_go():
            self._pool.release(connection)
            raise NotSent
        future = connection.start(data, method=hop.method, deadline=deadline)
        try:
            outcome = await future
        except asyncio.CancelledError:
            connection.give_up(future)
            raise
        if isinstance(outcome, TransportError):
            try:
                raise outcome
            finally:
                # Its traceback names this frame: a circle, which would keep the whole request.
                del outcome, future
        return outcome


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
