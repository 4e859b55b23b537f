"""Events that are counted and summed up; floods by kind, in bounded memory, from any thread."""

import asyncio
import threading
from typing import Any

from scheduler_service.telemetry.log_summaries import (
    FULL,
    LINE_SECONDS,
    LONGEST_NAME,
    MOST_KINDS,
    Flood,
    LineKind,
    Outage,
    Tally,
    kind_of,
)


async def test_the_first_is_written_at_once_and_the_next_ones_together() -> None:
    """A line each 10 s at most, with what came since the one before it."""
    lines: list[tuple[str, dict[str, Any]]] = []
    seconds = 0.0
    tally = Tally(
        "calls_delayed", log=lambda event, **keys: lines.append((event, keys)), clock=lambda: seconds
    )
    tally.count("calls", origin="a")
    assert lines == [("calls_delayed", {"calls": 1, "origin": "a"})]
    for number in range(500):
        tally.count("calls", origin=f"b{number}")
    tally.count("others", origin="c")
    assert len(lines) == 1
    tally.flush()
    assert lines[1:] == [("calls_delayed", {"calls": 500, "others": 1, "origin": "c"})]
    seconds += LINE_SECONDS
    tally.count("calls")
    assert lines[2:] == [("calls_delayed", {"calls": 1})]
    assert tally.counts == {"calls": 502, "others": 1}
    # After the time between two lines
    written = asyncio.Event()
    lines: list[dict[str, Any]] = []

    def log(event: str, /, **keys: object) -> None:
        lines.append(keys)
        if len(lines) == 2:
            written.set()

    tally = Tally("calls_delayed", log=log, line_seconds=0.01)
    tally.count("calls")
    tally.count("calls")
    tally.count("calls")
    async with asyncio.timeout(30):
        await written.wait()
    assert [line["calls"] for line in lines] == [1, 2]


def test_trouble_has_a_begin_and_an_end() -> None:
    """The end has how often and for how long; success without trouble is no line."""
    lines: list[tuple[str, dict[str, Any]]] = []
    now = 0.0
    outage = Outage(
        "sweep_failed",
        "sweep_repeated",
        log=lambda event, /, **keys: lines.append((event, keys)),
        clock=lambda: now,
    )
    for _ in range(2):
        lines.clear()
        outage.succeed()
        for number in range(1_000):
            outage.fail(f"refused {number}")
            now += 0.5
        assert lines == [("sweep_failed", {"error": "refused 0"})]
        outage.succeed()
        outage.succeed()
        assert lines[1:] == [("sweep_repeated", {"failures": 1_000, "seconds": 500.0})]


NAMES = ("service",)


class FloodWorld:
    """A flood and its clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.flood = Flood(clock=lambda: self.now)

    def come(self, *kinds: LineKind) -> int:
        """How many of these are admitted."""
        return sum(self.flood.admits(kind) for kind in kinds)


def test_each_kind_has_its_own_window() -> None:
    """From its first line; a window without counted lines ends without a word."""
    world = FloodWorld()
    many, few = LineKind("turn_failed"), LineKind("job_paused")
    assert world.come(*[many] * (FULL + 5)) == FULL
    world.now += LINE_SECONDS / 2
    assert world.come(*[few] * 3, many) == 3
    assert world.flood.take_ended() == ()
    assert world.flood.left() == LINE_SECONDS / 2
    world.now += LINE_SECONDS / 2
    assert world.flood.take_ended() == [(many, 6)]
    assert not world.flood.has_untold
    world.now += LINE_SECONDS / 2
    assert world.flood.take_ended() == []


def test_what_it_holds_is_bounded() -> None:
    """Beyond a hundred kinds lines count by their word; names are cut."""
    world = FloodWorld()
    kinds = [kind_of("instance_lost", NAMES, {"service": f"{n}-" * 1_000}) for n in range(10_000)]
    assert world.come(*kinds) == MOST_KINDS + FULL
    assert max(len(name) for _, name in kinds[-1].names) == LONGEST_NAME
    partly = kind_of("turn_failed", ("jobId", "target"), {"jobId": "a", "target": None})
    assert partly.names == (("jobId", "a"),)
    counted = world.flood.take_ended(all_of_them=True)
    assert counted == [(LineKind("instance_lost"), 10_000 - MOST_KINDS - FULL)]


def test_no_line_is_lost_between_threads() -> None:
    """Each is written or counted."""
    world = FloodWorld()
    kind = LineKind("turn_failed")
    admitted: list[int] = []
    threads = [
        threading.Thread(target=lambda: admitted.append(world.come(*[kind] * 1_000))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted) == FULL
    assert world.flood.take_ended(all_of_them=True) == [(kind, 4_000 - FULL)]
