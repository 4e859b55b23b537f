"""The languages of timers: each says the same of a timer, in words of its own."""

from scheduler_service.domain.moments import HOUR
from scheduler_service.timing.durations import Duration
from scheduler_service.timing.languages import LANGUAGES
from scheduler_service.timing.timer import TimerText, compile_timer
from scheduler_service.timing.zones import load_zone
from tests.rows import each_row

CHANGE = 1_774_746_000_000
"""2026-03-29, 01:00 UTC: clocks go forward in Berlin."""


@each_row("tag", LANGUAGES)
def test_each_language_has_words_for_the_same(tag: str) -> None:
    """A sentence without a full stop, a note where clocks change and none elsewhere, a length."""
    words = LANGUAGES[tag]
    timer = compile_timer(TimerText(period="0 0 9 * * ?"), default_zone="Europe/Berlin")
    assert "09:00" in words.describe(timer)
    assert not words.describe(timer).endswith((".", "。"))
    assert "1" in (words.note(load_zone("Europe/Berlin"), CHANGE) or "")
    assert words.note(load_zone("UTC"), CHANGE) is None
    assert words.length(Duration(ms=2 * HOUR)).startswith("2 ")


def test_no_two_languages_use_the_same_words() -> None:
    """The first one is English."""
    found = {words.length(Duration(ms=HOUR)) for words in LANGUAGES.values()}
    assert len(found) == len(LANGUAGES)
    assert next(iter(LANGUAGES)) == "en"
