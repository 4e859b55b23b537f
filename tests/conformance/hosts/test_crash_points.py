"""A node of a cluster is killed before and after all that it does to its world (SPEC sections 3 and 8).

Contexts, claims, reminders, settlements and sends are counted over a story; each of them is once
the place where the process that does it dies. Another node goes on, or, where there is none, its next start.
"""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.document import Calling, Document
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.execution import FiringOutcome
from scheduler_service.domain.records import DeliveryRecord, FiringRecord, StepEnded
from scheduler_service.domain.replies import Recalled, Reply, Started, Taken, Unchanged
from scheduler_service.domain.turn_events import Created, Destroyed, Triggered
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.engine.document_bytes import decode, is_apart, read_version
from scheduler_service.persistence.common.packing import read_row_state
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.state import Remembered
from tests.conformance.hosts.deaths import live_through
from tests.conformance.hosts.houses import DaprHouse
from tests.conformance.hosts.standin import name_of
from tests.unit.hosts.house import describe

pytestmark = pytest.mark.anyio
JOB = "job"
ONE, TWO, HOOK = "http://target.test/one", "http://target.test/two", "http://target.test/hook"
STEPS = (ONE, TWO)
# Beyond 30 s a firing waits as a reminder.
FAR, STEP, END = 33_000, 500, 90_000
GROUPS = 8
MOST_LEFT = 2
"""So many versions of a job that is at rest one death has left: one it has put, one that was not removed."""
Identity = tuple[int, int, str]
Ask = Callable[[], Coroutine[Any, Any, Reply]]


class Story:
    """A job of two steps, the second of which fails at first; one trigger with a key, one far firing."""

    def __init__(self, house: DaprHouse, qos: int) -> None:
        self.house = house
        self.qos = qos
        self.before: list[OutboundRequest] = []
        self.awaited: set[Identity] = set()
        self.outbox = TurnStore(database=house.database)
        house.sender.answers(TWO, 500)

    async def play(self) -> None:
        """To its end, whoever dies on the way."""
        notification = {"url": HOOK, "stateEquals": ["finalSucceed", "finalFailed"], "guarantee": "outbox"}
        definition = describe(
            jobId=JOB,
            qos=self.qos,
            timer={"dueTime": f"{FAR // 1_000}s", "period": "0s"},
            request=[{"url": ONE}, {"url": TWO}],
            retry=[{"errorEquals": "500", "intervalSeconds": 1}],
            notification=[notification],
        )
        created = await self.ask(lambda: self.house.host(JOB, Command(Created("", b""), definition)))
        assert created in (Taken(), Unchanged())
        now = self.house.clock.now().wall
        remembered = Remembered("trigger/job", "once", b"digest", b"", now)
        reply = await self.ask(lambda: self.house.host(JOB, Command(Triggered(), remembered=remembered)))
        number = msgspec.json.decode(reply.answer)["execute_number"] if isinstance(reply, Recalled) else None
        assert number == 1 or (isinstance(reply, Started) and reply.execute_number == 1), reply
        while self.house.clock.now().wall - now < END and not await self.is_done():
            await self.pass_time()
        await self.pass_time(5_000)
        named = [key for key in self.house.world.state if key.startswith(name_of(JOB, "context-"))]
        assert len(named) <= MOST_LEFT, named
        self.house.points.start(0)
        await self.house.host(JOB, Command(Destroyed()))
        await self.pass_time()

    async def ask(self, ask: Ask) -> Reply:
        """As a caller does who gets no answer, or 503: again."""
        while True:
            asked = self.house.host
            asking = asyncio.ensure_future(ask())
            while not asking.done():
                await self.pass_time(100)
                if self.house.host is not asked:
                    asking.cancel()  # who was asked is dead
            try:
                return asking.result()
            except (StoreError, asyncio.CancelledError):
                await self.pass_time()

    async def pass_time(self, pause: int = STEP) -> None:
        """The clock goes on; who has died by then is cleared away."""
        await self.house.advance(pause)
        died = self.house.points.died
        if died is not None and died[0] in self.house.nodes and not self.before:
            await self.note()
            await self.house.crash(died[0])

    async def note(self) -> None:
        """What the dead process left: which calls were awaited, and what had been sent by then."""
        self.before = [*self.requests(), OutboundRequest("", "", ())]
        row = await self.outbox.load(JOB)
        stored = None if row is None else read_row_state(row.state or b"").document
        if stored is not None and is_apart(stored):
            version, _ = read_version(stored)
            value = self.house.world.state[name_of(JOB, f"context-{version:x}")]
            stored = base64.b64decode(json.loads(value))
        self.awaited = set() if stored is None else awaited(decode(stored))

    def requests(self) -> list[OutboundRequest]:
        """All that any target of the house has seen."""
        return [request for target in self.house.targets for request in target.requests]

    async def is_done(self) -> bool:
        """Both executions have ended, and nothing that should be told of them waits any more."""
        states = self.house.executions(JOB)
        if set(states) != {1, 2} or not set(states.values()) <= {State.SUCCEEDED, State.TERMINATED}:
            return False
        settled = not await self.outbox.deliveries("", 1)
        return settled and self.told() == {1, 2} and self.recorded_as_delivered() == {1, 2}

    def told(self) -> set[int]:
        """The executions of which a final notification has arrived."""
        bodies = [json.loads(one.body or b"{}") for one in self.requests() if one.url == HOOK]
        return {body["executeNumber"] for body in bodies}

    def recorded_as_delivered(self) -> set[int]:
        """The executions whose final notification stands in the history as delivered."""
        found = [one for one in self.house.records() if isinstance(one, DeliveryRecord)]
        return {one.execute_number for one in found if one.state == "delivered"}

    def check(self) -> None:
        """Nothing is lost, no firing doubled, no recorded step sent again."""
        left = [key for key in self.house.world.state if key.startswith(name_of(JOB, "context"))]
        assert left == [], "the next commit of a process removes what others have put, as a destruction does"
        states = self.house.executions(JOB)
        assert set(states) == {1, 2}, states
        lost = [number for number, state in states.items() if state is not State.SUCCEEDED]
        assert len(lost) <= (self.qos == 0 and bool(self.before)), states
        assert self.told() == {1, 2}
        assert self.recorded_as_delivered() == {1, 2}
        self.check_firings()
        self.check_requests()

    def check_firings(self) -> None:
        """One planned moment, one execution."""
        ledger = {
            (batch.uid, batch.sequence): one
            for batch in self.house.batches(JOB)
            for one in batch.records
            if isinstance(one, FiringRecord)
        }
        assert [one.outcome in (FiringOutcome.FIRED, FiringOutcome.LATE) for one in ledger.values()] == [True]

    def check_requests(self) -> None:
        """What was sent again was awaited in what the dead process left, and is equal byte by byte."""
        steps = [request for request in self.requests() if request.url in STEPS]
        before = [request for request in self.before if request.url in STEPS]
        texts: dict[Identity, tuple[object, object]] = {}
        for request in steps:
            assert texts.setdefault(identity(request), (request.headers, request.body)) == (
                request.headers,
                request.body,
            )
        counts = Counter(map(identity, steps))
        assert max(counts.values()) <= 2, counts
        for one, times in counts.items():
            if times > 1:
                assert self.qos == 1, counts
                assert one in set(map(identity, before)) & self.awaited, (one, self.awaited)
        recorded = Counter(
            (one.execute_number, one.request_counts, one.index)
            for batch in {(b.uid, b.sequence): b for b in self.house.batches(JOB)}.values()
            for one in batch.records
            if isinstance(one, StepEnded)
        )
        assert not recorded or max(recorded.values()) == 1, recorded


