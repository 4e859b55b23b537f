"""Events that are counted and summed up."""

import asyncio
from typing import Any

from scheduler_service.telemetry.tally import LINE_SECONDS, Outage, Tally


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


async def test_what_is_summed_up_is_written_though_nothing_follows() -> None:
    """After the time between two lines."""
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
