"""The limit of descriptors, and what they are shared out to."""

import resource
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler_service.app.descriptors import (
    LEAST_CALLS,
    MOST_USEFUL,
    RESERVED,
    Shares,
    current_limit,
    divide,
    raise_limit,
)
from scheduler_service.settings import SettingsError
from tests.rows import each_row

LOW = 1_000


@pytest.fixture
def hard() -> Iterator[int]:
    """The hard limit, over a soft one of 1,000 that is put back afterwards."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LOW, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


def test_the_soft_limit_becomes_the_hard_one(hard: int) -> None:
    """As far as it is of use; the log says so, with numbers."""
    lines: list[tuple[str, dict[str, Any]]] = []
    limit = raise_limit(lambda event, **keys: lines.append((event, keys)))
    assert limit == current_limit() == (MOST_USEFUL if hard < 0 else min(hard, MOST_USEFUL))
    [(event, keys)] = lines
    assert event == "descriptors_set"
    assert {"limit": limit, "before": LOW, "hard": hard}.items() <= keys.items()
    assert ("note" in keys) is (limit < 1_024)


@each_row(
    ("limit", "listeners", "shares"),
    [
        (256, 1, Shares(RESERVED, 64, 96)),
        (1_024, 1, Shares(RESERVED, 256, 672)),
        (1_024, 0, Shares(RESERVED, 256, 928)),
        (65_536, 1, Shares(RESERVED, 16_384, 49_056)),
        (1_024, 2, Shares(RESERVED, 128, 672)),
        (64, 1, Shares(32, 16, 16)),
        (16, 1, Shares(8, 4, LEAST_CALLS)),
    ],
)
def test_each_part_has_its_share(limit: int, listeners: int, shares: Shares) -> None:
    """Callers of the API cannot take what calls need, nor calls what the API and the files need."""
    assert divide(limit, listeners=listeners) == shares


def test_the_callers_share_may_be_set() -> None:
    """As far as calls keep something; else the error says how many there may be."""
    assert divide(256, connections=20) == Shares(RESERVED, 20, 140)
    assert divide(256, connections=144) == Shares(RESERVED, 144, 16)
    with pytest.raises(SettingsError, match=r"limits\.connections = 145: of the 256 .* set 144 or less"):
        divide(256, connections=145)
    with pytest.raises(SettingsError, match=r"set 72 or less"):
        divide(256, connections=100, listeners=2)
