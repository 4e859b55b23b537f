"""Turns past daprd, in every order with what daprd does meanwhile (decision 51)."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from client_sdk.models import parse_definition
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.records import StepEnded
from scheduler_service.domain.turn_events import Created
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.dapr.actor_turns import LOCAL_TURNS_AT_ONCE
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.delivery import Command, Definition
from tests.conformance.hosts.houses import DaprHouse, moved
from tests.unit.hosts.house import describe

pytestmark = pytest.mark.anyio
FIRST, SECOND = "http://target.test/first", "http://target.test/second"
STEPS = [{"url": FIRST}, {"url": SECOND}]
SECONDLY = {"dueTime": "1s", "period": "1s"}
Doing = Callable[[DaprHouse], Coroutine[Any, Any, None]]


class Hold:
    """Claims of the present node wait before they reach the database, from the next one on."""

    def __init__(self, cluster: DaprHouse) -> None:
        self._shared = cluster.node.shared
        self._claim = self._shared.claim
        self._gate = asyncio.Event()
        self.waiting = 0
        self.jobs: list[str] = []
        self._shared.claim = self._wait  # type: ignore[method-assign]

    async def _wait(self, claim: TurnClaim) -> None:
        self.waiting += 1
        self.jobs.append(claim.commit.entry.job_id)
        await self._gate.wait()
        await self._claim(claim)

    def stop(self) -> None:
        """Those that wait wait on; others do not."""
        self._shared.claim = self._claim  # type: ignore[method-assign]

    def end(self) -> None:
        """They go on."""
        self.stop()
        self.go_on()

    def go_on(self) -> None:
        """None waits any more; each is still noted."""
        self._gate.set()


async def begun(cluster: DaprHouse, job_id: str = "job", qos: int = 1, **members: Any) -> None:
    """An execution whose first step is sent and not answered."""
    cluster.sender.hold(FIRST)
    await cluster.create(job_id, request=STEPS, qos=qos, **members)
    await cluster.trigger(job_id)
    await cluster.settle()
    assert cluster.sender.urls() == [FIRST]


def assert_done_once(cluster: DaprHouse, job_id: str = "job") -> None:
    """Nothing lost, nothing doubled: each step sent once, and recorded once."""
    assert cluster.sender.urls() == [FIRST, SECOND]
    assert cluster.executions(job_id) == {1: State.SUCCEEDED}
    batches = {(one.uid, one.sequence): one for one in cluster.batches(job_id)}
    ended = [one for batch in batches.values() for one in batch.records if isinstance(one, StepEnded)]
    assert [one.index for one in ended] == [FIRST, SECOND] or len(ended) == 2


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_schedule_of_seconds_needs_daprd_once(cluster: DaprHouse, qos: int) -> None:
    """Its creation came through daprd; its rings and answers do not, but for the reminder that guards it."""
    await cluster.create(timer=SECONDLY, request=STEPS, qos=qos)
    before = cluster.world.turns
    await cluster.advance(20_000)
    assert cluster.executions() == dict.fromkeys(range(1, 21), State.SUCCEEDED)
    assert cluster.world.turns == before
    await cluster.advance(20_000)
    assert len(cluster.executions()) == 40
    assert cluster.world.turns - before <= 2


async def test_a_job_of_another_node_is_reached_by_daprd(cluster: DaprHouse) -> None:
    """Its ring here goes there, as does each until it has come here."""
    await cluster.add("two")
    await cluster.create("job", timer=SECONDLY)
    other = next(node for node in cluster.nodes.values() if node.name != cluster.world.active["job"])
    before = cluster.world.turns
    await other.host.alarms.ring("job")
    assert cluster.world.turns == before + 1


async def leave_alone(cluster: DaprHouse) -> None:
    """Placement takes the actor away and leaves it where it was, as after a day without daprd's turns."""
    await cluster.world.deactivate("job", cluster.world.nodes["one"])


async def restart(cluster: DaprHouse) -> None:
    """daprd starts anew, and has not asked for the configuration yet."""
    cluster.world.restart("one")


async def ask_configuration(cluster: DaprHouse) -> None:
    """daprd has started anew."""
    cluster.world.restart("one")
    cluster.host.recheck_cache()


async def miss_placement(cluster: DaprHouse) -> None:
    """What was polled says that actors cannot be used."""
    await cluster.host.report_missing(["placement"])


async def lose_liveness(cluster: DaprHouse) -> None:
    """The node reports itself as gone, and comes back."""
    await cluster.host.report_missing(["sidecar"])
    await cluster.host.report_missing([])


DOINGS: tuple[Doing, ...] = (leave_alone, restart, ask_configuration, miss_placement, lose_liveness)


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("doing", DOINGS)
async def test_daprd_acts_before_the_turn(cluster: DaprHouse, doing: Doing, qos: int) -> None:
    """The answer goes through daprd, which makes the actor active again.

    Where daprd has said nothing yet, a turn asks it for nothing.
    """
    await begun(cluster, qos=qos)
    before = cluster.world.turns
    await doing(cluster)
    cluster.sender.release(FIRST)
    await cluster.advance(3_000)
    assert_done_once(cluster)
    assert (cluster.world.turns > before) == (doing is not restart)


