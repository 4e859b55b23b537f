"""Room for what few may have: never more than there is, in line, and no key at the expense of others."""

import asyncio
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from scheduler_service.pacing.waiting_room import Place, Room

MOST = 100


class Rounds:
    """A loop that runs what was scheduled, in order, when it is told to."""

    def __init__(self) -> None:
        self._due: deque[Callable[[], None]] = deque()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._due.append(callback)

    def run(self) -> None:
        """Until nothing is scheduled."""
        while self._due:
            self._due.popleft()()


class Readers:
    """A room, and who reads there: `began` has the names of those that were let in, in order."""

    def __init__(self, most: int = MOST) -> None:
        self.rounds = Rounds()
        self.room = Room(most, call_soon=self.rounds.call_soon)
        self.began: list[str] = []

    def ask(self, size: int, name: str) -> Place:
        """`name` is of the origin that its first letter says."""
        place = self.room.ask(size, lambda: self.began.append(name), name[0])
        if place.is_granted:
            self.began.append(name)
        return place

    def leave(self, place: Place) -> None:
        place.leave()
        self.rounds.run()


@pytest.fixture
def readers() -> Readers:
    return Readers()


def test_who_finds_room_has_it_at_once_and_others_wait_in_line(readers: Readers) -> None:
    """A small one does not overtake a large one that waits."""
    first, second = readers.ask(50, "a"), readers.ask(50, "b")
    third, fourth = readers.ask(40, "c"), readers.ask(10, "d")
    assert readers.began == ["a", "b"]
    assert (readers.room.taken, readers.room.waiting) == (100, 2)
    readers.leave(first)
    assert readers.began == ["a", "b", "c", "d"]
    for place in (second, third, fourth):
        readers.leave(place)
    assert (readers.room.taken, readers.room.waiting) == (0, 0)


def test_what_is_given_back_is_free_in_the_next_round(readers: Readers) -> None:
    """Who has its body counts it as handled first; so nobody else is let in."""
    first = readers.ask(50, "a")
    readers.ask(50, "b")
    readers.ask(50, "c")
    first.leave()
    readers.room.hold(50)
    readers.rounds.run()
    assert (readers.began, readers.room.taken) == (["a", "b"], 100)
    readers.room.release(50)
    assert readers.began == ["a", "b"]
    readers.rounds.run()
    assert readers.began == ["a", "b", "c"]


def test_one_round_lets_in_no_more_than_there_is_at_its_beginning() -> None:
    """Also where those that are let in have done at once: their bodies are in memory still."""
    rounds = Rounds()
    room = Room(MOST, call_soon=rounds.call_soon)
    most, began = 0, 0
    places: list[Place] = []

    def go_on() -> None:
        nonlocal most, began
        places[began].leave()
        room.hold(25)
        most, began = max(most, 25 * (began + 1)), began + 1

    gate = room.ask(MOST, lambda: None, "gate")
    places.extend(room.ask(25, go_on, str(number)) for number in range(40))
    gate.leave()
    rounds.run()
    assert (began, most, room.taken) == (4, MOST, MOST)


def test_one_origin_has_half_while_others_are_let_in(readers: Readers) -> None:
    """Its third one waits although there is room, and those of others pass it."""
    first = readers.ask(25, "a1")
    for name in ("a2", "a3", "a4", "b1", "b2", "b3"):
        readers.ask(25, name)
    assert readers.began == ["a1", "a2", "b1", "b2"]
    readers.leave(first)
    assert readers.began == ["a1", "a2", "b1", "b2", "a3"]


def test_one_larger_than_the_room_is_read_alone(readers: Readers) -> None:
    """It waits until nothing is taken, and is let in then."""
    first = readers.ask(10, "a")
    large = readers.ask(MOST + 1, "b")
    small = readers.ask(10, "c")
    assert readers.began == ["a"]
    readers.leave(first)
    assert readers.began == ["a", "b"]
    readers.leave(large)
    assert readers.began == ["a", "b", "c"]
    readers.leave(small)
    assert readers.room.taken == 0


def test_who_leaves_the_line_makes_way(readers: Readers) -> None:
    """For those behind it, whether it was the first or not; leaving twice is leaving once."""
    readers.ask(50, "a")
    large, last, small = readers.ask(60, "b"), readers.ask(20, "c1"), readers.ask(20, "c2")
    readers.leave(last)
    readers.leave(last)
    assert readers.began == ["a"]
    readers.leave(large)
    assert readers.began == ["a", "c2"]
    readers.leave(small)
    readers.leave(small)
    assert (readers.room.taken, readers.room.waiting) == (50, 0)


