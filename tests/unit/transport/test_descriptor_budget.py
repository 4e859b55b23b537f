"""Descriptors are shared fairly among origins."""

from typing import Any

from scheduler_service.transport.descriptor_budget import DescriptorBudget
from tests.rows import each_row


class Origin:
    """A route that opens connections and keeps them for its calls."""

    def __init__(self, bench: "Bench") -> None:
        self.held = 0
        self._bench = bench

    def open(self, most: int) -> int:
        """Opens up to `most` connections, and returns how many it could."""
        for count in range(most):
            if not self._bench.budget.admits(self):
                return count
            self.take()
        return most

    def take(self) -> None:
        """Opens a connection."""
        self.held += 1
        self._bench.budget.used += 1

    def end(self) -> None:
        """A call has ended, and its connection is closed."""
        self.held -= 1
        self._bench.budget.used -= 1

    def rest(self) -> None:
        """A call has ended, and its connection is kept."""
        self.held -= 1
        self._bench.idle += 1


class Bench:
    """A budget; `closed` counts the idle connections that it has closed, which go at `settle`."""

    def __init__(self, total: int) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.closed: list[object] = []
        self.idle = 0
        self.budget: DescriptorBudget[Origin] = DescriptorBudget(
            total,
            count_idle=lambda: self.idle,
            close_idle=self._close_idle,
            log=lambda event, **keys: self.lines.append((event, keys)),
        )

    def origins(self, count: int) -> list[Origin]:
        """So many new ones."""
        return [Origin(self) for _ in range(count)]

    def settle(self) -> None:
        """What was closed is gone."""
        for one in self.closed:
            self.budget.forget(one)
            self.budget.used -= 1
        self.closed.clear()

    def _close_idle(self) -> object | None:
        if not self.idle:
            return None
        self.idle -= 1
        self.closed.append(object())
        return self.closed[-1]


@each_row("greedy", [1, 2, 3, 10, 50])
def test_a_new_origin_always_finds_some(greedy: int) -> None:
    """However many take what they can, in turns, and give nothing back."""
    bench = Bench(200)
    origins = bench.origins(greedy)
    for _ in range(600):
        for origin in origins:
            origin.open(1)
    held = sorted(origin.held for origin in origins)
    assert held[-1] - held[0] <= 1
    left = bench.budget.total - bench.budget.used
    assert left >= 200 // (greedy + 1) - greedy
    [late] = bench.origins(1)
    assert late.open(600) >= max(left // 2, 1)


def test_what_is_free_goes_to_who_holds_least() -> None:
    """Also before those that have waited longer."""
    bench = Bench(9)
    first, second, third = bench.origins(3)
    assert first.open(9) == 5
    assert second.open(9) == 2
    third.take()
    third.take()
    assert bench.budget.next() is None
    first.end()
    first.end()
    assert list(bench.budget.blocked) == [first, second]
    assert bench.budget.next() is None, "second holds as many as there are left"
    third.end()
    assert bench.budget.next() is second
    assert list(bench.budget.blocked) == [first]


def test_idle_connections_of_others_give_way() -> None:
    """Once no descriptor is left, one is closed for a call that would have a right to it."""
    bench = Bench(10)
    quiet, busy, new = bench.origins(3)
    assert quiet.open(5) == 5
    for _ in range(5):
        quiet.rest()
    assert busy.open(10) == 5
    assert bench.closed == []
    assert new.open(1) == 0
    assert len(bench.closed) == 1
    assert list(bench.budget.blocked) == [busy, new]
    bench.settle()
    assert bench.budget.next() is new


def test_who_holds_more_gives_back() -> None:
    """Connections that become free are closed for a blocked origin that holds less, until both are even."""
    bench = Bench(8)
    greedy, *others, last = bench.origins(6)
    assert greedy.open(8) == 4
    for one in others:
        one.take()
    assert last.open(1) == 0
    assert bench.budget.owes(greedy, "a")
    bench.budget.forget("a")
    greedy.end()
    assert bench.budget.next() is last
    last.take()
    assert list(bench.budget.blocked) == [greedy]
    assert last.open(1) == 0
    assert bench.budget.owes(greedy, "b")
    bench.budget.forget("b")
    greedy.end()
    assert not bench.budget.owes(greedy, "c"), "2 and 1: nobody gains"


async def test_want_of_descriptors_is_counted() -> None:
    """And an idle connection is closed each time."""
    bench = Bench(10)
    [origin] = bench.origins(1)
    origin.take()
    origin.rest()
    bench.budget.note_exhausted("connect")
    bench.budget.note_exhausted("connect")
    assert len(bench.closed) == 1
    bench.budget.close()
    assert bench.lines == [("descriptors_exhausted", {"connect": 1, "limit": 10})] * 2
