"""Room for large responses: never more than there is, in line, and no origin at the expense of others."""

from collections import deque
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from scheduler_service.transport.response_room import Place, ResponseRoom

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
        self.room = ResponseRoom(most, call_soon=self.rounds.call_soon)
        self.began: list[str] = []

    def ask(self, size: int, name: str) -> Place:
        """`name` is of the origin that its first letter says."""
        place = self.room.reserve(size, name[0], lambda: self.began.append(name))
        if place.is_granted:
            self.began.append(name)
        return place

    def leave(self, place: Place) -> None:
        self.room.leave(place)
        self.rounds.run()


def test_who_finds_room_has_it_at_once_and_others_wait_in_line() -> None:
    """A small one does not overtake a large one that waits."""
    readers = Readers()
    first, second = readers.ask(50, "a"), readers.ask(50, "b")
    third, fourth = readers.ask(40, "c"), readers.ask(10, "d")
    assert readers.began == ["a", "b"]
    assert (readers.room.taken, readers.room.waiting) == (100, 2)
    readers.leave(first)
    assert readers.began == ["a", "b", "c", "d"]
    for place in (second, third, fourth):
        readers.leave(place)
    assert (readers.room.taken, readers.room.waiting) == (0, 0)


def test_what_is_given_back_is_free_in_the_next_round() -> None:
    """Who has its body counts it as handled first; so nobody else is let in."""
    readers = Readers()
    first = readers.ask(50, "a")
    readers.ask(50, "b")
    readers.ask(50, "c")
    readers.room.leave(first)
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
    room = ResponseRoom(MOST, call_soon=rounds.call_soon)
    most, began = 0, 0
    places: list[Place] = []

    def go_on() -> None:
        nonlocal most, began
        room.leave(places[began])
        room.hold(25)
        most, began = max(most, room.handled), began + 1

    gate = room.reserve(MOST, "gate", lambda: None)
    places.extend(room.reserve(25, str(number), go_on) for number in range(40))
    room.leave(gate)
    rounds.run()
    assert (began, most, room.taken) == (4, MOST, MOST)


def test_one_origin_has_half_while_others_are_let_in() -> None:
    """Its third one waits although there is room, and those of others pass it."""
    readers = Readers()
    first = readers.ask(25, "a1")
    for name in ("a2", "a3", "a4", "b1", "b2", "b3"):
        readers.ask(25, name)
    assert readers.began == ["a1", "a2", "b1", "b2"]
    readers.leave(first)
    assert readers.began == ["a1", "a2", "b1", "b2", "a3"]


def test_one_larger_than_the_room_is_read_alone() -> None:
    """It waits until nothing is taken, and is let in then."""
    readers = Readers()
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


def test_who_leaves_the_line_makes_way() -> None:
    """For those behind it, whether it was the first or not; leaving twice is leaving once."""
    readers = Readers()
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


class Exchanges(RuleBasedStateMachine):
    """Any order of asking, leaving and handling."""

    waiting_or_reading = Bundle[Place]("waiting_or_reading")

    def __init__(self) -> None:
        super().__init__()
        self.rounds = Rounds()
        self.room = ResponseRoom(MOST, call_soon=self.rounds.call_soon)
        self.open: list[Place] = []
        self.let_in: list[Place] = []
        self.handled: list[int] = []

    @rule(target=waiting_or_reading, size=st.integers(1, 120), origin=st.sampled_from("abc"))
    def ask(self, size: int, origin: str) -> Place:
        place = self.room.reserve(size, origin, lambda: self.let_in.append(place))
        self.open.append(place)
        if place.is_granted:
            self.let_in.append(place)
        return place

    @rule(place=consumes(waiting_or_reading), is_handled=st.booleans())
    def leave(self, place: Place, is_handled: bool) -> None:
        self.room.leave(place)
        self.room.leave(place)
        self.open.remove(place)
        if is_handled and place.is_granted:
            self.room.hold(place.size)
            self.handled.append(place.size)

    @rule()
    def release(self) -> None:
        if self.handled:
            self.room.release(self.handled.pop())

    @rule()
    def go_on(self) -> None:
        """What was scheduled runs: then nobody who is first in line has room left over."""
        self.rounds.run()
        granted = [place for place in self.open if place.is_granted]
        assert self.room.reserved == sum(place.size for place in granted)
        assert self.room.waiting == len(self.open) - len(granted)
        assert self.room.taken > 0 or not self.open

    @invariant()
    def no_more_is_read_than_there_is_room_for(self) -> None:
        """Beside what is handled of it; one alone may be larger."""
        reading = [place for place in self.open if place.is_granted]
        assert len(reading) <= 1 or sum(place.size for place in reading) <= MOST
        assert self.room.handled == sum(self.handled)

    @invariant()
    def no_origin_has_more_than_half(self) -> None:
        """One body of it alone may be larger."""
        reading = [place for place in self.open if place.is_granted]
        for name in "abc":
            sizes = [place.size for place in reading if place.origin.name == name]
            assert len(sizes) <= 1 or sum(sizes) <= MOST // 2

    @invariant()
    def those_of_one_origin_are_let_in_in_order(self) -> None:
        for name in "abc":
            numbers = [place.number for place in self.let_in if place.origin.name == name]
            assert numbers == sorted(numbers)
        assert len(set(self.let_in)) == len(self.let_in)

    def teardown(self) -> None:
        """Everybody who stays in line is served, and nothing is left behind."""
        for size in self.handled:
            self.room.release(size)
        self.rounds.run()
        while self.open:
            reading = [place for place in self.open if place.is_granted]
            assert reading, "nobody reads, and some wait"
            self.room.leave(reading[0])
            self.open.remove(reading[0])
            self.rounds.run()
        assert (self.room.taken, self.room.waiting) == (0, 0)


TestExchanges = Exchanges.TestCase
TestExchanges.settings = settings(stateful_step_count=40)
