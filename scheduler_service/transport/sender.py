"""Sends one request: resolves the target, guards the address, and follows redirects as the step allows."""

import asyncio
import os
import re
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from urllib.parse import urljoin

import msgspec

from scheduler_service import __version__
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.wire import Answer, Fault, OutboundRequest, Outcome
from scheduler_service.language.urls import REDIRECTS, SIDECAR_HEADER, quote_location, redirect
from scheduler_service.pacing.waiting_room import Room
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.log import Log
from scheduler_service.ports.sending import MayGo, NotSent, always
from scheduler_service.security.signing import CannotSign, RequestSigner, Signed
from scheduler_service.telemetry.metrics.metric_list import Sample
from scheduler_service.transport.addresses import TargetAddress, read_url
from scheduler_service.transport.client_certificates import ClientCertificates
from scheduler_service.transport.connection import Deadlines, HttpConnection
from scheduler_service.transport.connection_limit import MOST_CONNECTIONS
from scheduler_service.transport.connection_pool import RESPONSES_BYTES, Pool
from scheduler_service.transport.egress_guard import EgressPolicy, Guard, Resolver, Route, Trust
from scheduler_service.transport.errors import (
    ConnectFailed,
    Dropped,
    NoInstance,
    NotBack,
    NotSigned,
    RefusedTarget,
    TimedOut,
    TransportError,
    Unreached,
)
from scheduler_service.transport.request_bytes import APART_BYTES, Hop, RequestWriter, count_spans
from scheduler_service.transport.response_parser import ParsedResponse
from scheduler_service.transport.service_urls import Directory, InvocationDirectory, Located, ServiceUrls

SIGNED_AT_ONCE = 262_144
"""A body of so many bytes is digested in less than a millisecond; a longer one beside the loop."""


class HopSigner:
    """Signs hops that name a secret; `signer` None: there are none here."""

    def __init__(self, signer: RequestSigner | None) -> None:
        self._signer = signer

    def find(self, hop: Hop, tenant: str) -> Sequence[bytes]:
        """The keys that sign `hop`, for `sign`. Raises NotSigned."""
        if self._signer is None:
            raise NotSigned("sign names a secret, and there are none here.")
        try:
            return self._signer.find(tenant, hop.sign)
        except CannotSign as why:
            raise NotSigned(f"{why}.") from why

    async def sign(self, hop: Hop, keys: Sequence[bytes]) -> Hop:
        """`hop` as it leaves now; its signature is of this second. Raises NotSigned."""
        assert self._signer is not None, "keys were found"
        plain = Signed(hop.target.path, hop.headers, hop.body)
        try:
            if hop.body is None or len(hop.body) <= SIGNED_AT_ONCE:
                signed = self._signer.sign(keys, plain)
            else:
                loop = asyncio.get_running_loop()
                signed = await loop.run_in_executor(None, self._signer.sign, keys, plain)
        except CannotSign as why:
            raise NotSigned(f"{why}.") from why
        target = TargetAddress(hop.target.site, signed.path)
        replaced = {"target": target, "headers": signed.headers, "body": signed.body, "sign": ""}
        return msgspec.structs.replace(hop, **replaced)


SystemFunction = Callable[[], Awaitable[Answer]]
"""A function of this process that a system job calls as `system://NAME`."""

SYSTEM_PREFIX = "system://"
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
INSTANCE_POLL_SECONDS = 0.25
_MAX_CACHED_URLS = 4096
_MAX_CACHED_LENGTH = 512
_STOPPING = "The scheduler is stopping and sends no more requests."
MOST_ORIGINS = 20
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\]")


def _write_nothing(event: str, /, **keys: object) -> None:
    """The log of a sender that has none."""


