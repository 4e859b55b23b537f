"""A node drains, and is killed before and after all that it does meanwhile; or the other one is.

Claims, states, reminders and sends of both are counted from SIGTERM on (SPEC sections 8 and 14).
"""

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.replies import Taken
from scheduler_service.domain.turn_events import FeedbackArrived
from scheduler_service.domain.wire import Answer
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError
from tests.conformance.hosts.deaths import live_through
from tests.conformance.hosts.houses import DaprHouse
from tests.unit.hosts.house import asynchronous

pytestmark = pytest.mark.anyio
KEY = b"k" * 32
START, RUN, NEXT, FAIL, CHECK = (
    f"http://target.test/{name}" for name in ("start", "run", "next", "fail", "check")
)
USUAL = {START: 2, RUN: 1, NEXT: 1, FAIL: 2, CHECK: 2}
"""How often each is sent where nobody dies."""
STEP, END = 500, 60_000
GRACE = 8_000
GROUPS = 4


class Drain:
    """Four jobs of the node `one` wait: for a report, for a retry, for a check, for the answer of a call."""

    def __init__(self, house: DaprHouse, qos: int) -> None:
        self.house = house
        self.qos = qos
        self.dead: str | None = None
        self.jobs: dict[str, str] = {}
        self.stopping: asyncio.Task[None] | None = None

    async def play(self) -> None:
        """Until all four have ended, whoever dies on the way."""
        house = self.house
        chosen, house.points.chosen = house.points.chosen, 0
        await self.begin()
        house.points.count, house.points.chosen = 0, chosen
        self.stopping = asyncio.create_task(house.nodes["one"].host.stop(GRACE))
        began = house.clock.now().steady
        is_reported = False
        while house.clock.now().steady - began < END and not self.have_ended():
            await self.pass_time()
            if house.clock.now().steady - began == 2_000:
                house.sender.release(RUN)
            if house.clock.now().steady - began > 4_000 and not is_reported:
                is_reported = await self.report()
        await self.pass_time(2_000)

    async def begin(self) -> None:
        """All four are open on `one`."""
        house = self.house
        place = (name for name in map(str, range(1_000)) if house.world.place(name) == "one")
        waiting = asynchronous(timeoutSeconds=600)
        retry = [{"errorEquals": "500", "intervalSeconds": 7}]
        house.sender.answers(FAIL, 500)
        running, done = Answer(200, body=b'{"status": ""}'), Answer(200, body=b'{"status": "succeed"}')
        house.sender.answers(CHECK, running, done, done, done)
        house.sender.hold(RUN)
        each: dict[str, dict[str, Any]] = {
            "report": waiting | {"request": [{"url": START}]},
            "retry": {"request": [{"url": FAIL}], "retry": retry},
            "check": waiting | {"request": [{"url": START}], "checkUrl": CHECK, "checkRateSeconds": 4},
            "call": {"request": [{"url": RUN}, {"url": NEXT}]},
        }
        for name, members in each.items():
            self.jobs[name] = next(place)
            await house.create(self.jobs[name], qos=self.qos, **members)
            await house.trigger(self.jobs[name])
        await house.advance(4_500)

    async def report(self) -> bool:
        """Whether the report was taken, by a node that lives."""
        token = feedback_token(KEY, "uid1", 1)
        event = FeedbackArrived(1, token, {"status": "succeed"})
        asking = asyncio.ensure_future(self.house.host(self.jobs["report"], Command(event)))
        for _ in range(60):
            if asking.done():
                break
            await self.pass_time(100)
        asking.cancel()
        try:
            return await asking == Taken() or self.dead is not None
        except (StoreError, asyncio.CancelledError):
            return False

    async def pass_time(self, pause: int = STEP) -> None:
        """The clock goes on; who has died or stopped by then is cleared away."""
        house = self.house
        await house.advance(pause)
        if house.points.died is not None and self.dead is None:
            self.dead = house.points.died[0]
            if self.dead in house.nodes:
                await self.bury(self.dead)
        if self.stopping is not None and self.stopping.done() and "one" in house.nodes:
            house.gone.append(house.nodes.pop("one"))
            house.world.kill("one")
        if house.nodes and house.node.name not in house.nodes:
            house.node = next(iter(house.nodes.values()))
        if not house.nodes:
            house.node = await house.add("three")

    async def bury(self, name: str) -> None:
        """The process ends where it stands."""
        house = self.house
        node = house.nodes.pop(name)
        house.gone.append(node)
        house.world.kill(name)
        node.client.is_cut = True
        if name == "one" and self.stopping is not None:
            self.stopping.cancel()
            await asyncio.gather(self.stopping, return_exceptions=True)
        await node.host.crash()

    def states(self) -> dict[str, State | None]:
        """What became of each."""
        return {name: self.house.executions(job).get(1) for name, job in self.jobs.items()}

    def have_ended(self) -> bool:
        """Whether all have."""
        return set(self.states().values()) <= {State.SUCCEEDED, State.TERMINATED}

    def check(self) -> None:
        """Lost is only what a dead process held at qos 0, and sent twice only what it awaited at qos 1."""
        states = self.states()
        assert self.have_ended(), states
        lost = {name for name, state in states.items() if state is not State.SUCCEEDED}
        assert not lost or (self.qos == 0 and self.dead is not None), states
        sent = Counter(request.url for target in self.house.targets for request in target.requests)
        again = {url: times - USUAL[url] for url, times in sent.items() if times > USUAL[url]}
        may_repeat = self.qos == 1 and self.dead is not None
        assert not again or (may_repeat and set(again.values()) == {1}), again


def groups() -> list[Any]:
    """One of four groups of points with qos 0; `--long`: all."""
    return [
        pytest.param(qos, first, marks=() if (qos, first) == (0, 2) else pytest.mark.long)
        for first in range(1, GROUPS + 1)
        for qos in (0, 1)
    ]


@pytest.mark.parametrize(("qos", "first"), groups())
async def test_a_node_that_drains_is_killed_at_each_point(qos: int, first: int) -> None:
    """And the one that goes on. In the end all is as it is without a death, but for what qos 0 may lose."""
    places = []
    for point in range(first, 200, GROUPS):
        house = DaprHouse()
        died = await live_through(house, partial(Drain, house, qos), point=point, nodes=2)
        if died is None:
            break
        places.append(died)
    assert {"one", "two"} == {name for name, _ in places}, places
