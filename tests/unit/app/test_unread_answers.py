"""Answers that nobody reads take so much memory together, and no more."""

import pytest

from scheduler_service.app.unread_answers import UNREAD_SECONDS, UnreadAnswers

pytestmark = pytest.mark.anyio


class Waiting:
    """A connection whose answer waits."""

    def __init__(self, unsent_bytes: int) -> None:
        self.unsent_bytes = unsent_bytes


class Bench:
    """Unread answers of at most 100 bytes, under a clock that stands still."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cut: list[Waiting] = []
        self.unread = UnreadAnswers[Waiting](cut=self._cut, now=lambda: self.seconds, most_bytes=100)

    def add(self, unsent_bytes: int) -> Waiting:
        """One more answer of that size waits."""
        waiting = Waiting(unsent_bytes)
        self.unread.add(waiting)
        return waiting

    def _cut(self, waiting: Waiting) -> None:
        self.cut.append(waiting)
        self.unread.remove(waiting)


async def test_those_that_wait_for_longest_are_cut() -> None:
    """Only as many as the others need, and none that has not waited for a second."""
    bench = Bench()
    first, second, _ = bench.add(60), bench.add(30), bench.add(10)
    bench.seconds = UNREAD_SECONDS - 0.1
    fourth = bench.add(60)
    assert bench.cut == []
    bench.seconds = UNREAD_SECONDS
    bench.unread.relieve()
    assert bench.cut == [first]
    bench.add(30)
    assert bench.cut == [first, second]
    bench.seconds = 3 * UNREAD_SECONDS
    bench.unread.remove(fourth)
    bench.unread.relieve()
    assert bench.cut == [first, second]
    bench.unread.close()


async def test_what_was_read_meanwhile_is_not_counted() -> None:
    """However much a caller had to read at first."""
    bench = Bench()
    slow = bench.add(100)
    bench.seconds = 10
    slow.unsent_bytes = 50
    bench.add(50)
    assert bench.cut == []


async def test_it_looks_again_by_itself() -> None:
    """Where nothing could be cut at once, in a second, though nobody comes."""
    bench = Bench()
    first = bench.add(101)
    assert bench.unread.longest() is None
    bench.seconds = UNREAD_SECONDS
    bench.unread.ring()
    assert bench.cut == [first]
    bench.unread.ring()
    assert bench.cut == [first]
