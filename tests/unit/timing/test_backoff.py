"""Waits between retries (SPEC section 6)."""

import math
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk.models.fields import JitterKind
from scheduler_service.timing.backoff import JITTERS, WAIT_MAX, full_jitter, wait
from tests.rows import each_row


@each_row(
    ("interval", "rate", "ceiling", "n", "expected"),
    [
        (1_000, 2.0, None, 1, 1_000),
        (1_000, 2.0, None, 4, 8_000),
        (2_000, 1.5, None, 3, 4_500),
        (5_000, 1.0, None, 100, 5_000),
        (1_000, 2.0, 3_000, 3, 3_000),
        (5_000, 2.0, 3_000, 1, 3_000),
        (0, 2.0, None, 9, 0),
        (1_000, 2.0, 0, 1, 0),
    ],
)
def test_waits_grow_by_their_rate(
    interval: int, rate: float, ceiling: int | None, n: int, expected: int
) -> None:
    """SPEC section 6: wait n is `intervalSeconds × backoffRate^(n−1)`, under a ceiling."""
    assert wait(interval, rate, ceiling, n) == expected


@each_row("rate", [2.0, 1e308, math.inf])
def test_a_huge_rate_is_capped(rate: float) -> None:
    """A wait never overflows."""
    assert wait(1_000, rate, None, 1) == 1_000
    assert wait(1_000, rate, None, 10**9) == WAIT_MAX
    assert wait(10**400, rate, None, 2) == WAIT_MAX


@given(
    interval=st.integers(0, 10**10),
    rate=st.floats(1, 1e300),
    ceiling=st.none() | st.integers(0, 10**10),
    n=st.integers(1, 10**6),
)
@settings(deadline=None)
def test_waits_never_fall_and_stay_below_the_ceiling(
    interval: int, rate: float, ceiling: int | None, n: int
) -> None:
    """SPEC section 6: `backoffRate` is at least 1."""
    first, second = wait(interval, rate, ceiling, n), wait(interval, rate, ceiling, n + 1)
    assert 0 <= first <= second <= (WAIT_MAX if ceiling is None else ceiling)


@given(st.text(), st.integers(0, WAIT_MAX))
@settings(deadline=None)
def test_a_spread_is_stable_and_within_its_wait(seed: str, length: int) -> None:
    """SPEC section 6: `full` spreads a wait over 0 to its length."""
    assert 0 <= full_jitter(seed, length) <= length
    assert full_jitter(seed, length) == full_jitter(seed, length)


def test_seeds_spread() -> None:
    """A thousand jobs that fail together do not come back together."""
    waits = [full_jitter(f"job-{number}", 10_000) for number in range(1_000)]
    assert min(waits) < 500
    assert max(waits) > 9_500
    assert 4_500 < sum(waits) / 1_000 < 5_500


def test_every_jitter_kind_is_computed() -> None:
    """Each word of `retry[].jitter` gives a wait between 0 and its full length (SPEC section 6)."""
    assert set(JITTERS) == set(get_args(JitterKind))
    for spread in JITTERS.values():
        assert all(0 <= spread(f"job-{number}", 1_000) <= 1_000 for number in range(100))
    assert JITTERS["none"]("any", 1_000) == 1_000