class HttpSender:
    """`ports.Sender` over connections of our own (docs/decisions/0003-http-client.md).

    Each request is sent once, but for one of an idempotent method on a kept connection that its peer had
    ended before any of the request came: it is sent once more, on a new connection (RFC 9110 section 9.2.2).
    Of others it is unknown whether the request was handled: the call ends as a Fault, like any interrupted
    exchange, and `retry` decides (docs/decisions/0003-http-client.md).
    Timeouts cover the whole call and may be 16 ms late; `clock`, the host's, is that of
    `X-Scheduling-Deadline`. Answers in gzip or deflate (requested by the step's
    own Accept-Encoding) are decoded, and the headers that described the encoded body are left out. `trust_of`
    says who vouches for addresses of services (`ServiceUrls`); `sidecar` finds services itself. Large
    responses are read as there is `room`, which is the host's as well. A request that is to be signed is
    signed by `signer` when its connection is there, each hop anew; one to another origin is not.
    `certificates` are shown to their origins. A sender belongs to the event loop in which it is first used.
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
        clock: Clock,
        trust_of: Callable[[str, bool | None], Trust],
        trust: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        connections: int = MOST_CONNECTIONS,
        idle_seconds: float = 1.5,
        age_seconds: float = 60.0,
        descriptors: int = 16_384,
        log: Log = _write_nothing,
        sidecar: InvocationDirectory | None = None,
        room: Room | None = None,
        signer: RequestSigner | None = None,
        certificates: ClientCertificates | None = None,
    ) -> None:
        self._services = ServiceUrls(
            directory=directory, owner_url=owner_url, gateway=gateway, trust_of=trust_of, sidecar=sidecar
        )
        self._system = dict(system)
        self._hop_signer = HopSigner(signer)
        self._request_writer = RequestWriter(
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
            descriptors=descriptors,
            log=log,
            room=Room(RESPONSES_BYTES) if room is None else room,
            certificates=certificates,
        )
        self._clock = clock
        self._targets: dict[str, TargetAddress] = {}
        self._is_closed = False

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """Cached: `get_running_loop` makes a system call each time."""
        return asyncio.get_running_loop()

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The target's answer, or why there is none. Raises nothing but CancelledError and NotSent."""
        started = self._loop.time()
        deadline = started + request.timeout / 1000
        url = request.url
        try:
            target = self._targets.get(url)  # most calls repeat a URL
            if target is None:
                target = self._plain_target(url)
            if target is None:
                reply, url = await self._answer_specially(request, deadline, may_go)
            else:
                hop = Hop(
                    request.method, target, request.headers, request.body, Trust.NONE, sign=request.sign
                )
                until = self._write_deadline(request)
                reply = await self._exchange(hop, request, until, deadline, may_go)
                if request.redirects and reply.status >= 300:
                    reply, hop = await self._follow(hop, reply, request, until, deadline)
                    if hop.target is not target:
                        url = write_url(hop.target)
        except TransportError as error:
            elapsed = _milliseconds(self._loop.time() - started)
            return Fault(error.kind, str(error), elapsed, isinstance(error, Unreached))
        return Answer(
            reply.status,
            reply.headers,
            reply.body,
            reply.truncated,
            _milliseconds(self._loop.time() - started),
            url,
        )

    def open_calls(self) -> dict[str, dict[str, int]]:
        """`open`, `idle` and `opening` connections and `waiting` calls of the 20 busiest origins."""
        return self._pool.count_calls(MOST_ORIGINS)

    def samples(self) -> Iterable[Sample]:
        """The figures of its connections."""
        return self._pool.samples()

    async def close(self) -> None:
        """Closes idle connections and fails calls in flight; later calls end as a Fault."""
        self._is_closed = True
        self._targets.clear()  # what asks for one again learns that it is closed
        self._pool.close(_STOPPING)
        self._deadlines.close()

    def _write_deadline(self, request: OutboundRequest) -> str:
        return rfc3339(self._clock.now().wall + (request.awaited or request.timeout))

    def _plain_target(self, url: str) -> TargetAddress | None:
        """The target of an http(s) URL; None: a function of this process, or an address of a service."""
        if url.startswith(SYSTEM_PREFIX) or url[:8].lower() == "service:" or self._is_closed:
            return None
        return self._read(url)

    async def _answer_specially(
        self, request: OutboundRequest, deadline: float, may_go: MayGo
    ) -> tuple[ParsedResponse | Answer, str]:
        """What a function of this process or an instance of a service answered, and its address."""
        if self._is_closed:
            raise ConnectFailed(_STOPPING)
        if request.url.startswith(SYSTEM_PREFIX):
            if not may_go():
                raise NotSent
            # A task of its own: timeouts need one, and the caller may have none.
            return await asyncio.create_task(self._call_system(request, deadline)), request.url
        until = self._write_deadline(request)
        first, hop = await self._reach(request, until, deadline, may_go)
        reply, hop = await self._follow(hop, first, request, until, deadline)
        return reply, write_url(hop.target)

    async def _follow(
        self, hop: Hop, reply: ParsedResponse, request: OutboundRequest, until: str, deadline: float
    ) -> tuple[ParsedResponse, Hop]:
        """The answer after the redirects that the step allows, and the hop that got it."""
        for _ in range(request.redirects):
            following = follow(hop, reply)
            if following is None:
                break
            hop = following
            # The request has been sent: reporting NotSent now would send it again.
            try:
                reply = await self._exchange(hop, request, until, deadline, always)
            except Unreached as error:
                raise ConnectFailed(str(error)) from None
        return reply, hop

    async def _reach(
        self, request: OutboundRequest, until: str, deadline: float, may_go: MayGo
    ) -> tuple[ParsedResponse, Hop]:
        """The answer of a service, and the hop; waits where no instance takes work or can be reached."""
        started = self._clock.now().steady
        while True:
            try:
                hop = _first_hop(request, self._services.locate(request.url, request.base, request.vouched))
                return await self._exchange(hop, request, until, deadline, may_go), hop
            except (NotBack, Unreached):
                wait = 0 if request.base else self._services.wait(request.url)
                if self._clock.now().steady - started >= wait:
                    raise
                if asyncio.get_running_loop().time() + INSTANCE_POLL_SECONDS >= deadline:
                    raise
            await asyncio.create_task(asyncio.sleep(INSTANCE_POLL_SECONDS))

    async def _call_system(self, request: OutboundRequest, deadline: float) -> Answer:
        function = self._system.get(request.url.removeprefix(SYSTEM_PREFIX))
        if function is None:
            raise NoInstance(
                f"{request.url[:80]!r} is not a system function: use one of {sorted(self._system)}."
            )
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                return await _run_system(request.url, function)
        raise TimedOut(f"{request.url} did not end in time")  # outside of the block, as in the pool

    def _read(self, url: str) -> TargetAddress:
        """Reads a URL and caches its target."""
        target = read_url(url)
        if len(self._targets) >= _MAX_CACHED_URLS:
            self._targets.clear()
        if len(url) <= _MAX_CACHED_LENGTH:
            self._targets[url] = target
        return target

    def _exchange(
        self, hop: Hop, request: OutboundRequest, until: str, deadline: float, may_go: MayGo
    ) -> Awaitable[ParsedResponse]:
        """Sends one request when it is awaited: no coroutine of its own where a connection is idle."""
        if hop.sign:
            return self._exchange_signed(hop, request, until, deadline, may_go)
        data = self._request_writer.write(hop, request.trace, until, request.span)
        body = hop.body
        if body is not None and len(body) <= APART_BYTES:
            body = None  # it is in `data`
        site = hop.target.site
        connection = self._pool.take(site, hop.trust)
        if connection is None:
            return self._exchange_later(hop, data, body, deadline, may_go, request.tenant)
        if not may_go():
            self._pool.release(connection)
            raise NotSent
        if hop.method in _IDEMPOTENT:
            return self._exchange_again(connection, hop, data, body, deadline)
        return connection.exchange(data, method=hop.method, deadline=deadline, body=body)

    async def _exchange_signed(
        self,
        hop: Hop,
        request: OutboundRequest,
        until: str,
        deadline: float,
        may_go: MayGo,
        is_new: bool = False,
    ) -> ParsedResponse:
        """As `_exchange`; the signature is made when all has been waited for, so that its time is that.

        `is_new`: over a new connection.
        """
        keys = self._hop_signer.find(hop, request.tenant)
        route = Route(hop.target.site, hop.trust)
        connection = None if is_new else self._pool.take(route.site, hop.trust)
        if connection is None:
            connection = await self._pool.get(route, deadline, is_new=is_new, tenant=request.tenant)
        try:
            signed = await self._hop_signer.sign(hop, keys)
            data = self._request_writer.write(signed, request.trace, until, request.span)
            goes = may_go()
        except BaseException:
            self._pool.release(connection)
            raise
        if not goes:
            self._pool.release(connection)
            raise NotSent
        body = signed.body if signed.body is not None and len(signed.body) > APART_BYTES else None
        is_repeatable = connection.idle_since and hop.method in _IDEMPOTENT
        try:
            return await connection.exchange(data, method=hop.method, deadline=deadline, body=body)
        except Dropped as error:
            if not (is_repeatable and has_come_too_late(error, data, body)):
                raise
        try:  # with a signature of its own: the peer may have accepted the first one
            return await self._exchange_signed(hop, request, until, deadline, always, is_new=True)
        except Unreached as error:
            raise ConnectFailed(str(error)) from None

    async def _exchange_again(
        self, connection: HttpConnection, hop: Hop, data: bytes, body: bytes | None, deadline: float
    ) -> ParsedResponse:
        """An exchange on a kept connection; on a new one where the peer had closed it before."""
        try:
            return await connection.exchange(data, method=hop.method, deadline=deadline, body=body)
        except Dropped as error:
            if not has_come_too_late(error, data, body):
                raise
        try:
            fresh = await self._pool.get(Route(hop.target.site, hop.trust), deadline, is_new=True)
        except Unreached as error:
            raise ConnectFailed(str(error)) from None  # the request has been sent
        return await fresh.exchange(data, method=hop.method, deadline=deadline, body=body)

    async def _exchange_later(
        self, hop: Hop, data: bytes, body: bytes | None, deadline: float, may_go: MayGo, tenant: str
    ) -> ParsedResponse:
        connection = await self._pool.get(Route(hop.target.site, hop.trust), deadline, tenant=tenant)
        if not may_go():
            self._pool.release(connection)
            raise NotSent
        if connection.idle_since and hop.method in _IDEMPOTENT:  # another call has returned it
            return await self._exchange_again(connection, hop, data, body, deadline)
        return await connection.exchange(data, method=hop.method, deadline=deadline, body=body)


