"""What a target says of its work is kept within limits, and marked where it was cut (SPEC section 5)."""

from scheduler_service.domain.saying import cut_error, cut_message, cut_progress
from tests.rows import each_row

CUTS = [(cut_error, 256), (cut_progress, 64), (cut_message, 4_096)]


@each_row(("cut", "limit"), CUTS)
def test_a_text_within_the_limit_is_itself(cut: object, limit: int) -> None:
    """The same object: nothing is copied."""
    text = "x" * limit
    assert cut(text) is text  # type: ignore[operator]


@each_row(("cut", "limit"), CUTS)
def test_a_longer_one_has_so_many_characters_and_a_mark(cut: object, limit: int) -> None:
    """The last character is `…`; characters are counted, not bytes."""
    assert cut("ü" * (limit + 1)) == "ü" * (limit - 1) + "…"  # type: ignore[operator]


@each_row(("cut", "limit"), CUTS)
def test_nothing_said_stays_nothing(cut: object, limit: int) -> None:
    """None has no length."""
    assert cut(None) is None  # type: ignore[operator]


@each_row(("cut", "limit"), CUTS)
def test_tokens_of_feedback_urls_are_masked(cut: object, limit: int) -> None:
    """A target may repeat the URL that it was given; also where the cut goes through the token."""
    assert cut("?token=" + "5f" * 32) == "?token=***"  # type: ignore[operator]
    begin = "x" * (limit - 20)
    assert cut(begin + "?token=" + "5f" * 32) == begin + "?token=***"  # type: ignore[operator]
