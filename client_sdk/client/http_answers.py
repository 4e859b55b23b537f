"""Reads an HTTP answer of the service as data or as an error."""

from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import httpx

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
