"""What is read of a target's headers (RFC 9110, 10.2.3)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.wire import Answer
from scheduler_service.engine.verdicts import WAIT_MAX_SECONDS, find_header, read_retry_after
from tests.rows import each_row
from tests.unit.engine.rig import START

THEN = "Tue, 14 Nov 2023 22:14:20 GMT"  # a minute after START
LATER = "Tue, 14 Nov 2023 22:13:50 GMT"  # half a minute after START


@each_row(
    ("headers", "wait"),
    [
        ((), None),
        ((("Retry-After", "7"),), 7_000),
        ((("RETRY-AFTER", " 0 "),), 0),
        ((("retry-after", "9" * 40),), WAIT_MAX_SECONDS * 1_000),
        ((("retry-after", "-1"),), None),
        ((("retry-after", "1.5"),), None),
        ((("retry-after", "soon"),), None),
        ((("retry-after", "٣"),), None),
        ((("retry-after", THEN),), 60_000),
        ((("retry-after", THEN), ("Date", LATER)), 30_000),
        ((("retry-after", LATER), ("Date", THEN)), 0),
        ((("retry-after", THEN), ("Date", "nonsense")), 60_000),
        ((("retry-after", "Tue, 14 Nov 2023 22:14:20 -0000"),), None),
        ((("retry-after", "Tue, 14 Nov 9999 22:14:20 GMT"),), WAIT_MAX_SECONDS * 1_000),
        ((("retry-after", "Mon, 1 Jan 2024 00:00:00 +" + "9" * 15),), None),
        ((("retry-after", "Mon, 1 Jan " + "9" * 30 + " 00:00:00 GMT"),), None),
    ],
)
def test_retry_after(headers: tuple[tuple[str, str], ...], wait: int | None) -> None:
    """Seconds or a date, the date counted from the answer's own; what cannot be read counts as absent."""
    assert read_retry_after(Answer(503, headers), START) == wait


def test_the_first_header_of_a_name_counts() -> None:
    """Names are not case-sensitive."""
    assert find_header((("X-A", "1"), ("x-a", "2")), "x-a") == "1"
    assert find_header((), "x-a") is None


@given(
    st.text(max_size=60)
    | st.from_regex(r"[A-Z][a-z]{2}, \d{1,25} [A-Z][a-z]{2} \d{1,25} \d+:\d+ [+-]\d{1,25}")
)
@settings(deadline=None)
def test_no_header_raises(text: str) -> None:
    """A target may write what it likes."""
    wait = read_retry_after(Answer(503, (("retry-after", text),)), START)
    assert wait is None or 0 <= wait <= WAIT_MAX_SECONDS * 1_000