def has_come_too_late(error: Dropped, data: bytes, body: bytes | None) -> bool:
    """Whether nothing of a request came to the peer before it ended the connection."""
    return error.unheard >= len(data) + len(body or b"")


def _first_hop(request: OutboundRequest, located: Located) -> Hop:
    """To the sidecar its own token goes alone: one of the step's would be taken for it."""
    headers = request.headers
    if located.by_sidecar:
        own = (pair for pair in headers if pair[0].lower() != SIDECAR_HEADER)
        headers = (*located.credentials, *own)
    sign = request.sign or located.sign
    return Hop(request.method, located.target, headers, request.body, located.trust, located.by_sidecar, sign)


async def _run_system(url: str, function: SystemFunction) -> Answer:
    try:
        return await function()
    except Exception as error:  # whatever the function raises, the step ends with it
        raise ConnectFailed(f"{url} failed: {type(error).__name__}: {error}") from error


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def follow(hop: Hop, reply: ParsedResponse) -> Hop | None:
    """The hop that a response redirects to, or None if it is not a redirect.

    What goes along, `redirect` decides; nothing is signed for another origin, and only a service's own origin
    stays trusted: not that of the sidecar, where its own API is. Raises RefusedTarget for a Location that is
    not plain http(s).
    """
    location = dict(reply.headers).get("location") if reply.status in REDIRECTS else None
    if location is None:
        return None
    target = _read_location(hop.target, location)
    is_same_site = target.site.origin == hop.target.site.origin and not hop.by_sidecar
    kept = redirect(hop.method, hop.headers, hop.body, reply.status, is_same_origin=is_same_site)
    if kept is None:
        return None
    trust, sign = (hop.trust, hop.sign) if is_same_site else (Trust.NONE, "")
    return Hop(kept.method, target, kept.headers, kept.body, trust, sign=sign)


def write_url(target: TargetAddress) -> str:
    """The URL of a target."""
    return target.site.origin + target.path


def _read_location(base: TargetAddress, location: str) -> TargetAddress:
    # urljoin silently drops some control characters, so they are refused first.
    if _FORBIDDEN.search(location):
        raise RefusedTarget(
            f"{base.site.origin} redirects to something that is not a URL: correct its Location header."
        )
    try:
        return read_url(urljoin(write_url(base), quote_location(location)))
    except ValueError as error:
        raise RefusedTarget(
            f"{base.site.origin} redirects to something that is not a URL: {error}."
        ) from error
