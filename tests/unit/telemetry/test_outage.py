"""Trouble that lasts is two lines, however often it is met."""

from typing import Any

from scheduler_service.telemetry.outage import Outage


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
