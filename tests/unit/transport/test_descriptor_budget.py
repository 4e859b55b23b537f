"""Descriptors are shared fairly among origins."""

import asyncio
from typing import Any

from scheduler_service.transport.addresses import read_url
from scheduler_service.transport.connection import Deadlines, HttpConnection, ReadBuffer
from scheduler_service.transport.connection_limit import ConnectionLimit, Waiter
from scheduler_service.transport.descriptor_budget import DescriptorBudget
from scheduler_service.transport.egress_guard import Route, Trust
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


ORIGIN = "http://127.0.0.1:1"


class NoOwner:
    """Keeps no connection."""

    def release(self, connection: HttpConnection) -> None:
        """Nothing to keep."""

    def lose(self, connection: HttpConnection) -> None:
        """Nothing to forget."""


class LimitBench:
    """A limit with `open_now` connections and its own clock; `calls` counts the calls of `on_room`."""

    def __init__(self, *, open_now: int, most: int = 512) -> None:
        self.calls = 0
        self.seconds = 0.0
        loop = asyncio.get_running_loop()
        route = Route(read_url(ORIGIN).site, Trust.NONE)
        budget: DescriptorBudget[ConnectionLimit] = DescriptorBudget(
            16_384, count_idle=lambda: 0, close_idle=lambda: None, log=lambda event, **keys: None
        )
        self.limit = ConnectionLimit(route, loop, most, self._on_room, budget, lambda: self.seconds)
        for _ in range(open_now):
            self.limit.open.add(
                HttpConnection(
                    origin=ORIGIN,
                    owner=NoOwner(),
                    deadlines=Deadlines(),
                    limit=1,
                    is_silent=lambda: True,
                    buffer=ReadBuffer(),
                )
            )

    def _on_room(self, limit: ConnectionLimit) -> None:
        assert limit is self.limit
        self.calls += 1

    async def bring_back(self, *rounds: int, milliseconds: float) -> None:
        """In each round of the loop, that many connections are returned; a round takes `milliseconds`."""
        for count in rounds:
            for _ in range(count):
                self.limit.count_return()
            self.seconds += milliseconds / 1000
            await asyncio.sleep(0)


async def test_few_are_opened_at_a_time_and_none_beyond_the_most() -> None:
    """16 are being opened at most, and there are `most` in all."""
    bench = LimitBench(open_now=100, most=110)
    bench.limit.opening = 9
    assert bench.limit.has_room()
    bench.limit.opening = 10
    assert not bench.limit.has_room()
    bench = LimitBench(open_now=0)
    bench.limit.opening = 16
    assert not bench.limit.has_room()


async def test_answers_without_a_pause_let_none_be_opened() -> None:
    """For 5 ms there was always another answer: calls wait for the loop, not for connections."""
    bench = LimitBench(open_now=48)
    await bench.bring_back(48, 1, 1, 1, milliseconds=1)
    assert bench.limit.has_room()
    await bench.bring_back(1, milliseconds=1)
    assert not bench.limit.has_room()
    # Below 48 connections the answers are not looked at
    bench = LimitBench(open_now=47)
    await bench.bring_back(47, 47, 47, milliseconds=10)
    assert bench.limit.has_room()


async def test_waiting_calls_get_connections_when_no_answer_comes_for_a_moment() -> None:
    """Slow answers after quick ones: each call gets a connection of its own again at once."""
    bench = LimitBench(open_now=48)
    bench.limit.waiting.add(Waiter(ORIGIN, asyncio.get_running_loop()), None, "")
    await bench.bring_back(48, 16, 48, milliseconds=5)
    assert not bench.limit.has_room()
    assert not bench.calls
    await bench.bring_back(0, 0, milliseconds=1)
    assert bench.limit.has_room()
    assert bench.calls == 1
