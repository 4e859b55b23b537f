"""Texts from outside, cut to a length."""

from scheduler_service.domain.texts import cut, scrub
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
