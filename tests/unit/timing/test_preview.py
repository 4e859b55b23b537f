"""Timers shown to people (SPEC sections 3 and 10)."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.moments import DAY, HOUR, MINUTE, as_moment
from scheduler_service.timing.preview import preview
from scheduler_service.timing.timer import Timer, TimerText, compile_timer

NOON = as_moment(datetime(2024, 3, 30, 12, tzinfo=UTC))


def make(due_time: str | None, period: str | None, **members: object) -> Timer:
    text = TimerText(due_time=due_time, period=period, **members)  # type: ignore[arg-type]
    return compile_timer(text, default_zone="UTC")


def test_cron_shows_dialect_normal_form_and_local_times() -> None:
    """The dialect, a description, local and UTC times; days of clock change are marked (SPEC section 3)."""
    shown = preview(make("0s", "30 2 * * *", timezone="Europe/Berlin"), anchor=NOON, count=2)
    assert (shown.kind, shown.dialect, shown.normal_form) == ("cron", "unix", "30 2 * * *")
    assert shown.description.endswith("Europe/Berlin time")
    first, second = shown.firings
    assert (first.utc, first.local) == (NOON + 13 * HOUR, "2024-03-31T03:00:00.000+02:00")
    assert first.note is not None
    assert (second.local, second.note) == ("2024-04-01T02:30:00.000+02:00", None)


def test_the_moment_of_creation_is_no_firing_of_cron_but_delays_count_from_it() -> None:
    """`from` is the moment of creation for delays and ttl, and not a firing of cron (SPEC section 10)."""
    cron = preview(make("0s", "0 0 * * * ?", ttl="2h"), anchor=NOON, count=9)
    assert [firing.utc for firing in cron.firings] == [NOON + HOUR, NOON + 2 * HOUR]
    timing = preview(make("0s", "1h", ttl="2h"), anchor=NOON, count=9)
    assert [firing.utc for firing in timing.firings] == [NOON, NOON + HOUR, NOON + 2 * HOUR]


def test_bounds_are_kept() -> None:
    """SPEC section 10: count at most 1,000; nothing after `until`."""
    timer = make("0s", "1s")
    assert len(preview(timer, anchor=NOON, count=5_000).firings) == 1_000
    assert preview(timer, anchor=NOON, count=-1).firings == ()
    assert len(preview(timer, anchor=NOON, count=500, until=NOON + MINUTE).firings) == 61


@given(
    st.sampled_from([("0s", "0 */7 2 * * ?"), ("0s", "@hourly"), ("1h", "P1M"), ("3s", "R9/PT7M")]),
    st.integers(NOON - 400 * DAY, NOON),
    st.integers(0, 30),
    st.integers(0, 30),
    st.sampled_from(["", "seed"]),
)
@settings(deadline=None)
def test_a_shorter_preview_is_the_beginning_of_a_longer_one(
    texts: tuple[str, str], anchor: int, count: int, more: int, seed: str
) -> None:
    """Asking for more changes nothing of what was shown."""
    timer = make(*texts, timezone="Europe/Berlin", jitter=5_000)
    short = preview(timer, anchor=anchor, count=count, seed=seed).firings
    long = preview(timer, anchor=anchor, count=count + more, seed=seed).firings
    assert long[: len(short)] == short
    assert len(short) == min(count, len(long))
