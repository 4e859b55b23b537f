"""Sends the requests of a job without a server, by httpx."""

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx
import msgspec

from client_sdk.decoding import CODINGS, read_decoded
from client_sdk.signing import HEADERS, Signer, id_to_sign, read_named
from client_sdk.trust import explain_tls, trusted
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.secret_places import (
    LEAST_CHARACTERS,
    Unfilled,
    fill_places,
    hide_places,
    mark_secrets,
    secret_values,
)
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.language.charsets import as_utf8, charset_of
from scheduler_service.language.urls import REDIRECTS, quote_location, redirect
from scheduler_service.language.value_masks import SecretMask

IDLE_SECONDS = 1.5
"""So long a connection is kept, as by a service: less than by servers, which would close it under a call."""
_IS_OWN: ContextVar[bool] = ContextVar("is_own", default=False)


class LiteSender:
    """Sends single requests, each once: what a kept connection lost may have been handled.

    There is no egress policy, as the requests are the process's own. Redirects are followed as the step
    allows and as by a service: nothing secret goes to another origin, be it of the `secrets` or of variables
    of the `environment` whose names say so. Cookies are not kept. Answers are truncated at `response_bytes`
    and have no value of a secret. `secrets` sign the requests that name them, each hop anew, but for another
    origin's.
    """

    def __init__(
        self,
        *,
        response_bytes: int,
        transport: httpx.AsyncBaseTransport | None = None,
        ca: str | None = None,
        secrets: Mapping[str, Sequence[str]] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._secrets = dict(secrets or {})
        values = [one for values in self._secrets.values() for one in values if len(one) >= LEAST_CHARACTERS]
        self._mask = SecretMask(values)
        self._kept_back = SecretMask([*values, *secret_values(environment or {})], like=self._mask)
        self._signer = Signer()
        self._response_bytes = response_bytes
        self._http = httpx.AsyncClient(
            transport=transport,
            trust_env=False,
            verify=trusted(ca),
            headers={"Accept-Encoding": CODINGS},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            limits=httpx.Limits(
                max_connections=100, max_keepalive_connections=20, keepalive_expiry=IDLE_SECONDS
            ),
            event_hooks={"response": [_set_location_aside]},
        )
        logging.getLogger("httpx").addFilter(_is_not_own)

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.aclose()

    async def send(self, request: OutboundRequest) -> Outcome:
        """The target's answer, or why there is none. Raises only CancelledError."""
        filled = fill_places(request, lambda name: next(iter(self._secrets.get(name, ())), None))
        if isinstance(filled, Unfilled):
            return Fault(FaultKind.TEMPLATE, filled.message)
        if filled.redirects:
            filled = mark_secrets(filled, self._kept_back.finds)
        outcome = await self._send(filled, hide_places(request).url)
        return outcome if request.at_send is None else self._mask.outcome(outcome)

    async def _send(self, request: OutboundRequest, shown: str) -> Outcome:
        started = time.monotonic()
        try:
            async with asyncio.timeout(request.timeout / 1000):
                return await self._answer(request, started)
        except (TimeoutError, httpx.TimeoutException):
            return Fault(FaultKind.TIMEOUT, f"{shown} did not answer in time", _since(started))
        except _RefusedLocation as error:
            return Fault(FaultKind.EGRESS, str(error), _since(started))
        except _NotSigned as error:
            return Fault(FaultKind.TEMPLATE, str(error), _since(started))
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
        hop = msgspec.structs.replace(request, headers=tuple(headers))
        for left in range(request.redirects, -1, -1):
            answer = await self._send_quietly(self._write(hop))
            try:
                following = _follow(hop, answer) if left else None
            except _RefusedLocation:
                await answer.aclose()
                raise
            if following is None:
                break
            hop = following
            await answer.aclose()
        body, truncated = await self._read(answer)
        fields = tuple((name, value) for name, value in answer.headers.multi_items())
        body = as_utf8(body, charset_of(answer.headers.get("content-type", "")), truncated=truncated)
        return Answer(answer.status_code, fields, body, truncated, _since(started), str(answer.url))

    def _write(self, hop: OutboundRequest) -> httpx.Request:
        """The request of a hop, with a signature of now if it is signed. Raises _NotSigned."""
        headers = [*hop.headers]
        if hop.sign:
            try:
                message_id = id_to_sign(headers)
            except ValueError as why:
                raise _NotSigned(f"{why}.") from None
            keys = read_named(hop.sign, self._secrets[hop.sign])
            headers = [pair for pair in headers if pair[0].lower() not in HEADERS]
            headers += self._signer.sign(keys, message_id, hop.body or b"")
        return self._http.build_request(
            hop.method,
            hop.url,
            headers=[(name.encode(), value.strip(" \t").encode()) for name, value in headers],
            content=hop.body,
            timeout=None,
        )

    async def _send_quietly(self, request: httpx.Request) -> httpx.Response:
        token = _IS_OWN.set(True)
        try:
            answer = await self._http.send(request, stream=True, follow_redirects=False)
        finally:
            _IS_OWN.reset(token)
        if (location := answer.extensions.pop("location", None)) is not None:
            answer.headers["Location"] = location
        return answer

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


class _NotSigned(Exception):
    """A request has no id that can be signed."""


class _RefusedLocation(Exception):
    """A redirect leads to what is no plain http(s) URL."""


def _follow(hop: OutboundRequest, answer: httpx.Response) -> OutboundRequest | None:
    """The request that an answer redirects to, or None. Raises _RefusedLocation."""
    location = answer.headers.get("location") if answer.status_code in REDIRECTS else None
    if location is None:
        return None
    url = _read_location(answer.url, location)
    is_same_origin = _origin(url) == _origin(answer.url)
    kept = redirect(hop.method, hop.headers, hop.body, answer.status_code, is_same_origin=is_same_origin)
    if kept is None:
        return None
    method, headers, body = kept
    sign = hop.sign if is_same_origin else ""
    return msgspec.structs.replace(hop, method=method, url=str(url), headers=headers, body=body, sign=sign)


def _read_location(base: httpx.URL, location: str) -> httpx.URL:
    try:
        url = base.join(quote_location(location))
    except httpx.InvalidURL:
        url = None
    if url is None or url.scheme not in ("http", "https") or not url.host or url.userinfo:
        origin = f"{base.scheme}://{base.netloc.decode()}"
        text = "redirects to something that is not a plain URL of http or https: correct its Location header"
        raise _RefusedLocation(f"{origin} {text}.")
    return url


async def _set_location_aside(answer: httpx.Response) -> None:
    """httpx raises where it makes no request of a `Location`, also of one that is not followed."""
    if answer.has_redirect_location:
        answer.extensions["location"] = answer.headers.pop("location")


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _is_not_own(_record: logging.LogRecord) -> bool:
    """A filter of httpx's log, which has each URL at INFO: URLs of targets may hold tokens."""
    return not _IS_OWN.get()


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
