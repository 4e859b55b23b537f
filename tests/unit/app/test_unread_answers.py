"""Answers that nobody reads take so much memory together, and no more."""

import asyncio

from scheduler_service.app.unread_answers import UNREAD_SECONDS, UnreadAnswers


class Waiting:
    """A connection whose answer takes so much memory, and waits."""

    def __init__(self, kept_bytes: int) -> None:
        self.kept_bytes = kept_bytes
        self.unsent_bytes = 100


class Bench:
    """Answers of at most 100 bytes unread, and 300 read slowly, under a clock that stands still."""

    def __init__(self, look_seconds: float = 3_600) -> None:
        self.seconds = 0.0
        self.cut: list[Waiting] = []
        self.unread = UnreadAnswers[Waiting](
            cut=self._cut,
            now=lambda: self.seconds,
            unread_bytes=100,
            slow_bytes=300,
            look_seconds=look_seconds,
        )

    def add(self, kept_bytes: int) -> Waiting:
        """One more answer of that size waits."""
        waiting = Waiting(kept_bytes)
        self.unread.add(waiting)
        return waiting

    def look(self, at: float) -> list[Waiting]:
        """Those that have been cut once it was looked at, that many seconds after the begin."""
        self.seconds = at
        self.unread.look()
        return self.cut

    def _cut(self, waiting: Waiting) -> None:
        self.cut.append(waiting)
        self.unread.remove(waiting)


async def test_those_that_wait_for_longest_are_cut() -> None:
    """Only as many as it takes, and none that has not waited for a second."""
    bench = Bench()
    first, second, _ = bench.add(60), bench.add(30), bench.add(10)
    assert bench.look(UNREAD_SECONDS / 2) == []
    bench.add(60)
    assert bench.look(UNREAD_SECONDS) == [], "what has just begun to wait does not count"
    assert bench.look(1.5 * UNREAD_SECONDS) == [first]
    bench.add(30)
    assert bench.look(3 * UNREAD_SECONDS) == [first, second]
    bench.unread.close()


async def test_who_reads_is_not_cut() -> None:
    """However slowly, and however much others leave unread."""
    bench = Bench()
    slow = bench.add(100)
    for moment in range(1, 5):
        slow.unsent_bytes -= 10
        assert bench.look(moment * UNREAD_SECONDS) == []
    silent = bench.add(101)
    slow.unsent_bytes -= 10
    assert bench.look(4.5 * UNREAD_SECONDS) == []
    slow.unsent_bytes -= 10
    assert bench.look(5 * UNREAD_SECONDS) == [silent]
    bench.unread.close()


async def test_slow_readers_are_cut_where_all_take_too_much() -> None:
    """Those that began first, whether they read or not, and how long ago it was."""
    bench = Bench()
    slow, silent, other = bench.add(100), bench.add(90), bench.add(10)
    assert bench.look(0.1 * UNREAD_SECONDS) == []
    late = bench.add(110)
    slow.unsent_bytes -= 10
    assert bench.look(0.2 * UNREAD_SECONDS) == [slow]
    bench.add(100)
    assert bench.look(0.3 * UNREAD_SECONDS) == [slow, silent]
    bench.add(1000)
    assert bench.look(0.4 * UNREAD_SECONDS)[2:4] == [other, late]
    bench.unread.close()


async def test_it_looks_by_itself_as_long_as_answers_wait() -> None:
    """Not after they have been read, nor after the end."""
    bench = Bench(look_seconds=0)
    first = bench.add(101)
    await rounds()
    assert bench.cut == []
    assert bench.unread.longest() is None
    bench.seconds = UNREAD_SECONDS
    assert bench.unread.longest() is first
    await rounds()
    assert bench.cut == [first]
    second = bench.add(101)
    bench.unread.close()
    bench.add(101)
    bench.seconds = 3 * UNREAD_SECONDS
    await rounds()
    assert second not in bench.cut


async def rounds() -> None:
    """Some rounds of the loop."""
    for _ in range(5):
        await asyncio.sleep(0)
