"""Metrics and traces stand in front of the ports of every host, and cost nothing where there are none."""

from collections.abc import Iterator
from typing import Any

from scheduler_service.domain.records import ExecutionRecord
from scheduler_service.domain.wire import OutboundRequest, Outcome
from scheduler_service.ports.history import Batch, History
from scheduler_service.ports.sending import MayGo, Sender, always
from scheduler_service.telemetry.decorators import NO_DECORATORS, PortDecorators, TurnObservers, observed
from scheduler_service.telemetry.tally import Tally
from tests.wire.service import running


class Lateness:
    """A history that also notes how late each execution started, as a metric would."""

    def __init__(self, history: History, seen: list[int]) -> None:
        self._history = history
        self._seen = seen
        self.is_behind = history.is_behind
        self.flush = history.flush
        self.close = history.close

    def append(self, batch: Batch, *, durable: bool) -> None:
        """Notes the lateness of what has started, then hands the batch on."""
        self._seen.extend(_lateness(batch))
        self._history.append(batch, durable=durable)


class Counting:
    """A sender that counts its calls."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self.calls = 0
        self.close = sender.close

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """Counts, then sends."""
        self.calls += 1
        return await self._sender.send(request, may_go)


def _lateness(batch: Batch) -> Iterator[int]:
    for record in batch.records:
        if isinstance(record, ExecutionRecord) and record.started_at and record.planned_at:
            yield record.started_at - record.planned_at


async def test_a_service_sees_each_firing_and_each_call_through_its_decorators() -> None:
    """One decorator a port is enough for a metric of lateness, and for one of calls."""
    late: list[int] = []
    senders: list[Counting] = []

    def count(sender: Sender) -> Sender:
        senders.append(Counting(sender))
        return senders[0]

    decorators = PortDecorators(history=lambda history: Lateness(history, late), sender=count)
    async with running(decorators=decorators) as world:
        definition: dict[str, Any] = {
            "jobName": "n",
            "creator": "c",
            "creatorName": "c",
            "request": [{"url": f"{world.target.url}/one"}],
        }
        await world.client.post("/jobs/one", json=definition)
        await world.settle()
    assert senders[0].calls == 1
    assert late
    assert all(0 <= one < 1_000 for one in late)


def test_without_decorators_the_ports_are_as_they_are() -> None:
    """Nothing stands in between, so nothing is paid."""
    port: Any = object()
    assert NO_DECORATORS.history(port) is port
    assert NO_DECORATORS.sender(port) is port


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
        self._history: History = observed(NO_DECORATORS, self.observers).history(KeptHistory(self.order))

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


async def test_trouble_is_shown_after_all_others_have_seen_it() -> None:
    """So a line of the log comes after what the stream says of the same turn."""
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


async def test_a_count_that_fails_hides_no_trouble() -> None:
    """What cannot be told is looked at."""
    scene = Scene(count_fails=True)
    assert scene.append() == ["written True", "counted", "trouble"]
    assert scene.lines == [("observer_failed", {"error": "ValueError: cannot count", "times": 1})]
