"""When a call to the service may be sent again, and after which wait."""

from enum import Enum, auto

import httpx
import msgspec

from client_sdk.client.answering import read_retry_after

MAY_HAVE_ARRIVED = frozenset({500, 502, 504})
UNAVAILABLE, LIMIT_REACHED = 503, 429


class Repeat(Enum):
    """What a second sending of the same call would do."""

    HARMLESS = auto()  # nothing, or the same again: it reads, replaces, or has an Idempotency-Key
    DOUBLE = auto()  # the same thing twice


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How often a call is sent again, and how long is waited before. Seconds.

    Wait n is `first_wait × 2^(n−1)`, at most `longest_wait`, of which a random half is taken off so that many
    callers do not come at once. `Retry-After` lengthens a wait; beyond `longest_wait` the call is given up.
    """

    retries: int = 4
    first_wait: float = 0.2
    longest_wait: float = 30.0

    def wait(self, done: int, answer: httpx.Response | None, chance: float) -> float | None:
        """Seconds to wait after `done` tries, or None: enough. `chance` lies in [0, 1)."""
        if done > self.retries:
            return None
        wait: float = min(self.first_wait * 2.0 ** (done - 1), self.longest_wait) * (1 - chance / 2)
        asked = None if answer is None else read_retry_after(answer)
        if asked is not None and asked > self.longest_wait:
            return None
        return max(wait, asked or 0.0)


def may_repeat_answer(answer: httpx.Response, repeat: Repeat) -> bool:
    """Whether this answer says, or lets hope, that another try does good and no harm."""
    if answer.status_code == LIMIT_REACHED:
        return True
    if answer.status_code == UNAVAILABLE:
        return repeat is Repeat.HARMLESS or not _is_unknown(answer)
    return answer.status_code in MAY_HAVE_ARRIVED and repeat is Repeat.HARMLESS


def may_repeat_failure(error: httpx.TransportError, repeat: Repeat) -> bool:
    """Whether a call without an answer may be sent again: it never left, or may arrive twice.

    One that cannot be written as HTTP cannot be written the next time either.
    """
    if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
        return False
    never_left = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return never_left or repeat is Repeat.HARMLESS


def _is_unknown(answer: httpx.Response) -> bool:
    """A 503 that does not say "nothing was done": only the service itself can say that."""
    try:
        codes = [error["code"] for error in answer.json()["errors"]]
    except (ValueError, TypeError, KeyError):
        return True
    return "unknown" in codes
