"""The language that a caller prefers."""

import pytest

from scheduler_service.api.languages import preferred


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (None, "en"),
        ("", "en"),
        ("zh-CN", "zh"),
        ("ZH", "zh"),
        ("fr, zh-Hans;q=0.4", "zh"),
        ("zh;q=0.2, en-GB;q=0.9", "en"),
        ("en;q=0.5, zh;q=0.9", "zh"),
        ("zh;q=0", "en"),
        ("zh;q=much", "en"),
        ("*, fr", "en"),
        (",;;=,", "en"),
    ],
)
def test_the_best_liked_of_those_that_there_are(header: str | None, language: str) -> None:
    """By quality, the first among equals; English where nothing fits or can be read."""
    assert preferred(header) == language
