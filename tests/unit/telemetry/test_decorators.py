"""Metrics and traces stand in front of the ports of every host, and cost nothing where there are none."""

from collections.abc import Iterator
from typing import Any

import pytest

from scheduler_service.domain.records import ExecutionRecord
from scheduler_service.domain.wire import OutboundRequest, Outcome
from scheduler_service.ports.history import Batch, History
from scheduler_service.ports.sending import MayGo, Sender, always
from scheduler_service.telemetry.decorators import NO_DECORATORS, PortDecorators
from tests.wire.service import running

pytestmark = pytest.mark.anyio


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
