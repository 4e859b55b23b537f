"""Waits between retries (SPEC section 6)."""

from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.timing.backoff import WAIT_MAX, doubling_pauses, full_jitter, wait
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


def test_a_spread_is_stable_and_within_its_wait() -> None:
    """From nothing to all of it, the same for the same seed."""
    assert {full_jitter(str(seed), 2) for seed in range(100)} == {0, 1, 2}
    assert full_jitter("a", 10**9) == full_jitter("a", 10**9) != full_jitter("b", 10**9)


def test_pauses_double_up_to_the_longest() -> None:
    """Milliseconds stay integers; seconds may be fractions."""
    assert list(islice(doubling_pauses(100, 1_000), 6)) == [100, 200, 400, 800, 1_000, 1_000]
    assert list(islice(doubling_pauses(0.5, 3.0), 5)) == [0.5, 1.0, 2.0, 3.0, 3.0]
    # The pause stays at its ceiling however many tries there are
    assert next(islice(doubling_pauses(0.1, 5.0), 5_000, None)) == 5.0
