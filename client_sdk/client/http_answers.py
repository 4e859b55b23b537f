"""Reads an HTTP answer of the service as data or as an error, and says when a call may be repeated."""

from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Any, NamedTuple

import httpx
import msgspec

from client_sdk.errors import BY_STATUS, Absent, Flaw, Problem, Unreadable

NO_ROUTE = "no_route"
"""The error code of a 404 of the scheduler for a path that is none of its routes."""


LONGEST_TEXT, MOST_FLAWS = 8_192, 10_000
"""Of a problem: the characters of each of its texts, and its `errors`."""


class Envelope(NamedTuple):
    """The `data` of a success, and its warnings."""

    data: Any
    warnings: list[dict[str, Any]]


def read_envelope(answer: httpx.Response) -> Envelope:
    """The envelope of a success. Raises Problem for a failure, Unreadable for another service's
    answer, and for a 404 of a path that is no route: the url is wrong then."""
    body = _read_object(answer)
    if answer.is_success and body is not None and "data" in body:
        return Envelope(body["data"], body.get("warnings") or [])
    if answer.is_success or body is None or "resp_code" not in body:
        raise unreadable(answer)
    problem = read_problem(answer, body)
    if isinstance(problem, Absent) and NO_ROUTE in problem.codes:
        raise unreadable(answer)
    raise problem


def read_problem(answer: httpx.Response, body: dict[str, Any]) -> Problem:
    """The error of a problem document (RFC 9457)."""
    kind = BY_STATUS.get(answer.status_code, Problem)
    given = body.get("errors")
    return kind(
        answer.status_code,
        _text(body.get("detail")) or _text(body.get("title")) or answer.reason_phrase,
        title=_text(body.get("title")),
        errors=tuple(_read_flaw(one) for one in given[:MOST_FLAWS] if isinstance(one, dict))
        if isinstance(given, list)
        else (),
        retry_after=read_retry_after(answer),
    )


def read_retry_after(answer: httpx.Response) -> float | None:
    """Seconds to wait by `Retry-After`, in either form (RFC 9110, 10.2.3); None if it is not given.

    A date counts from the answer's own `Date`, so that the two clocks need not agree.
    """
    given = answer.headers.get("retry-after", "").strip()
    if given.isascii() and given.isdigit():
        return float(given[:9])
    try:
        until = parsedate_to_datetime(given)
        now = parsedate_to_datetime(answer.headers.get("date", ""))
        return max((until - now).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def unreadable(answer: httpx.Response, how: str = "") -> Unreadable:
    """The error for an answer that is no scheduler's; `how` says what is wrong with it, as `with 1 GiB`."""
    url = answer.request.url.copy_with(query=None)  # it may hold the token of feedback
    return Unreadable(
        f"{answer.request.method} {url} answered {answer.status_code}{how and ' ' + how}, but not as a "
        "scheduler does: check the url, and proxies on the way"
    )


def _read_object(answer: httpx.Response) -> dict[str, Any] | None:
    try:
        body = answer.json()
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _read_flaw(given: dict[str, Any]) -> Flaw:
    return Flaw(*(_text(given.get(name)) for name in Flaw._fields))


def _text(value: object) -> str:
    """A member that is a text, cut: it goes into logs, and to people; empty where it is none."""
    return value[:LONGEST_TEXT] if isinstance(value, str) else ""


MAY_HAVE_ARRIVED = frozenset({500, 502, 504})
NOT_HTTP = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
UNAVAILABLE, LIMIT_REACHED = 503, 429


class Repeat(Enum):
    """The effect of sending the same call twice."""

    HARMLESS = auto()  # none: it reads, replaces, or has an Idempotency-Key
    DOUBLE = auto()  # the call takes effect twice


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How often a call is repeated, and the waits before. Seconds.

    Wait n is `first_wait × 2^(n−1)`, at most `longest_wait`, reduced by a random part of up to half, so that
    many callers do not retry at once. `Retry-After` lengthens a wait; if it exceeds `longest_wait`, the call
    is given up.
    """

    retries: int = 4
    first_wait: float = 0.2
    longest_wait: float = 30.0

    def wait(self, done: int, answer: httpx.Response | None, chance: float) -> float | None:
        """Seconds to wait after `done` tries; None: give up. `chance` is in [0, 1)."""
        if done > self.retries:
            return None
        wait: float = min(self.first_wait * 2.0 ** min(done - 1, 1000), self.longest_wait) * (1 - chance / 2)
        asked = None if answer is None else read_retry_after(answer)
        if asked is not None and asked > self.longest_wait:
            return None
        return max(wait, asked or 0.0)


def may_repeat_answer(answer: httpx.Response, repeat: Repeat) -> bool:
    """Whether another try after this answer may help and does no harm."""
    if answer.status_code == LIMIT_REACHED:
        return True
    if answer.status_code == UNAVAILABLE:
        return repeat is Repeat.HARMLESS or not _is_unknown(answer)
    return answer.status_code in MAY_HAVE_ARRIVED and repeat is Repeat.HARMLESS


def may_repeat_failure(error: httpx.TransportError, repeat: Repeat) -> bool:
    """Whether a call without an answer may be repeated: it was not sent, or repeating it is harmless.

    A request that cannot be written as HTTP is not repeated.
    """
    if isinstance(error, NOT_HTTP):
        return False
    return was_not_sent(error) or repeat is Repeat.HARMLESS


def was_not_sent(error: Exception) -> bool:
    """Whether nobody can have received the call: there was no connection, or nothing to send over it."""
    return isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, *NOT_HTTP))


def _is_unknown(answer: httpx.Response) -> bool:
    """Whether a 503 may have taken effect: only the service itself can exclude that."""
    try:
        codes = [error["code"] for error in answer.json()["errors"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        return True
    return "unknown" in codes
