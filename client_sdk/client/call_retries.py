"""When a call to the service is repeated, how often, and after which wait."""

from enum import Enum, auto

import httpx
import msgspec

from client_sdk.client.http_answers import read_retry_after

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
