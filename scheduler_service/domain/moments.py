"""Moments on the two clocks of the product, and how they are written.

Every moment is an integer of milliseconds. `wall` counts from the Unix epoch and follows the system clock:
firings use it. `steady` does not jump when that clock is set: limits, leases and waits use it, so that they
keep their remaining time (SPEC section 3, Clock).
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class Now(msgspec.Struct, frozen=True, gc=False):
    """One reading of a host's clock: `wall` and `steady`, both in milliseconds."""

    wall: int
    steady: int


class Due(msgspec.Struct, frozen=True, gc=False):
    """When a job is next due, per clock; None: nothing waits on it."""

    wall: int | None = None
    steady: int | None = None


def as_datetime(moment: int) -> datetime:
    """The UTC datetime of `moment` (ms since the epoch)."""
    return EPOCH + timedelta(milliseconds=moment)


def as_moment(value: datetime) -> int:
    """Milliseconds since the epoch of an aware datetime, rounded down."""
    return (value - EPOCH) // timedelta(milliseconds=1)


def month_length(year: int, month: int) -> int:
    """How many days a month has."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def rfc3339(moment: int) -> str:
    """`moment` as RFC 3339 in UTC with milliseconds, as in `2026-01-31T09:00:00.000Z`."""
    # Every request carries one, and most share their second: so this costs a sixth of a datetime's text.
    return f"{_text_of_second(moment // SECOND)}.{moment % SECOND:03d}Z"


@lru_cache(maxsize=256)
def _text_of_second(second: int) -> str:
    # Not strftime: it writes the year 92 without zeros.
    return as_datetime(second * SECOND).replace(tzinfo=None).isoformat(timespec="seconds")
