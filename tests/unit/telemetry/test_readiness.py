"""What a service needs, part by part, and since when it is there or missing (SPEC section 14)."""

import asyncio

from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.telemetry.readiness import (
    LATELY,
    STOOD,
    HistoryWatch,
    Readiness,
    Standstills,
    WorkerStores,
)
from tests.manual_clock import ManualClock
from tests.rows import each_row

START = 1_767_225_600_000


class Parts:
    """A host and its sidecar, of which parts may be missing, and a history."""

    def __init__(self) -> None:
        self.clock = ManualClock(wall=START)
        self.sidecar: list[str] = ["sidecar"]
        self.logged: list[str] = []
        self.history = HistoryWatch(lambda event, **_: self.logged.append(event))
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
    assert parts.logged == ["history_not_written", "history_written_again"]


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


class Time:
    """A clock in seconds."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_the_longest_hold_of_the_last_minute_is_told() -> None:
    """Shorter and older ones are not."""
    time = Time()
    standstills = Standstills(clock=time)
    assert standstills.longest == 0
    for seconds in (0.2, 3.0, 0.5):
        standstills.note(seconds)
        time.now += 10
    assert standstills.longest == 3
    time.now += LATELY - 15
    assert standstills.longest == 0.5
    time.now += LATELY
    assert standstills.longest == 0
    # However long it slept
    time = Time()
    standstills = Standstills(clock=time)
    standstills.note(86_400)
    time.now += LATELY - 1
    assert standstills.lasting == 86_400
    time.now += 2
    assert standstills.lasting is None


def test_a_standstill_is_told_for_as_long_as_it_was() -> None:
    """A loop that mostly stands is told most of the time; what is shorter than the bound never."""
    time = Time()
    standstills = Standstills(clock=time)
    standstills.note(STOOD - 0.1)
    assert standstills.lasting is None
    standstills.note(STOOD + 2)
    assert standstills.lasting == STOOD + 2
    time.now += STOOD + 1.9
    assert standstills.lasting == STOOD + 2
    time.now += 0.2
    assert standstills.lasting is None


LOST, BACK = OccurrenceKind.STORE_LOST, OccurrenceKind.STORE_BACK


def told(*happened: tuple[OccurrenceKind, str | None]) -> WorkerStores:
    stores = WorkerStores()
    for kind, subject in happened:
        stores.take(Occurrence(kind=kind, at=1, subject=subject))
    return stores


def test_each_process_and_part_is_named() -> None:
    """What the service itself cannot write is not among them."""
    stores = told((LOST, "worker 2"), (LOST, "worker 3/history"), (LOST, None), (LOST, "history"))
    assert [stores.lacks(number) for number in range(4)] == [[], [], ["store"], ["history"]]
    assert stores.name("store", 3) == ["store of worker process 2"]
    assert stores.name("history", 3) == ["history of worker process 3"]


@each_row("kind", [OccurrenceKind.WORKER_LOST, OccurrenceKind.WORKER_BACK])
def test_it_is_over_when_the_process_says_so_or_starts_again(kind: OccurrenceKind) -> None:
    """Each part for itself; a new process has all of them."""
    lost = ((LOST, "worker 2"), (LOST, "worker 2/history"), (LOST, "worker 1"))
    assert told(*lost, (BACK, "worker 2")).lacks(2) == ["history"]
    again = told(*lost, (kind, "2"))
    assert (again.lacks(2), again.lacks(1)) == ([], ["store"])