def identity(request: OutboundRequest) -> Identity:
    """Execution, attempt and step."""
    headers = dict(request.headers)
    numbers = (headers["X-Scheduling-Execute-Number"], headers["X-Scheduling-Request-Counts"])
    return (int(numbers[0]), int(numbers[1]), request.url)


def awaited(document: Document) -> set[Identity]:
    """The calls of which no answer is recorded yet."""
    found = set()
    for run in document.head.opens:
        context = document.contexts.get(run.execute_number)
        if context is not None and isinstance(context.phase, Calling):
            found.add((run.execute_number, run.request_counts, STEPS[context.phase.step]))
    return found


def groups() -> list[Any]:
    """Every fourth point at qos 1 with two nodes; of the rest, where less goes on, fewer; `--long`: all.

    Points before and after a doing take turns, so each choice of several groups has odd and even ones.
    """
    usual = {(1, 2): (1,), (0, 2): (4,), (1, 1): (6,), (0, 1): ()}
    return [
        pytest.param(qos, nodes, first, marks=() if first in usual[qos, nodes] else pytest.mark.long)
        for first in range(1, GROUPS + 1)
        for qos, nodes in usual
    ]


@pytest.mark.parametrize(("qos", "nodes", "first"), groups())
async def test_whatever_a_node_is_killed_at_nothing_is_lost_or_doubled(
    qos: int, nodes: int, first: int
) -> None:
    """Every point of the story, before and after; no recorded step is sent again."""
    places = []
    for point in range(first, 1_000, GROUPS):
        house = DaprHouse()
        died = await live_through(house, partial(Story, house, qos), point=point, nodes=nodes)
        if died is None:
            break
        places.append(died[1])
    assert len(places) >= 4, places
