"""What holds the loop is named once, with its functions and without a value (decision 28)."""

import asyncio
import threading
import time

from scheduler_service.telemetry.log_summaries import LINE_SECONDS
from scheduler_service.telemetry.loop_watch import (
    BEAT,
    HELD,
    LATE,
    LoopWatch,
    stack_of,
    watching,
)
from scheduler_service.telemetry.readiness import Standstills

HELD_BEAT = BEAT + HELD + 0.01


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
        """The next beat comes so long after the one before was due; before it, perhaps, a look."""
        self.now = self.watch.due - BEAT
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
    # The functions are those in which it stood while it was late; without a look there are none
    world = World()
    world.hold(BEAT + 0.5, look_after=HELD_BEAT)
    assert world.lines == [{"ms": 500, "functions": ["engine.render"], "more": 0}]
    unseen = World()
    unseen.hold(BEAT + 0.5)
    assert unseen.lines == [{"ms": 500, "functions": [], "more": 0}]
    # What the loop did before a beat that was not late does not count as what held the next one
    world = World()
    world.now += BEAT + LATE - 0.001
    world.watch.look()
    world.now += 0.2
    world.watch.beat()
    assert [line["functions"] for line in world.lines] == [[]]
    # At the next one what held the loop may be over
    places = iter(["engine.render", "selectors.select"])
    now, lines = [1_000.0], []

    def write(event: str, /, **keys: object) -> None:
        lines.append(keys["functions"])

    watch = LoopWatch(log=write, clock=lambda: now[0], stack=lambda: [next(places)])
    now[0] += HELD_BEAT
    watch.look()
    watch.look()
    watch.beat()
    assert lines == [["engine.render"]]


def test_a_look_that_a_beat_has_overtaken_says_nothing() -> None:
    """What it saw was not what holds the loop next."""
    now, lines, beats = [1_000.0], [], [True]

    def write(event: str, /, **keys: object) -> None:
        lines.append(keys["functions"])

    def stack() -> list[str]:
        if beats and beats.pop():
            watch.beat()
            return ["selectors.select"]
        return ["engine.render"]

    watch = LoopWatch(log=write, clock=lambda: now[0], stack=stack)
    now[0] += BEAT + LATE + 0.001
    watch.look()
    now[0] += HELD_BEAT
    watch.look()
    watch.beat()
    assert lines == [["engine.render"]]


async def test_a_running_watch_names_what_holds_the_loop() -> None:
    """By its own clock and its own thread, which looks while the loop is held.

    On a processor with other work the thread may come too late: then the next hold is twice as long.
    """
    seconds, functions = BEAT + HELD + LATE, ""
    while not functions and seconds < 20:
        functions = await functions_named(seconds)
        seconds *= 2
    assert f"{__name__}.hold_the_loop" in functions


async def functions_named(seconds: float) -> str:
    """What is told of a hold of so many seconds; nothing where the thread did not look meanwhile."""
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def write(event: str, /, *, functions: list[str], **keys: object) -> None:
        if not told.done():
            told.set_result(" ".join(functions))

    with watching(write):
        hold_the_loop(seconds)
        return await asyncio.wait_for(told, 10)


def hold_the_loop(seconds: float) -> None:
    """Lets nothing else run."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        """As a loop is held: by work, not by waiting."""


def test_many_incidents_are_one_line_with_their_number() -> None:
    """One line in ten seconds."""
    world = World()
    for _ in range(4):
        world.hold(HELD_BEAT)
    assert [line["more"] for line in world.lines] == [0]
    world.hold(BEAT)
    for _ in range(round(LINE_SECONDS / BEAT)):
        world.hold(BEAT)
    world.hold(HELD_BEAT)
    assert [line["more"] for line in world.lines] == [0, 3]


def test_names_of_functions_are_all_that_is_seen() -> None:
    """The innermost first."""
    assert stack_of(threading.get_ident())[:2] == [
        "scheduler_service.telemetry.loop_watch.stack_of",
        f"{__name__}.test_names_of_functions_are_all_that_is_seen",
    ]
    assert stack_of(0) == []


def test_each_hold_is_remembered() -> None:
    """Also those that have no line of their own (SPEC section 14)."""
    now = [1_000.0]
    standstills = Standstills(clock=lambda: now[0])
    watch = LoopWatch(
        log=lambda event, /, **keys: None, clock=lambda: now[0], stack=list, standstills=standstills
    )
    for seconds in (BEAT, BEAT + 0.5, BEAT + 12.0, BEAT + 0.2):
        now[0] = watch.due - BEAT + seconds
        watch.beat()
    assert round(standstills.longest, 3) == 12
    assert round(standstills.lasting or 0, 3) == 12