async def soon(room: Room, units: int) -> "asyncio.Task[Place]":
    """Somebody who has asked, and waits or has a place."""
    task = asyncio.ensure_future(room.take(units))
    await asyncio.sleep(0)
    return task


async def test_who_gives_up_makes_way() -> None:
    """Those behind it do not wait for it, also where it was let in and has not gone on yet."""
    room = Room(2)
    first = await room.take(1)
    many, few = await soon(room, 2), await soon(room, 1)
    many.cancel()
    second = await few
    late, last = await soon(room, 2), await soon(room, 2)
    first.leave()
    second.leave()
    while not late.done() and room.waiting == 2:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    late.cancel()
    (await last).leave()
    with pytest.raises(asyncio.CancelledError):
        await late


async def test_who_has_waited_for_long_is_told_and_loses_nothing() -> None:
    """Also where room comes in the same round, after its time was over."""
    loop = asyncio.get_running_loop()
    room = Room(1, later=lambda give_up: loop.call_later(0, give_up))
    first = await room.take(1)
    late = await soon(room, 1)
    for _ in range(2):  # its time is over; it is told
        await asyncio.sleep(0)
    first.leave()
    with pytest.raises(TimeoutError):
        await late
    await asyncio.sleep(0)
    assert (await room.take(1)).is_granted


class Exchanges(RuleBasedStateMachine):
    """Any order of asking, leaving and handling."""

    waiting_or_reading = Bundle[Place]("waiting_or_reading")

    def __init__(self) -> None:
        super().__init__()
        self.rounds = Rounds()
        self.room = Room(MOST, call_soon=self.rounds.call_soon)
        self.open: list[Place] = []
        self.asked: list[Place] = []
        self.let_in: list[Place] = []
        self.handled: list[int] = []

    @rule(target=waiting_or_reading, size=st.integers(1, 120), origin=st.sampled_from("abc"))
    def ask(self, size: int, origin: str) -> Place:
        place = self.room.ask(size, lambda: self.let_in.append(place), origin)
        self.open.append(place)
        self.asked.append(place)
        if place.is_granted:
            self.let_in.append(place)
        return place

    @rule(place=consumes(waiting_or_reading), is_handled=st.booleans())
    def leave(self, place: Place, is_handled: bool) -> None:
        place.leave()
        place.leave()
        self.open.remove(place)
        if is_handled and place.is_granted:
            self.room.hold(place.units)
            self.handled.append(place.units)

    @rule()
    def release(self) -> None:
        if self.handled:
            self.room.release(self.handled.pop())

    @rule()
    def go_on(self) -> None:
        """What was scheduled runs: then nobody who is first in line has room left over."""
        self.rounds.run()
        granted = [place for place in self.open if place.is_granted]
        assert self.room.taken == sum(place.units for place in granted) + sum(self.handled)
        assert self.room.waiting == len(self.open) - len(granted)
        assert self.room.taken > 0 or not self.open

    @invariant()
    def no_more_is_read_than_there_is_room_for(self) -> None:
        """Beside what is handled of it; one alone may be larger."""
        reading = [place for place in self.open if place.is_granted]
        assert len(reading) <= 1 or sum(place.units for place in reading) <= MOST

    @invariant()
    def no_origin_has_more_than_half(self) -> None:
        """One body of it alone may be larger."""
        reading = [place for place in self.open if place.is_granted]
        for name in "abc":
            sizes = [place.units for place in reading if place.key == name]
            assert len(sizes) <= 1 or sum(sizes) <= MOST // 2

    @invariant()
    def those_of_one_origin_are_let_in_in_order(self) -> None:
        for name in "abc":
            asked = [place for place in self.asked if place.key == name and place in self.let_in]
            assert asked == [place for place in self.let_in if place.key == name]
        assert len(set(self.let_in)) == len(self.let_in)

    def teardown(self) -> None:
        """Everybody who stays in line is served, and nothing is left behind."""
        for size in self.handled:
            self.room.release(size)
        self.rounds.run()
        while self.open:
            reading = [place for place in self.open if place.is_granted]
            assert reading, "nobody reads, and some wait"
            reading[0].leave()
            self.open.remove(reading[0])
            self.rounds.run()
        assert (self.room.taken, self.room.waiting) == (0, 0)


TestExchanges = Exchanges.TestCase
TestExchanges.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
