"""A node dies over jobs that it creates, together or one by one, and over their first turns.

SPEC sections 3, 8 and 10.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.records import FiringRecord, StepEnded
from scheduler_service.domain.replies import Recalled, Taken, Unchanged
from scheduler_service.domain.turn_events import Created
from scheduler_service.hosts.dapr.dapr_host import DaprHost
from scheduler_service.hosts.node_messages import write_kept
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.state import Remembered
from tests.conformance.hosts.deaths import live_through, points_of
from tests.conformance.hosts.houses import DaprHouse
from tests.unit.hosts.house import START, describe

pytestmark = pytest.mark.anyio

# What is created alone and due at once takes the way of a command, over its actor.
SOON, NEAR, FAR = ("soon",), ("near", "near-2"), ("far", "far-2")
MOMENTS = dict.fromkeys(SOON, 1_000) | dict.fromkeys(NEAR, 5_000) | dict.fromkeys(FAR, 40_000)
STEP, END = 500, 75_000
# A node counts as dead after 10 s, and the lease of the sweep may have been its own.
LATEST_AFTER_A_DEATH = 20_000


async def create_together(host: DaprHost, definitions: Sequence[Definition]) -> list[object]:
    """In one array."""
    return list(await host.create_all(definitions, ""))


async def create_singly(host: DaprHost, definitions: Sequence[Definition]) -> list[object]:
    """All at one moment, each under an Idempotency-Key."""
    asked = []
    for definition in definitions:
        job_id, digest = definition.program.key, definition.program.fingerprint
        remembered = Remembered(f"jobs/{job_id}", "once", digest, b"", START)
        asked.append(host(job_id, Command(Created("", b""), definition, remembered, write_kept)))
    return list(await asyncio.gather(*asked, return_exceptions=True))


WAYS = {"together": create_together, "singly": create_singly}
USUAL = ((1, 2, "together"),)
"""Of `qos`, nodes and way: the others are `long`."""
ANSWERS = {
    "together": {Taken(), Unchanged()},
    # Who was never told finds the answer of the request that did it.
    "singly": {Taken(), Recalled(write_kept(Taken()), same_digest=True)},
}

NO_ANSWER = (StoreError, asyncio.CancelledError)


class Story:
    """Some jobs, soon due, near and far; who asks for them asks again until they are there."""

    def __init__(self, house: DaprHouse, qos: int, way: str) -> None:
        self.house = house
        self.qos = qos
        self.way = way
        self.created_at = 0

    async def play(self) -> None:
        """To its end, whoever dies on the way."""
        await self.ask()
        began = self.created_at = self.house.clock.now().wall
        while self.house.clock.now().wall - began < END:
            await self.pass_time(STEP)

    async def ask(self) -> None:
        """As a caller does who gets no answer, or 503."""
        definitions = [
            describe(jobId=name, qos=self.qos, timer={"dueTime": f"{pause // 1_000}s", "period": "0s"})
            for name, pause in MOMENTS.items()
        ]
        while True:
            asked = self.house.host
            asking = asyncio.ensure_future(WAYS[self.way](asked, definitions))
            while not asking.done() and self.house.host is asked:
                await self.pass_time(100)
            asking.cancel()
            answers = (await asyncio.gather(asking, return_exceptions=True))[0]
            if isinstance(answers, list) and not any(isinstance(one, NO_ANSWER) for one in answers):
                assert set(answers) <= ANSWERS[self.way]
                return
            await self.pass_time(STEP)

    async def pass_time(self, pause: int) -> None:
        """The clock goes on; who has died by then is cleared away."""
        await self.house.advance(pause)
        died = self.house.points.died
        if died is not None and died[0] in self.house.nodes:
            await self.house.crash(died[0])

    def check(self) -> None:
        """Each job fires once, at its moment or soon after the death, under one identity."""
        has_died = self.house.points.died is not None
        sent = Counter(
            dict(one.headers)["X-Scheduling-Job-Id"]
            for target in self.house.targets
            for one in target.requests
        )
        for name in MOMENTS:
            batches = {(one.uid, one.sequence): one for one in self.house.batches(name)}.values()
            assert len({one.uid for one in batches}) == 1, name
            records = [record for batch in batches for record in batch.records]
            assert sum(isinstance(one, FiringRecord) for one in records) == 1, name
            assert sum(isinstance(one, StepEnded) for one in records) <= 1, name
            self.check_end(name, sent[name], has_died=has_died)

    def check_end(self, name: str, sent: int, *, has_died: bool) -> None:
        """What became of the one execution."""
        (ended,) = self.house.finished(name)
        may_be_lost = has_died and self.qos == 0
        assert ended.state is State.SUCCEEDED or (may_be_lost and ended.state is State.TERMINATED), name
        assert sent <= (2 if has_died and self.qos else 1), (name, sent)
        assert ended.started_at is not None
        late = ended.started_at - ended.planned_at
        assert -100 <= late <= (LATEST_AFTER_A_DEATH if has_died else 100), (name, late)


@pytest.mark.parametrize(
    ("qos", "nodes", "way"),
    [
        pytest.param(*one, marks=() if one in USUAL else pytest.mark.long)
        for one in itertools.product((1, 0), (2, 1), WAYS)
    ],
)
async def test_a_node_dies_over_jobs_that_it_creates(
    qos: int, nodes: int, way: str, request: pytest.FixtureRequest
) -> None:
    """Before and after each kind of thing that it does, or (`--long`) all: each job is there once."""
    places = []
    is_long = request.config.getoption("--long")
    for point in await points_of(partial(Story, qos=qos, way=way), nodes=nodes, is_long=is_long):
        house = DaprHouse()
        died = await live_through(house, partial(Story, house, qos, way), point=point, nodes=nodes)
        if died is not None:
            places.append(died[1])
        elif is_long:
            break
    doings = ("claims", "claim", "save")[: 2 + qos]
    wanted = {f"{when} {what}" for when in ("before", "after") for what in doings}
    assert wanted <= set(places), places
