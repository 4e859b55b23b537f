"""When a route may open another connection, beyond what the sender's tests show."""

import asyncio

from scheduler_service.transport.addresses import read_url
from scheduler_service.transport.connection import Deadlines, HttpConnection, ReadBuffer
from scheduler_service.transport.connection_limit import ConnectionLimit, Waiter
from scheduler_service.transport.descriptor_budget import DescriptorBudget
from scheduler_service.transport.egress_guard import Route, Trust

ORIGIN = "http://127.0.0.1:1"


class NoOwner:
    """Keeps no connection."""

    def release(self, connection: HttpConnection) -> None:
        """Nothing to keep."""

    def lose(self, connection: HttpConnection) -> None:
        """Nothing to forget."""


class Bench:
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
    bench = Bench(open_now=100, most=110)
    bench.limit.opening = 9
    assert bench.limit.has_room()
    bench.limit.opening = 10
    assert not bench.limit.has_room()
    bench = Bench(open_now=0)
    bench.limit.opening = 16
    assert not bench.limit.has_room()


async def test_answers_without_a_pause_let_none_be_opened() -> None:
    """For 5 ms there was always another answer: calls wait for the loop, not for connections."""
    bench = Bench(open_now=48)
    await bench.bring_back(48, 1, 1, 1, milliseconds=1)
    assert bench.limit.has_room()
    await bench.bring_back(1, milliseconds=1)
    assert not bench.limit.has_room()
    # Below 48 connections the answers are not looked at
    bench = Bench(open_now=47)
    await bench.bring_back(47, 47, 47, milliseconds=10)
    assert bench.limit.has_room()


async def test_waiting_calls_get_connections_when_no_answer_comes_for_a_moment() -> None:
    """Slow answers after quick ones: each call gets a connection of its own again at once."""
    bench = Bench(open_now=48)
    bench.limit.waiting.add(Waiter(ORIGIN, asyncio.get_running_loop()), None, "")
    await bench.bring_back(48, 16, 48, milliseconds=5)
    assert not bench.limit.has_room()
    assert not bench.calls
    await bench.bring_back(0, 0, milliseconds=1)
    assert bench.limit.has_room()
    assert bench.calls == 1
