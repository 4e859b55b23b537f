"""Observers see each turn's records after the history has them, and harm nothing."""

import pytest

from scheduler_service.ports.history import Batch, History
from scheduler_service.telemetry.decorators import NO_DECORATORS
from scheduler_service.telemetry.observation import observed
from scheduler_service.telemetry.tally import Tally

pytestmark = pytest.mark.anyio

BATCH = Batch(uid="u", job_id="one", tenant="default", sequence=1, at=5, records=())


class KeptHistory:
    """A history in a list."""

    def __init__(self, order: list[str]) -> None:
        self._order = order

    def append(self, batch: Batch, *, durable: bool) -> None:
        """Notes it."""
        self._order.append(f"written {durable}")

    async def flush(self) -> None:
        """Everything is written."""

    async def close(self) -> None:
        """Nothing to close."""


async def test_each_observer_sees_a_batch_after_the_history_even_where_another_fails() -> None:
    """The failure is one line of the log."""
    order: list[str] = []
    lines: list[tuple[str, dict[str, object]]] = []

    def fail(batch: Batch) -> None:
        raise ValueError("cannot count")

    failed = Tally("observer_failed", log=lambda event, /, **keys: lines.append((event, keys)))
    decorators = observed(
        NO_DECORATORS, [fail, lambda batch: order.append(f"seen {batch.job_id}")], failed=failed
    )
    history: History = decorators.history(KeptHistory(order))
    history.append(BATCH, durable=True)
    assert order == ["written True", "seen one"]
    assert lines == [("observer_failed", {"error": "ValueError: cannot count", "times": 1})]


def test_without_observers_the_decorators_are_as_they_are() -> None:
    """Nothing stands in between, so nothing is paid."""
    failed = Tally("observer_failed", log=lambda event, /, **keys: None)
    assert observed(NO_DECORATORS, [], failed=failed) is NO_DECORATORS
