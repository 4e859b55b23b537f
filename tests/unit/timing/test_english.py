"""Timers in English, for the preview (SPEC section 3)."""

from datetime import UTC, datetime

from scheduler_service.domain.moments import as_moment
from scheduler_service.timing import zones
from scheduler_service.timing.durations import parse_duration
from scheduler_service.timing.english import describe, length, note
from scheduler_service.timing.timer import Timer, TimerText, compile_timer
from tests.rows import each_row


def make(due_time: str | None, period: str | None, **members: object) -> Timer:
    text = TimerText(due_time=due_time, period=period, **members)  # type: ignore[arg-type]
    return compile_timer(text, default_zone="UTC")


def at(text: str) -> int:
    return as_moment(datetime.fromisoformat(text).replace(tzinfo=UTC))


@each_row(
    ("timer", "sentence"),
    [
        (make(None, None), "Once, at once"),
        (
            make(None, None, start_at="2024-04-01 09:00:00", timezone="Asia/Shanghai"),
            "Once, at 2024-04-01 09:00:00 Asia/Shanghai time",
        ),
        (make("10s", "R4/PT3S"), "Every 3 seconds, first 10 seconds after its creation, 4 times in all"),
        (make("0s", "61m"), "Every 1 hour 1 minute, first at once"),
        (make("0s", "5m"), "Every 5 minutes, first at once"),
        (make("2024-04-01 09:00:00", "0s"), "Once, at 2024-04-01 09:00:00 UTC time"),
        (make("1h", "R1/P1D"), "Once, 1 hour after its creation"),
        (make("0s", "external"), "Only when it is triggered"),
        (
            make("0s", "P1M", start_at="2024-05-01 00:00:00", ttl="P1Y", jitter=30_000),
            "Every month, first at once, not before 2024-05-01 00:00:00 UTC time, "
            "for 1 year from its creation, each up to 30 seconds later",
        ),
        (
            make("0s", "P1D", end_at="2024-05-01 00:00:00", ttl="2024-04-01 00:00:00"),
            "Every day, first at once, not after 2024-05-01 00:00:00 UTC time, "
            "not after 2024-04-01 00:00:00 UTC time",
        ),
    ],
)
def test_every_kind_has_a_sentence(timer: Timer, sentence: str) -> None:
    """SPEC section 3: a sentence in words."""
    assert describe(timer) == sentence


def test_note_marks_the_days_on_which_clocks_change():
    """The preview marks such days (SPEC section 3), whatever the hour of the firing."""
    paris = zones.load_zone("Europe/Paris")
    assert note(paris, at("2026-03-28T22:59:59")) is None
    assert note(paris, at("2026-03-28T23:00:00")) == "clocks go forward by 1 h this day"
    assert note(paris, at("2026-03-29T21:59:59")) == "clocks go forward by 1 h this day"
    assert note(paris, at("2026-03-29T22:00:00")) is None
    assert note(paris, at("2026-10-25T12:00:00")) == "clocks go back by 1 h this day"
    assert note(zones.load_zone("Australia/Lord_Howe"), at("2026-04-05T00:00:00")).startswith(
        "clocks go back by 30 min"
    )
    cairo, apia = zones.load_zone("Africa/Cairo"), zones.load_zone("Pacific/Apia")
    assert note(cairo, at("2026-04-22T22:00:00")) is None  # the 23rd is whole: 0:00 of the 24th is missing
    assert note(cairo, at("2026-04-23T22:00:00")) == "clocks go forward by 1 h this day"
    assert note(cairo, at("2026-10-29T12:00:00")) == "clocks go back by 1 h this day"
    assert note(cairo, at("2026-10-29T22:00:00")) is None
    assert note(apia, at("2011-12-30T09:59:59")) is None
    assert note(apia, at("2011-12-30T10:00:00")) == "clocks go forward by 24 h this day"
    assert note(zones.load_zone("UTC"), at("2026-03-29T12:00:00")) is None


@each_row(
    ("text", "words"),
    [
        ("2h30m", "2 hours 30 minutes"),
        ("P1Y1M1W", "1 year 1 month 1 week"),
        ("P8D", "8 days"),
        ("1500ms", "1 second 500 milliseconds"),
        ("24h", "24 hours"),
        ("0s", "0 seconds"),
    ],
)
def test_durations_are_said_in_words(text: str, words: str) -> None:
    """SPEC section 3: a sentence in words."""
    assert length(parse_duration(text)) == words
