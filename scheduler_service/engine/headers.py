"""Reads the headers of a target's answer."""

from email.utils import parsedate_to_datetime

from scheduler_service.domain.moments import SECOND, as_moment
from scheduler_service.domain.wire import Answer, Headers

WAIT_MAX_SECONDS = 30 * 24 * 3600


def find_header(headers: Headers, name: str) -> str | None:
    """The first value of header `name` (lower case), or None."""
    return next((value for key, value in headers if key.lower() == name), None)


def read_retry_after(answer: Answer, now: int) -> int | None:
    """`Retry-After` of an answer as ms from `now` (RFC 9110, 10.2.3); None: it is absent or unreadable.

    A date counts from the answer's own `Date`, so that it also works for a target whose clock is off.
    """
    text = find_header(answer.headers, "retry-after")
    if text is None:
        return None
    if text.strip().isascii() and text.strip().isdigit():
        return min(int(text.strip()[:12]), WAIT_MAX_SECONDS) * SECOND
    then, sent = _moment(text), _moment(find_header(answer.headers, "date") or "")
    if then is None:
        return None
    return min(max(then - (now if sent is None else sent), 0), WAIT_MAX_SECONDS * SECOND)


def _moment(text: str) -> int | None:
    try:
        parsed = parsedate_to_datetime(text)
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
    return None if parsed.tzinfo is None else as_moment(parsed)
