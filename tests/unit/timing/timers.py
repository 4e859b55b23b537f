"""Timers of every kind, compiled, and generated ones."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from scheduler_service.domain.moments import DAY, as_moment
from scheduler_service.timing.timer import Timer, TimerText, compile_timer


def at(text: str) -> int:
    return as_moment(datetime.fromisoformat(text).astimezone(UTC))


NOON = at("2024-05-15T12:00:00Z")


def make(due_time: str | None = None, period: str | None = None, **members: object) -> Timer:
    text = TimerText(due_time=due_time, period=period, **members)  # type: ignore[arg-type]
    return compile_timer(text, default_zone="UTC")


TIMERS = [
    ("0s", "0 */7 * * * ?"),
    ("0s", "0 30 2 * * ?"),
    ("0s", "*/15 1-3 * * *"),
    ("0s", "0 0 0 L * ?"),
    ("10s", "17m"),
    ("2024-01-31 02:30:00", "P1M"),
    ("2024-01-31 02:30:00", "P1D"),
    ("2024-03-31 02:30:00", "P1D"),
    ("2023-01-31 02:30:00", "P1M1DT7H"),
    ("1h", "R9/P1W"),
    ("1h", "0s"),
    (None, None),
]


timers = st.builds(
    lambda pair, **members: make(pair[0], pair[1], **members),
    st.sampled_from(TIMERS),
    timezone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    jitter=st.sampled_from([0, 0, 1, 90_000, 100 * DAY]),
    ttl=st.sampled_from([None, "40d", "P2M", "20h"]),
    start_at=st.sampled_from([None, "2024-06-01 00:00:00"]),
)
anchors = st.integers(NOON - 400 * DAY, NOON + 400 * DAY)
