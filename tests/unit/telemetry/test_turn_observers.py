"""Metrics and traces stand in front of the ports of every host, and cost nothing where there are none."""

from collections.abc import Container

from scheduler_service.ports.history import Batch, History
from scheduler_service.telemetry.log_summaries import Tally
from scheduler_service.telemetry.turn_observers import ObservedHistory, TurnObservers

BATCH = Batch(uid="u", job_id="one", tenant="default", sequence=1, at=5, records=())


class KeptHistory:
    """A history in a list."""

    def __init__(self, order: list[str]) -> None:
        self._order = order

    def append(self, batch: Batch, *, durable: bool) -> None:
        """Notes it."""
        self._order.append(f"written {durable}")

    def is_behind(self) -> bool:
        """Nothing waits."""
        return False

    async def flush(self) -> None:
        """Everything is written."""

    async def dismiss_lost(self, name: str, holders: Container[str], now: int) -> bool:
        """Nothing is there."""
        return False

    async def close(self) -> None:
        """Nothing to close."""


class Scene:
    """Observers that note what they see; `trouble` is what the count says."""

    def __init__(self, *, trouble: bool = False, count_fails: bool = False) -> None:
        self.order: list[str] = []
        self.lines: list[tuple[str, dict[str, object]]] = []
        self._trouble, self._count_fails = trouble, count_fails
        failed = Tally("observer_failed", log=lambda event, /, **keys: self.lines.append((event, keys)))
        self.observers = TurnObservers(count=self._count, troubles=self._note_trouble, failed=failed)
        self._history: History = ObservedHistory(history=KeptHistory(self.order), observers=self.observers)

    def append(self) -> list[str]:
        """What happens when the records of a turn are appended."""
        self.order.clear()
        self._history.append(BATCH, durable=True)
        return self.order

    def fail(self, batch: Batch) -> None:
        """An observer that cannot."""
        raise ValueError("cannot look")

    def see(self, batch: Batch) -> None:
        """An observer of every turn."""
        self.order.append(f"seen {batch.job_id}")

    def _count(self, batch: Batch) -> bool:
        self.order.append("counted")
        if self._count_fails:
            raise ValueError("cannot count")
        return self._trouble

    def _note_trouble(self, batch: Batch) -> None:
        self.order.append("trouble")


async def test_a_turn_in_which_all_goes_well_is_counted_and_nothing_more() -> None:
    """After the history has it; who is added sees it as well, until it is removed."""
    scene = Scene()
    assert scene.append() == ["written True", "counted"]
    scene.observers.add(scene.see)
    assert scene.append() == ["written True", "counted", "seen one"]
    scene.observers.remove(scene.see)
    assert scene.append() == ["written True", "counted"]
    # So a line of the log comes after what the stream says of the same turn
    scene = Scene(trouble=True)
    scene.observers.add(scene.see)
    assert scene.append() == ["written True", "counted", "seen one", "trouble"]


async def test_one_that_fails_stops_no_other() -> None:
    """The failure is one line of the log."""
    scene = Scene(trouble=True)
    scene.observers.add(scene.fail)
    scene.observers.add(scene.see)
    assert scene.append() == ["written True", "counted", "seen one", "trouble"]
    assert scene.lines == [("observer_failed", {"error": "ValueError: cannot look", "times": 1})]
    # What cannot be told is looked at
    scene = Scene(count_fails=True)
    assert scene.append() == ["written True", "counted", "trouble"]
    assert scene.lines == [("observer_failed", {"error": "ValueError: cannot count", "times": 1})]
