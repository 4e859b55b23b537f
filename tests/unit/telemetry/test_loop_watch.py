"""What holds the loop is named once, with its functions and without a value (decision 28)."""

import threading

import pytest

from scheduler_service.telemetry.loop_watch import (
    BEAT,
    HELD,
    THREAD,
    LoopWatch,
    stack_of,
    watching,
)
from scheduler_service.telemetry.standstills import Standstills
from scheduler_service.telemetry.tally import LINE_SECONDS

LATE = BEAT + HELD + 0.01


class World:
    """A watch, its clock and its log."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.lines: list[dict[str, object]] = []
        self.watch = LoopWatch(log=self._write, clock=lambda: self.now, stack=lambda: ["engine.render"])

    def _write(self, event: str, /, **keys: object) -> None:
        assert event == "loop_stalled"
        self.lines.append(keys)

    def hold(self, seconds: float, *, look_after: float | None = None) -> None:
        """The next beat comes after so long; before it, perhaps, a look."""
        if look_after is not None:
            self.now += look_after
            self.watch.look()
        self.now += seconds - (look_after or 0)
        self.watch.beat()


def test_a_loop_that_beats_in_time_is_silent() -> None:
    """Also one that is a little late."""
    world = World()
    for seconds in (BEAT, BEAT + HELD / 2, BEAT):
        world.hold(seconds, look_after=BEAT)
    assert world.lines == []


def test_what_held_it_is_named() -> None:
    """The functions are those in which it stood while it was late; without a look there are none."""
    world = World()
    world.hold(BEAT + 0.5, look_after=LATE)
    assert world.lines == [{"ms": 500, "functions": ["engine.render"], "more": 0}]
    unseen = World()
    unseen.hold(BEAT + 0.5)
    assert unseen.lines == [{"ms": 500, "functions": [], "more": 0}]


def test_a_look_says_when_the_next_one_is_due() -> None:
    """When the beat would be late: so one look for each beat is enough, and no hold goes unseen."""
    world = World()
    assert world.watch.look() == pytest.approx(BEAT + HELD / 2)
    world.now += BEAT
    world.watch.beat()
    world.now += BEAT / 2
    again = world.watch.look()
    assert again == pytest.approx(BEAT / 2 + HELD / 2)
    world.now += again
    assert world.watch.look() == HELD / 2
    world.watch.beat()
    world.hold(LATE + 0.1)
    assert [line["functions"] for line in world.lines] == [[]]


def test_many_incidents_are_one_line_with_their_number() -> None:
    """One line in ten seconds."""
    world = World()
    for _ in range(4):
        world.hold(LATE)
    assert [line["more"] for line in world.lines] == [0]
    world.hold(BEAT)
    for _ in range(round(LINE_SECONDS / BEAT)):
        world.hold(BEAT)
    world.hold(LATE)
    assert [line["more"] for line in world.lines] == [0, 3]


def test_names_of_functions_are_all_that_is_seen() -> None:
    """The innermost first."""
    assert stack_of(threading.get_ident())[:2] == [
        "scheduler_service.telemetry.loop_watch.stack_of",
        f"{__name__}.test_names_of_functions_are_all_that_is_seen",
    ]
    assert stack_of(0) == []


@pytest.mark.anyio
async def test_a_running_watch_ends_with_its_block() -> None:
    """Its thread ends, and the loop has no beat of it any more."""
    with watching(lambda event, /, **keys: None):
        names = {thread.name for thread in threading.enumerate()}
    assert THREAD in names
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join()
    assert THREAD not in {thread.name for thread in threading.enumerate()}


def test_each_hold_is_remembered() -> None:
    """Also those that have no line of their own (SPEC section 14)."""
    now = [1_000.0]
    standstills = Standstills(clock=lambda: now[0])
    watch = LoopWatch(
        log=lambda event, /, **keys: None, clock=lambda: now[0], stack=list, standstills=standstills
    )
    for seconds in (BEAT, BEAT + 0.5, BEAT + 12.0, BEAT + 0.2):
        now[0] += seconds
        watch.beat()
    assert round(standstills.longest, 3) == 12
    assert round(standstills.lasting or 0, 3) == 12
