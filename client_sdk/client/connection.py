"""One service over HTTP: a call, its retries, and its answer as a model."""

import asyncio
import ipaddress
import json
import random
import re
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import httpx

from client_sdk.client.call_retries import (
    MAY_HAVE_ARRIVED,
    Patience,
    Repeat,
    may_repeat_answer,
    may_repeat_failure,
    was_not_sent,
)
from client_sdk.client.http_answers import Envelope, read_envelope, unreadable
from client_sdk.decoding import CODINGS, coding_of, is_decoded, read_decoded, with_body
from client_sdk.errors import Unreachable, Unreadable
from client_sdk.traces import TRACEPARENT, current_traceparent
from client_sdk.trust import check_file, explain_tls, trusted

if TYPE_CHECKING:
    from pydantic import BaseModel

Answer = TypeVar("Answer", bound="BaseModel")
Pause = Callable[[float], Awaitable[None]]

LARGEST_ANSWER = 64 << 20
"""Bytes of a body, decoded: nothing that a scheduler says is larger."""
ANSWER_SECONDS = 120.0
"""An answer that comes byte by byte may take so long beyond the HTTP timeout, which counts anew for each."""

READ_FLAWS = 5
"""So many flaws of an answer are named in an error; where it has more, "check all of it" is."""
LONGEST_HOST = 253
HIGHEST_PORT = 65_535
_HOST_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
FIRST_POLL_SECONDS, LONGEST_POLL_SECONDS = 0.05, 2.0

_Tried = tuple[httpx.Response, None] | tuple[None, httpx.TransportError]
PAGE = 100


class _Line(NamedTuple):
    """The connections of one event loop, and what closes them when that loop ends."""

    transport: httpx.AsyncBaseTransport
    closing: AsyncGenerator[None, None]


