"""The rate limit of a service (SPEC section 13)."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.services import RateLimit
from scheduler_service.services.router import RateWindow


@given(
    count=st.integers(1, 5),
    per=st.integers(1, 50),
    pauses=st.lists(st.integers(0, 30), min_size=1, max_size=60),
)
def test_no_window_has_more_than_the_limit(count: int, per: int, pauses: list[int]) -> None:
    """Whoever waits as long as he is told: no stretch of `perSeconds` has more than `count` calls."""
    limit, window, now = RateLimit(count, per), RateWindow(), 0
    calls: list[int] = []
    for pause in pauses:
        now += pause
        wait = window.wait(limit, now)
        assert wait >= 0
        assert wait == 0 or window.wait(limit, now + wait - 1) > 0, "not a moment longer than needed"
        now += wait
        assert window.wait(limit, now) == 0
        window.take(now)
        calls.append(now)
    for at in calls:
        assert sum(at <= other < at + per for other in calls) <= count


def test_a_new_limit_counts_what_was_called() -> None:
    """A service that lowers its limit is spared at once."""
    window = RateWindow()
    for _ in range(10):
        window.take(0)
    assert window.wait(RateLimit(20, 1_000), 1) == 0
    assert window.wait(RateLimit(5, 1_000), 1) == 999