@pytest.mark.parametrize("doing", [leave_alone, restart, ask_configuration])
async def test_daprd_acts_during_the_turn(cluster: DaprHouse, doing: Doing) -> None:
    """Its claim counts, whatever daprd thinks of the actor."""
    await begun(cluster)
    hold = Hold(cluster)
    cluster.sender.release(FIRST)
    await cluster.settle()
    assert hold.waiting == 1
    acting = asyncio.create_task(doing(cluster))
    await cluster.settle()
    hold.end()
    await acting
    await cluster.advance(10_000)
    assert_done_once(cluster)


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("is_held", [False, True], ids=["the claim comes first", "the move comes first"])
async def test_the_job_moves_during_the_turn(cluster: DaprHouse, is_held: bool, qos: int) -> None:
    """The turn of an answer is durable at qos 0 too where it ends the execution: it has ended before the job
    goes.
    """
    job_id = moved(cluster)
    await begun(cluster, job_id, qos)
    cluster.sender.hold(SECOND)
    cluster.sender.release(FIRST)
    await cluster.settle()
    hold = Hold(cluster)
    cluster.sender.release(SECOND)
    await cluster.settle()
    assert hold.waiting == 1
    joining = asyncio.create_task(cluster.add("two"))
    await cluster.settle()
    if not is_held:
        hold.end()
        await cluster.settle()
    await joining
    hold.end()
    await cluster.advance(20_000)
    assert_done_once(cluster, job_id)
    assert cluster.nodes["two"].host.jobs_held == 0


async def test_the_actor_goes_while_the_turn_waits_for_another(cluster: DaprHouse) -> None:
    """Two answers, the second behind the first: it finds that the actor is not here any more."""
    await cluster.create(request=[{"url": FIRST}], qos=1, overlapPolicy="allow")
    cluster.sender.hold(FIRST)
    for _ in range(2):
        await cluster.trigger()
    await cluster.settle()
    hold = Hold(cluster)
    cluster.sender.release(FIRST)
    await cluster.settle()
    assert hold.waiting == 1
    leaving = asyncio.create_task(leave_alone(cluster))
    await cluster.settle()
    hold.end()
    await leaving
    await cluster.advance(10_000)
    assert cluster.executions() == {1: State.SUCCEEDED, 2: State.SUCCEEDED}
    assert len(cluster.sender.requests) == 2


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_move_of_which_nobody_was_told_is_seen_in_the_state(cluster: DaprHouse, qos: int) -> None:
    """A sidecar that is cut off tells nothing: what another node wrote is seen before a turn, as ever."""
    await cluster.create(timer=SECONDLY, qos=qos)
    await cluster.advance(3_000)
    first = cluster.nodes["one"]
    cluster.world.nodes.pop("one")
    cluster.world.release_locks()
    await cluster.add("two")
    for _ in range(5):
        await cluster.nodes["two"].host.alarms.ring("job")
        await cluster.advance(1_000)
    cluster.world.active = {"job": "two"}
    await cluster.advance(10_000)
    numbers = sorted(cluster.executions())
    assert numbers == list(range(1, len(numbers) + 1))
    planned = [one.planned_at for one in cluster.finished("job")]
    assert len(set(planned)) == len(planned) == len(cluster.sender.requests)
    assert first.host.running == 0


async def test_a_node_that_drains_takes_no_turn_past_daprd(cluster: DaprHouse) -> None:
    """Its jobs are to go elsewhere."""
    await begun(cluster)
    stopping = asyncio.create_task(cluster.host.stop(10_000))
    await cluster.settle()
    before = cluster.world.turns
    cluster.sender.release(FIRST)
    await cluster.advance(2_000)
    await stopping
    assert_done_once(cluster)
    assert cluster.world.turns > before


async def test_so_many_are_under_way_at_most(cluster: DaprHouse) -> None:
    """The others wait, and tenants take turns; none goes through daprd for that."""
    jobs = [f"job{number}" for number in range(LOCAL_TURNS_AT_ONCE + 6)] + ["acme|job"]
    for job_id in jobs:
        tenant, name = read_job_key(job_id)
        text = describe(jobId=name, request=[{"url": FIRST}], qos=1).text
        own = compile_definition(parse_definition(json.loads(text)), Surroundings(tenant=tenant)).program
        await cluster.host(job_id, Command(Created("", b""), definition=Definition(text, own)))
    cluster.sender.hold(FIRST)
    for job_id in jobs:
        await cluster.trigger(job_id)
    await cluster.settle()
    before = cluster.world.turns
    hold = Hold(cluster)
    cluster.sender.release(FIRST)
    await cluster.settle()
    assert hold.waiting == LOCAL_TURNS_AT_ONCE
    hold.go_on()
    await cluster.settle()
    assert hold.jobs.index("acme|job") <= LOCAL_TURNS_AT_ONCE + 1, "it came last"
    assert all(cluster.executions(job_id) == {1: State.SUCCEEDED} for job_id in jobs)
    assert cluster.world.turns == before