class Connection:
    """Sends calls to one service and reads the answers; each event loop has connections of its own.

    A `transport` that is given is the caller's, and belongs to one event loop. `ca` is a file of certificates
    that are trusted, beside those of the system.
    """

    def __init__(
        self,
        *,
        url: str,
        key: str | None,
        timeout: float,
        patience: Patience,
        transport: httpx.AsyncBaseTransport | None,
        ca: str | None = None,
        pause: Pause = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        if key is not None and not (key.isascii() and key.isprintable()):
            raise ValueError("key has characters that a header cannot have: does it end with a line break?")
        headers = {"Accept-Encoding": CODINGS, **({"Authorization": f"Bearer {key}"} if key else {})}
        if not (isinstance(timeout, int | float) and timeout > 0):
            raise ValueError(f"timeout is {timeout!r}: give the seconds of one call, above 0")
        address = read_url(url)
        if ca is not None:
            check_file(ca)
        self._ca = ca
        self._is_secure = address.scheme == "https"
        # It makes requests, and sends none.
        self._http = httpx.AsyncClient(
            base_url=address,
            headers=headers,
            timeout=timeout,
            transport=httpx.AsyncBaseTransport(),
            trust_env=False,
        )
        self._given = transport
        self._lines: dict[asyncio.AbstractEventLoop, _Line] = {}
        self.url = url
        self._timeout = timeout
        self._patience = patience
        self._pause = pause
        self._chance = chance
        self._answer_seconds = answer_seconds

    async def close(self) -> None:
        """Closes the connections of the running event loop; those of others close when their loops end."""
        if self._given is not None:
            await self._given.aclose()
        line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await line.closing.aclose()

    @property
    def takes_any_loop(self) -> bool:
        """Whether any event loop may use it; a transport that was given belongs to one."""
        return self._given is None

    async def pause(self, seconds: float) -> None:
        """Pauses, by the same clock as the retries."""
        await self._pause(seconds)

    async def looks(self, timeout: float | None) -> AsyncIterator[float]:
        """When to look whether something has ended: the seconds so far, ever later, up to `timeout`.

        Raises ValueError for a `timeout` below 0.
        """
        if timeout is not None and timeout < 0:
            raise ValueError(f"timeout is {timeout!r}: give seconds from 0 on, or None for no limit")
        began, pause = time.monotonic(), FIRST_POLL_SECONDS
        while True:
            yield time.monotonic() - began
            if timeout is not None and time.monotonic() - began + pause > timeout:
                return
            await self._pause(pause)
            pause = min(pause * 1.5, LONGEST_POLL_SECONDS)

    async def read(self, model: type[Answer], path: str, **query: Any) -> Answer:
        """The `data` of a GET. Raises SdkError."""
        return await self.call(model, "GET", path, query=query)

    async def call(self, model: type[Answer], method: str, path: str, **sending: Any) -> Answer:
        """The `data` of an answer, with its warnings where `model` has them; `sending` is as of `send`."""
        data, warnings = await self.send(method, path, **sending)
        if "warnings" in model.model_fields and isinstance(data, dict):
            data = {"warnings": warnings, **data}
        return parse(model, data)

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        repeat: Repeat = Repeat.HARMLESS,
        longer: float = 0.0,
        patience: Patience | None = None,
    ) -> Envelope:
        """Sends a call, with retries. `longer` is added to the HTTP timeout.

        `patience` replaces that of the connection. Query members that are None are left out. The current
        trace goes with it (`client_sdk.traces`). A DELETE that finds nothing after a try whose answer was
        lost has succeeded: its `data` is None. Raises Unreachable, Unreadable, Problem.
        """
        request = self._http.build_request(
            method,
            path,
            params=_write_query(query or {}),
            content=None if body is None else write_json(body),
            headers=_headers(headers or {}, has_body=body is not None),
            timeout=self._timeout + longer,
        )
        answer, may_be_done = await self._send_with_retries(request, repeat, patience or self._patience)
        if method == "DELETE" and may_be_done and answer.status_code == httpx.codes.NOT_FOUND:
            return Envelope(None, [])
        return read_envelope(answer)

    async def open(
        self, path: str, query: Mapping[str, Any], headers: Mapping[str, str], *, silence: float
    ) -> httpx.Response:
        """An answer that is read as it comes; the caller closes it. `silence`: seconds without a byte.

        Raises Problem, Unreadable for another service's answer, Unreachable.
        """
        timeout = httpx.Timeout(self._timeout, read=silence)
        request = self._http.build_request(
            "GET", path, params=_write_query(query), headers=headers, timeout=timeout
        )
        try:
            answer = await (await self._transport()).handle_async_request(request)
        except (httpx.TransportError, ExceptionGroup) as error:
            raise _unreachable(self.url, str(error), error) from error
        answer.request = request
        if not answer.is_success or "text/event-stream" not in answer.headers.get("content-type", ""):
            whole = await _read_whole(answer)
            read_envelope(whole)  # raises what the service says
            raise unreadable(whole)
        return answer

    async def _send_with_retries(
        self, request: httpx.Request, repeat: Repeat, patience: Patience
    ) -> tuple[httpx.Response, bool]:
        """The last answer, and whether an earlier try may have taken effect although its answer was lost."""
        done, may_be_done = 0, False
        while True:
            answer, failure = await self._try(request)
            done += 1
            may = (answer is not None and may_repeat_answer(answer, repeat)) or (
                failure is not None and may_repeat_failure(failure, repeat)
            )
            wait = patience.wait(done, answer, self._chance()) if may else None
            if wait is not None:
                may_be_done |= answer is None or answer.status_code in MAY_HAVE_ARRIVED
                await self._pause(wait)
            elif answer is not None:
                return answer, may_be_done
            else:
                reason = str(failure) or type(failure).__name__
                raise _unreachable(self.url, f"{reason}, {done} tries", failure) from failure

    async def _try(self, request: httpx.Request) -> _Tried:
        # Not through the client: it logs each URL, and so heartbeats, and the tokens of feedback and leases.
        silence = request.extensions["timeout"]["read"]
        longest = None if silence is None else silence + self._answer_seconds
        try:
            async with asyncio.timeout(longest):
                answer = await (await self._transport()).handle_async_request(request)
                answer.request = request
                return await _read_whole(answer), None
        except TimeoutError:
            return None, httpx.ReadTimeout(f"no whole answer within {longest:g} s")
        except httpx.TransportError as error:
            return None, error
        except ExceptionGroup as error:  # of the addresses of a host, which are tried at the same time
            failure = httpx.ConnectError(str(_innermost(error)))
            failure.__cause__ = error
            return None, failure

    async def _transport(self) -> httpx.AsyncBaseTransport:
        """The given one, else that of the running event loop, which is closed when the loop ends."""
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            for known in list(self._lines):  # at once, as other threads add theirs
                if known.is_closed():
                    self._lines.pop(known, None)
            transport = httpx.AsyncHTTPTransport(trust_env=False, verify=self._trust)
            line = self._lines[loop] = _Line(transport, _close_at_end(transport))
            await anext(line.closing)
        return line.transport

    @cached_property
    def _trust(self) -> ssl.SSLContext | bool:
        """Made once it is needed: without TLS it is not, and takes 30 ms."""
        return trusted(self._ca) if self._is_secure else False


def write_json(value: Any) -> bytes:
    """The value as JSON. Raises TypeError or ValueError, with its place, for what JSON has no form of."""
    try:
        return json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        place, found = _find_flaw(value, "")
        text = f"{place or 'it'} is {found!r}, of type {type(found).__name__}: JSON has no form of it"
        raise type(error)(text) from error


