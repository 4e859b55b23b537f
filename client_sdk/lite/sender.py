"""Sends the requests of a job without a server, by httpx."""

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from client_sdk.decoding import CODINGS, read_decoded
from client_sdk.signing import HEADERS, ID, Signer, read_named
from client_sdk.trust import explain_tls, trusted
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.secret_places import Unfilled, fill_places, hide_places
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.language.charsets import as_utf8, charset_of

_IS_OWN: ContextVar[bool] = ContextVar("is_own", default=False)


class LiteSender:
    """Sends single requests.

    There is no egress policy, as the requests are the process's own. Redirects are followed as the step
    allows; credentials are not sent to another origin, and cookies are not kept. Answers are truncated at
    `response_bytes`. `secrets` sign the requests that name them, each hop anew, but for another origin's.
    """

    def __init__(
        self,
        *,
        response_bytes: int,
        transport: httpx.AsyncBaseTransport | None = None,
        ca: str | None = None,
        secrets: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._secrets = dict(secrets or {})
        self._signer = Signer()
        self._response_bytes = response_bytes
        self._http = httpx.AsyncClient(
            transport=transport,
            trust_env=False,
            verify=trusted(ca),
            headers={"Accept-Encoding": CODINGS},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )
        logging.getLogger("httpx").addFilter(_is_not_own)

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.aclose()

    async def send(self, request: OutboundRequest) -> Outcome:
        """The target's answer, or why there is none. Raises only CancelledError."""
        started = time.monotonic()
        filled = fill_places(request, lambda name: next(iter(self._secrets.get(name, ())), None))
        if isinstance(filled, Unfilled):
            return Fault(FaultKind.TEMPLATE, filled.message)
        shown = hide_places(request).url
        try:
            async with asyncio.timeout(request.timeout / 1000):
                return await self._answer(filled, started)
        except (TimeoutError, httpx.TimeoutException):
            return Fault(FaultKind.TIMEOUT, f"{shown} did not answer in time", _since(started))
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            reason = explain_tls(error, ca="LiteJob(…, ca=FILE)") or str(error) or type(error).__name__
            text = f"{shown} could not be reached: {reason}"
            return Fault(FaultKind.CONNECT, text, _since(started))

    async def _answer(self, request: OutboundRequest, started: float) -> Answer:
        headers = [*request.headers]
        if not any(name.lower() == "traceparent" for name, _ in headers):
            headers.append(("traceparent", f"00-{request.trace}-{secrets.token_hex(8)}-01"))
        until = round(time.time() * 1000) + (request.awaited or request.timeout)
        headers.append(("X-Scheduling-Deadline", rfc3339(until)))
        following: httpx.Request | None = self._http.build_request(
            request.method,
            request.url,
            headers=[(name.encode(), value.encode()) for name, value in headers],
            content=request.body,
            timeout=None,
        )
        sign, own_id = request.sign, next((value for name, value in headers if name.lower() == ID), None)
        for left in range(request.redirects, -1, -1):
            assert following is not None
            if request.sign:
                self._sign(following, sign, own_id)
            answer = await self._send_quietly(following)
            following = answer.next_request if left else None
            if following is None:
                break
            if _origin(following.url) != _origin(answer.url):
                sign = ""
            await answer.aclose()
        body, truncated = await self._read(answer)
        fields = tuple((name, value) for name, value in answer.headers.multi_items())
        body = as_utf8(body, charset_of(answer.headers.get("content-type", "")), truncated=truncated)
        return Answer(answer.status_code, fields, body, truncated, _since(started), str(answer.url))

    def _sign(self, request: httpx.Request, sign: str, own_id: str | None) -> None:
        """Puts the signature of now into the headers in place of that of the hop before; `own_id` stays."""
        for name in HEADERS:
            request.headers.pop(name, None)
        if own_id:
            request.headers[ID] = own_id
        if sign:
            message_id = own_id or request.headers.get("idempotency-key", "")
            for name, value in self._signer.sign(
                read_named(sign, self._secrets[sign]), message_id, request.read()
            ):
                request.headers[name] = value

    async def _send_quietly(self, request: httpx.Request) -> httpx.Response:
        token = _IS_OWN.set(True)
        try:
            return await self._http.send(request, stream=True, follow_redirects=False)
        finally:
            _IS_OWN.reset(token)

    async def _read(self, answer: httpx.Response) -> tuple[bytes, bool]:
        body = bytearray()
        try:
            async for piece in read_decoded(answer):
                body += piece
                if len(body) > self._response_bytes:
                    return bytes(body[: self._response_bytes]), True
        finally:
            await answer.aclose()
        return bytes(body), False


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _is_not_own(_record: logging.LogRecord) -> bool:
    """A filter of httpx's log, which has each URL at INFO: URLs of targets may hold tokens."""
    return not _IS_OWN.get()


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
