"""When a line lets another connection be opened, beside what the senders' tests show of it."""

import asyncio

import pytest

from scheduler_service.transport.addresses import read_url
from scheduler_service.transport.connection import HttpConnection
from scheduler_service.transport.connection_limit import ConnectionLimit, Waiter
from scheduler_service.transport.deadlines import Deadlines
from scheduler_service.transport.resolver import Route

pytestmark = pytest.mark.anyio

ORIGIN = "http://127.0.0.1:1"


class Nobody:
    """Keeps no connection."""

    def release(self, connection: HttpConnection) -> None:
        """Nothing to keep."""

    def lose(self, connection: HttpConnection) -> None:
        """Nothing to forget."""


class Lines:
    """A line with `open` connections and a clock of its own; `heard` counts how often it said it has room."""

    def __init__(self, *, open_now: int, most: int = 512) -> None:
        self.heard = 0
        self.seconds = 0.0
        loop = asyncio.get_running_loop()
        route = Route(read_url(ORIGIN).site, False)
        self.line = ConnectionLimit(route, loop, most, self._hear, lambda: self.seconds)
        for _ in range(open_now):
            self.line.open.add(
                HttpConnection(
                    origin=ORIGIN,
                    keeper=Nobody(),
                    deadlines=Deadlines(),
                    limit=1,
                    is_silent=lambda: True,
                )
            )

    def _hear(self, line: ConnectionLimit) -> None:
        assert line is self.line
        self.heard += 1

    async def bring_back(self, *rounds: int, milliseconds: float) -> None:
        """So many connections come back in each round of the loop, each of which lasts so long."""
        for count in rounds:
            for _ in range(count):
                self.line.count_return()
            self.seconds += milliseconds / 1000
            await asyncio.sleep(0)


async def test_few_are_opened_at_a_time_and_none_beyond_the_most() -> None:
    """16 on their way at once, and `most` in all."""
    lines = Lines(open_now=100, most=110)
    lines.line.opening = 9
    assert lines.line.has_room()
    lines.line.opening = 10
    assert not lines.line.has_room()
    lines = Lines(open_now=0)
    lines.line.opening = 16
    assert not lines.line.has_room()


async def test_answers_without_a_pause_let_none_be_opened() -> None:
    """For 5 ms there was always one more: it is the loop that calls wait for."""
    lines = Lines(open_now=48)
    await lines.bring_back(48, 1, 1, 1, milliseconds=1)
    assert lines.line.has_room()
    await lines.bring_back(1, milliseconds=1)
    assert not lines.line.has_room()


async def test_below_so_many_it_always_has_room() -> None:
    """Fewer than 48 connections are no reason to look at answers at all."""
    lines = Lines(open_now=47)
    await lines.bring_back(47, 47, 47, milliseconds=10)
    assert lines.line.has_room()


async def test_answers_in_gusts_leave_room() -> None:
    """From far away, or from a slow target: all at once, and then the loop has nothing to do."""
    lines = Lines(open_now=48)
    for _ in range(5):
        await lines.bring_back(48, 48, 0, 0, 0, milliseconds=2)
        assert lines.line.has_room()


async def test_who_waits_hears_when_there_is_no_answer_for_a_moment() -> None:
    """Slow answers after quick ones: at once each call gets a connection of its own again."""
    lines = Lines(open_now=48)
    lines.line.waiting.append(Waiter(ORIGIN, asyncio.get_running_loop()))
    await lines.bring_back(48, 16, 48, milliseconds=5)
    assert not lines.line.has_room()
    assert not lines.heard
    await lines.bring_back(0, 0, milliseconds=1)
    assert lines.line.has_room()
    assert lines.heard == 1
