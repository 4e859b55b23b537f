"""Texts from outside, cut to a length."""

from scheduler_service.domain.texts import cut, cut_error, cut_message, cut_progress, progress_fraction, scrub
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
    # A target may repeat the URL that it was given; also where the cut goes through the token
    assert cut("?token=" + "5f" * 32) == "?token=***"  # type: ignore[operator]
    begin = "x" * (limit - 20)
    assert cut(begin + "?token=" + "5f" * 32) == begin + "?token=***"  # type: ignore[operator]


@each_row(
    ("progress", "fraction"),
    [
        ("20/60", 0.3333),
        ("40/60", 0.6667),
        ("30%", 0.3),
        ("0%", 0.0),
        ("0/5", 0.0),
        ("12.5%", 0.125),
        ("1.5/3", 0.5),
        ("60/60", 1.0),
        ("100%", 1.0),
        ("70/60", 1.0),
        ("250%", 1.0),
    ],
)
def test_progress_is_a_fraction(progress: str, fraction: float) -> None:
    """`20/60` and `30%`, to four places; more than all is all."""
    assert progress_fraction(progress) == fraction


@each_row(
    "progress",
    [
        None, "", "half", "5/0", "0/0", "30", "30 %", "-1/3", "1/-3", "1/2/3", "%", "/", "1/", "/2", "30%\n",
        "1e3%", "nan%", "٣/٤", "9" * 400 + "/1", "0." + "0" * 400 + "1/2",
    ],
)  # fmt: skip
def test_another_progress_is_no_fraction(progress: str | None) -> None:
    """It is kept raw and not interpreted."""
    assert progress_fraction(progress) is None
