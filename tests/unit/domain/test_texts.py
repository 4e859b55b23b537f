"""Texts from outside, cut to a length."""

from scheduler_service.domain.texts import cut, cut_error, cut_message, cut_progress, scrub
from tests.rows import each_row


@each_row(
    ("text", "kept"), [(None, None), ("", ""), ("abcd", "abcd"), ("abcde", "abc…"), ("x" * 9_999, "xxx…")]
)
def test_a_longer_text_ends_in_a_mark_within_the_limit(text: str | None, kept: str | None) -> None:
    """One that just fits is left as it is."""
    assert cut(text, 4) == kept


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    """What is left can be encoded; a whole text stays what it was."""
    assert scrub("a\ud800b") == "a\ufffdb"
    assert scrub("a\U0001f600b") == "a\U0001f600b"


CUTS = [(cut_error, 256), (cut_progress, 64), (cut_message, 4_096)]


@each_row(("cut", "limit"), CUTS)
def test_a_longer_one_has_so_many_characters_and_a_mark(cut: object, limit: int) -> None:
    """The last character is `…`; characters are counted, not bytes."""
    assert cut("ü" * (limit + 1)) == "ü" * (limit - 1) + "…"  # type: ignore[operator]


@each_row(("cut", "limit"), CUTS)
def test_tokens_of_feedback_urls_are_masked(cut: object, limit: int) -> None:
    """A target may repeat the URL that it was given; also where the cut goes through the token."""
    assert cut("?token=" + "5f" * 32) == "?token=***"  # type: ignore[operator]
    begin = "x" * (limit - 20)
    assert cut(begin + "?token=" + "5f" * 32) == begin + "?token=***"  # type: ignore[operator]