def _find_flaw(value: Any, place: str) -> tuple[str, Any]:
    """The pointer and the value of the first thing inside of it that is not written as JSON."""
    members: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list | tuple):
        members = enumerate(value)
    for name, member in members:
        try:
            json.dumps(member, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            return _find_flaw(member, f"{place}/{name}")
    return place, value


class CallGroup:
    """The calls of one kind, over one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection


async def _close_at_end(transport: httpx.AsyncBaseTransport) -> AsyncGenerator[None, None]:
    """Started, it closes `transport` when it is closed itself, at the latest at the end of the event loop."""
    try:
        yield
    finally:
        await transport.aclose()


def _unreachable(url: str, reason: str, failure: Exception | None) -> Unreachable:
    insecure = explain_tls(failure, ca="Client(url, ca=FILE)")
    if insecure is not None and failure is not None and was_not_sent(failure):
        return Unreachable(f"the service at {url} cannot be trusted: {insecure}")
    if failure is None or isinstance(failure, ExceptionGroup) or was_not_sent(failure):
        return Unreachable(f"no service answers at {url} ({reason})")
    return Unreachable(f"no whole answer came from {url}, which may have done it ({reason})", was_sent=True)


def _innermost(error: Exception) -> Exception:
    return _innermost(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error


async def _read_whole(answer: httpx.Response) -> httpx.Response:
    """The answer with its body. Raises Unreadable: larger than any scheduler's, or not to be decoded."""
    pieces, size = [], 0
    try:
        if not is_decoded(answer):
            raise unreadable(answer, f"in the coding {coding_of(answer)[:40]!r}, which was not asked for")
        async for piece in read_decoded(answer):
            size += len(piece)
            if size > LARGEST_ANSWER:
                raise unreadable(answer, f"with more than {LARGEST_ANSWER >> 20} MiB")
            pieces.append(piece)
    except httpx.DecodingError:
        raise unreadable(answer, "in a coding that is broken") from None
    finally:
        await answer.aclose()
    return with_body(answer, b"".join(pieces))


def parse(model: type[Answer], data: Any) -> Answer:
    """`data` as `model`. Raises Unreadable for an answer of a newer or another service."""
    from pydantic import ValidationError  # a connection alone does without: importing it takes long

    try:
        return model.model_validate(data)
    except ValidationError as error:
        # A million of them take gigabytes once they are read, and are kept as the cause.
        few = error.errors(include_url=False) if error.error_count() <= READ_FLAWS else []
        where = ", ".join(".".join(map(str, one["loc"])) for one in few)
    raise Unreadable(f"the answer is not a {model.__name__}: check {where or 'all of it'}")


def _write_query(query: Mapping[str, Any]) -> httpx.QueryParams:
    """Query parameters as the service reads them; lists become repeated members, None is left out."""
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        if isinstance(value, list | tuple):
            pairs.extend((name, str(item)) for item in value)
        elif value is not None:
            pairs.append((name, str(value).lower() if isinstance(value, bool) else str(value)))
    return httpx.QueryParams(tuple(pairs))


def _headers(given: Mapping[str, str], *, has_body: bool) -> dict[str, str]:
    """Those of a call: the given ones, the type of its body, and the trace to which it belongs."""
    added = {"Content-Type": "application/json"} if has_body else {}
    traceparent = current_traceparent()
    return {**added, **({TRACEPARENT: traceparent} if traceparent else {}), **given}


def read_url(url: str) -> httpx.URL:
    """The address of a service, as given. Raises ValueError for one that no connection can reach.

    Valid are `http` and `https`, a name or an IP address as host, and a port from 1 to 65535, if any.
    """
    try:
        read = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise _invalid(url, str(error)) from error
    if read.scheme not in ("http", "https"):
        raise _invalid(url, "its scheme is neither http nor https")
    if not _is_host(read.raw_host.decode("ascii")):
        raise _invalid(url, "its host is neither a name nor an IP address" if read.host else "it has no host")
    if read.port is not None and not 1 <= read.port <= HIGHEST_PORT:
        raise _invalid(url, f"its port is not between 1 and {HIGHEST_PORT}")
    return read


def _is_host(host: str) -> bool:
    if ":" not in host:
        return len(host) <= LONGEST_HOST and _HOST_NAME.fullmatch(host) is not None
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _invalid(url: str, reason: str) -> ValueError:
    return ValueError(f"url {url!r} is not the address of a service: write http://HOST:PORT ({reason})")


async def iterate(
    connection: Connection, model: type[Answer], path: str, *, page: int = PAGE, **query: Any
) -> AsyncIterator[Answer]:
    """All items of the list, fetched `page` at a time as needed. Raises SdkError."""
    from client_sdk.models.answers import Listing  # the command line needs no models

    listing: type[Listing[Any]] = Listing[model]  # type: ignore[valid-type]
    cursor: str | None = None
    while True:
        found = await connection.read(listing, path, limit=page, cursor=cursor, **query)
        for item in found.items:
            yield item
        cursor = found.next_cursor
        if cursor is None:
            return
