"""Rounds of the collector are short where they find garbage, and few where they find none."""

import gc
from collections.abc import Iterator

import pytest

from scheduler_service.pacing.interpreter import (
    FEW,
    MANY,
    RESTING,
    SEARCHING,
    short_collections,
    tend_collector,
)

Kept = list[list[int]]


class Rounds(list[int]):
    """The generations that were looked at."""

    def note(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self.append(info["generation"])


@pytest.fixture
def rounds() -> Iterator[Rounds]:
    """Those of the test; the collector of this process is afterwards as it was."""
    thresholds, callbacks = gc.get_threshold(), gc.callbacks[:]
    rounds = Rounds()
    gc.callbacks[:] = [rounds.note]  # whatever ran in this process before
    gc.collect()
    gc.freeze()
    rounds.clear()
    yield rounds
    gc.callbacks[:] = callbacks
    gc.set_threshold(*thresholds)


def make_garbage(count: int) -> None:
    """So many objects that only the collector frees."""
    for _ in range(count):
        one: list[object] = []
        one.append(one)


def test_what_lives_is_looked_at_seldom(rounds: Rounds) -> None:
    """The first round finds no garbage, so the others are over more objects; none over what is older."""
    tend_collector()
    kept: Kept = [[] for _ in range(FEW + 10 * MANY)]
    assert 10 <= len(rounds) <= 12
    assert set(rounds) == {0}
    assert kept


def test_where_there_is_garbage_rounds_are_short(rounds: Rounds) -> None:
    """Also after a time without any: the first round that finds some is the last long one."""
    tend_collector()
    kept: Kept = [[] for _ in range(FEW + MANY)]
    rounds.clear()
    make_garbage(MANY + 10 * FEW)
    assert 9 <= len(rounds) <= 12
    assert kept


def test_what_others_set_stays(rounds: Rounds) -> None:
    """Also in large work, and after it."""
    tend_collector()
    gc.set_threshold(1_000, 7, 8)
    kept: Kept = [[] for _ in range(3_000)]
    assert len(rounds) in (2, 3)
    assert gc.get_threshold() == (1_000, 7, 8)
    with short_collections():
        inside = gc.get_threshold()
        kept += [[] for _ in range(3_000)]
        assert gc.get_threshold() == inside
    assert gc.get_threshold() == (1_000, 7, 8)


def test_large_work_begins_with_short_rounds(rounds: Rounds) -> None:
    """Whatever was found before: what is known to make garbage is large work."""
    tend_collector()
    kept: Kept = [[] for _ in range(2 * FEW)]
    with short_collections():
        assert gc.get_threshold()[0] == FEW
    assert gc.get_threshold()[0] == MANY
    assert kept


def test_two_that_want_short_rounds_have_them_until_the_last_has_left(rounds: Rounds) -> None:
    """Large work in a thread ends amid a burst, and the other way round."""
    tend_collector()
    usual = gc.get_threshold()
    first, second = short_collections(), short_collections()
    first.__enter__()
    short = gc.get_threshold()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == short != usual
    second.__exit__(None, None, None)
    assert gc.get_threshold() == usual


def test_a_round_that_ends_as_large_work_begins_leaves_it_short(rounds: Rounds) -> None:
    """Its end was judged by the thresholds before: it may not set the usual ones over those of the work."""
    tend_collector()
    adapt = gc.callbacks[-1]
    with short_collections():
        short = gc.get_threshold()
        for before, collected in ((SEARCHING, 0), (RESTING, MANY)):
            gc.set_threshold(*before)  # what the end of that round has read
            adapt("stop", {"generation": 0, "collected": collected})
            assert gc.get_threshold() == short
    assert gc.get_threshold() in (SEARCHING, RESTING)
