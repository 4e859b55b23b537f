"""What a service needs, part by part, and since when it is there or missing (SPEC section 14)."""

import asyncio

from scheduler_service.telemetry.readiness import Readiness
from scheduler_service.telemetry.trouble import HistoryWatch
from tests.manual_clock import ManualClock

START = 1_767_225_600_000


class Parts:
    """A host and its sidecar, of which parts may be missing, and a history."""

    def __init__(self) -> None:
        self.clock = ManualClock(wall=START)
        self.sidecar: list[str] = ["sidecar"]
        self.history = HistoryWatch()
        self.readiness = Readiness(
            parts={"host": list, "sidecar": lambda: self.sidecar, "history": self.history.lacks},
            clock=self.clock,
        )

    def states(self) -> list[tuple[object, object, object]]:
        """Each part, its state, and since how many seconds after the start."""
        return [(one["name"], one["state"], str(one["since"])[17:19]) for one in self.readiness.describe()]


async def test_each_part_has_its_state_and_since_when() -> None:
    """What changes within a part that is missing changes no moment."""
    parts = Parts()
    assert parts.states() == [
        ("host", "ready", "00"), ("sidecar", "missing", "00"), ("history", "ready", "00"),
    ]  # fmt: skip
    assert await parts.readiness.list_missing() == ["sidecar"]
    parts.clock.advance(3_000)
    parts.sidecar[:] = ["placement", "actors"]
    assert parts.states()[1] == ("sidecar", "missing", "00")
    assert parts.readiness.describe()[1]["missing"] == ["placement", "actors"]
    assert await parts.readiness.list_missing() == ["placement", "actors"]
    parts.sidecar.clear()
    parts.clock.advance(1_000)
    assert parts.states()[1] == ("sidecar", "ready", "04")
    assert parts.readiness.describe()[1]["missing"] == []


async def test_a_history_in_trouble_keeps_nobody_from_work() -> None:
    """It is told, and what is not written is kept; the service is ready (SPEC section 12)."""
    parts = Parts()
    parts.sidecar.clear()
    parts.history.note("the disk is full")
    assert parts.states()[2] == ("history", "troubled", "00")
    assert await parts.readiness.list_missing() == []
    parts.clock.advance(5_000)
    parts.history.note(None)
    assert parts.states()[2] == ("history", "ready", "05")


async def test_what_nobody_asked_about_is_seen_all_the_same() -> None:
    """Each second: a moment is that of the change and not that of the question."""
    parts, looked = Parts(), asyncio.Event()

    def find() -> list[str]:
        looked.set()
        return []

    readiness = Readiness(parts={"host": find}, clock=parts.clock)
    readiness.watch()
    looked.clear()
    async with asyncio.timeout(20):
        await looked.wait()
    readiness.stop()
    parts.clock.advance(9_000)
    assert readiness.describe()[0]["since"] == "2026-01-01T00:00:00.000Z"
