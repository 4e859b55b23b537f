"""Turns on a job that two nodes may take; daprd sends a message once more where it got no answer."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from client_sdk.models import parse_definition
from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.records import StepEnded
from scheduler_service.domain.replies import Reactivated, Refusal, Reply, Started, Unchanged
from scheduler_service.domain.turn_events import (
    Activated,
    CancelRequested,
    Created,
    Destroyed,
    Paused,
    Triggered,
    Updated,
)
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.dapr.actor_turns import LOCAL_TURNS_AT_ONCE
from scheduler_service.hosts.dapr.cached_state import MESSAGE_MS, MESSAGES
from scheduler_service.hosts.node_messages import read_reply, write_error
from scheduler_service.persistence.common.packing import read_row_state
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import (
    StoreConflict,
    StoreError,
    StoreStopping,
    StoreUnavailable,
    StoreUncertain,
)
from scheduler_service.ports.state import Remembered
from tests.conformance.hosts.houses import DaprHouse, freeze, lose_next_claim, moved
from tests.present import present
from tests.unit.hosts.house import describe

pytestmark = pytest.mark.anyio
URL, HOOK = "http://target.test/run", "http://caller.test/told"
MINUTELY = {"dueTime": "60s", "period": "60s"}
TOLD = {"url": HOOK, "stateEquals": ["finalSucceed"], "guarantee": "outbox"}


async def test_a_turn_that_was_overtaken_is_taken_anew(cluster: DaprHouse) -> None:
    """Its actor went and came back: what it had read is old, it reads again, and no number is used twice."""
    await cluster.create()
    gate = await freeze(cluster)
    frozen = asyncio.create_task(cluster.trigger())
    await cluster.settle()
    cluster.world.kill("one")
    second = await cluster.add("two")
    await cluster.advance(1_000)
    reply = await second.host("job", Command(Triggered()))
    await cluster.settle()
    cluster.world.active["job"] = "one"
    gate.set_result(None)
    again = await frozen
    assert isinstance(reply, Started)
    assert isinstance(again, Started)
    assert (reply.execute_number, again.execute_number) == (1, 2)


@pytest.mark.parametrize("is_written", [True, False])
async def test_a_claim_of_which_nobody_heard_is_looked_up(cluster: DaprHouse, is_written: bool) -> None:
    """Its answer was lost: what was written goes on, what was not is taken anew; no number is used twice."""
    await cluster.create(timer=MINUTELY, notification=[TOLD])
    lose_next_claim(cluster, is_written=is_written)
    await cluster.advance(65_000)
    assert cluster.executions() == {1: State.SUCCEEDED}
    assert cluster.sender.urls().count(URL) == 1
    await cluster.advance(60_000)
    assert cluster.executions() == dict.fromkeys((1, 2), State.SUCCEEDED)
    assert cluster.sender.urls().count(HOOK) == 2


@pytest.mark.parametrize("is_away", [False, True], ids=["at once", "after an error"])
async def test_deliveries_of_a_lost_claim_are_sent_though_another_node_went_on(
    cluster: DaprHouse, is_away: bool
) -> None:
    """They are this node's in the outbox, and nobody else adopts them while it lives."""
    shared, unsent = cluster.node.shared, cluster.node.shared.unsent

    async def refuse(*given: Any) -> list[Delivery]:
        shared.unsent = unsent  # type: ignore[method-assign]
        raise StoreUnavailable("the server is gone")

    if is_away:
        shared.unsent = refuse  # type: ignore[method-assign]
    cluster.sender.hold(URL)
    await cluster.create(notification=[TOLD])
    await cluster.trigger()
    await cluster.settle()
    lose_next_claim(cluster, is_written=True, others_go_on=True)
    cluster.sender.release(URL)
    await cluster.advance(10_000)
    assert cluster.sender.urls() == [URL, HOOK]
    assert await cluster.node.shared.deliveries("", 10) == []


async def test_a_claim_that_lands_late_brings_what_belongs_to_it(cluster: DaprHouse) -> None:
    """Whoever looked did not find it, and took the turn anew; its notification is sent once all the same."""
    cluster.sender.hold(URL)
    await cluster.create(notification=[TOLD])
    await cluster.trigger()
    await cluster.settle()
    shared, claim, late = cluster.node.shared, cluster.node.shared.claim, list[TurnClaim]()

    async def lose(one: TurnClaim) -> None:
        if not late:
            late.append(one)
            raise StoreUncertain("the server is gone")
        shared.claim = claim  # type: ignore[method-assign]
        await claim(late[0])  # the server had it all the time
        await claim(one)

    shared.claim = lose  # type: ignore[method-assign]
    cluster.sender.release(URL)
    await cluster.advance(15_000)
    assert cluster.sender.urls() == [URL, HOOK]
    assert cluster.executions() == {1: State.SUCCEEDED}
    assert await shared.deliveries("", 10) == []


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_state_has_all_records_that_the_history_has_not(cluster: DaprHouse, qos: int) -> None:
    """Of earlier turns as well: the next node takes them over from the row."""
    cluster.history_of_now().fault = StoreUnavailable("the disk is full")
    await cluster.create(timer=MINUTELY, qos=qos)
    await cluster.advance(181_000)
    cluster.history_of_now().batches.clear()
    await cluster.add("two")
    await cluster.crash("one")
    await cluster.advance(60_000)
    assert {record.execute_number for record in cluster.finished("job")} >= {1, 2, 3}


async def test_a_destroyed_job_whose_row_is_removed_begins_anew(cluster: DaprHouse) -> None:
    """Nothing of it comes back (SPEC section 10)."""
    await cluster.create()
    await cluster.trigger()
    await cluster.settle()
    await cluster.deliver(Destroyed())
    await cluster.settle()
    assert await cluster.node.shared.forget("job")
    await cluster.crash()
    await cluster.create()
    assert isinstance(await cluster.trigger(), Started)
    await cluster.settle()
    entry = present(await cluster.catalogue.get("job"))
    assert (entry.uid, entry.execute_number) == ("uid2", 1)


WAITING: dict[str, Any] = {"timer": {"period": "external"}, "qos": 1, "async": True, "overlapPolicy": "allow"}
SOON = {"timer": {"period": "1h", "dueTime": "1s"}}
COMMANDS = {
    "create": Command(Created("", b""), describe(jobId="other", **(WAITING | SOON))),  # by its actor
    "update": Command(Updated(0), describe(jobId="job", **(WAITING | {"jobName": "new"}))),
    "trigger": Command(Triggered()),
    "cancel": Command(CancelRequested(1)),
    "pause": Command(Paused()),
    "destroy": Command(Destroyed()),
}


def keep_messages(cluster: DaprHouse) -> list[tuple[str, bytes]]:
    """What the sidecars were given from now on: (jobId, message)."""
    messages: list[tuple[str, bytes]] = []
    invoke = cluster.world.invoke

    async def keep(actor_id: str, method: str, data: bytes) -> bytes:
        messages.append((actor_id, data))
        return await invoke(actor_id, method, data)

    cluster.world.invoke = keep  # type: ignore[method-assign]
    return messages


async def repeat(cluster: DaprHouse, message: tuple[str, bytes]) -> Reply | None:
    """The reply to a message that a sidecar brings once more."""
    return read_reply(await cluster.host.take(*message)).reply


@pytest.mark.parametrize("dies", [False, True], ids=["same node", "another node"])
@pytest.mark.parametrize("name", COMMANDS)
async def test_a_command_that_comes_twice_is_done_once(cluster: DaprHouse, name: str, dies: bool) -> None:
    """The reply is the first one, at once also where what runs at a dead node is still waited for."""
    if dies:
        await cluster.add("two")
    await cluster.create_by_actor(**WAITING)
    await cluster.trigger()
    await cluster.settle()
    messages = keep_messages(cluster)
    job_id = "other" if name == "create" else "job"
    reply = await cluster.host(job_id, COMMANDS[name])
    assert not isinstance(reply, Refusal | Unchanged)
    if dies:
        await cluster.crash(cluster.world.active[job_id])
    else:
        await cluster.settle()
    entry = await cluster.catalogue.get(job_id)
    assert await repeat(cluster, messages[0]) == reply
    assert await cluster.catalogue.get(job_id) == entry


@pytest.mark.parametrize("error", [StoreUnavailable, StoreStopping, StoreConflict])
@pytest.mark.parametrize("name", COMMANDS)
async def test_a_refusal_that_may_be_that_of_a_second_delivery_is_uncertain(
    cluster: DaprHouse, name: str, error: type[StoreError]
) -> None:
    """The first delivery was done at a node that died over its answer: "nothing was done" would be untrue."""
    await cluster.create_by_actor(**WAITING)
    await cluster.trigger()
    invoke = cluster.world.invoke

    async def send_twice(actor_id: str, method: str, data: bytes) -> bytes:
        await invoke(actor_id, method, data)
        await cluster.clock.sleep(1_000)
        return write_error(error("the job is moving", is_public=True))

    cluster.world.invoke = send_twice  # type: ignore[method-assign]
    asking = asyncio.create_task(cluster.host("other" if name == "create" else "job", COMMANDS[name]))
    await cluster.advance(1_000)
    with pytest.raises(StoreUncertain, match="the job is moving"):
        await asking


async def test_a_refusal_at_once_is_that_of_the_only_delivery(cluster: DaprHouse) -> None:
    """daprd sends nothing again so soon: nothing was done, and the caller may ask again."""
    await cluster.create_by_actor(**WAITING)

    async def refuse(actor_id: str, method: str, data: bytes) -> bytes:
        return write_error(StoreUnavailable("the job is moving", is_public=True))

    cluster.world.invoke = refuse  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="the job is moving"):
        await cluster.trigger()


@pytest.mark.parametrize("name", [*COMMANDS, "read"])
async def test_who_asks_has_an_answer_within_five_seconds(cluster: DaprHouse, name: str) -> None:
    """While placement is away daprd holds every call; whether it was done is not known then."""
    await cluster.create_by_actor(**WAITING)

    async def hang(actor_id: str, method: str, data: bytes) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError("it ends with its caller")

    cluster.world.invoke = hang  # type: ignore[method-assign]
    job_id = "other" if name == "create" else "job"
    work = cluster.host.read(job_id) if name == "read" else cluster.host(job_id, COMMANDS[name])
    asking = asyncio.ensure_future(work)
    await cluster.advance(4_900)
    assert asking.done()
    with pytest.raises(StoreUncertain):
        await asking


async def test_what_did_nothing_is_done_anew(cluster: DaprHouse) -> None:
    """No answer is kept of it: the job may be another one by now."""
    await cluster.create_by_actor()
    messages = keep_messages(cluster)
    refused = await cluster.deliver(CancelRequested(1))
    unchanged = await cluster.deliver(Activated())
    assert isinstance(refused, Refusal)
    assert unchanged == Unchanged()
    await cluster.trigger()
    await cluster.deliver(Paused())
    assert isinstance(await repeat(cluster, messages[1]), Reactivated)


@pytest.mark.parametrize("qos", [0, 1])
async def test_answers_are_kept_for_a_time(cluster: DaprHouse, qos: int) -> None:
    """The latest of half a minute, so that a job's state does not grow."""
    await cluster.create_by_actor(qos=qos)
    for _ in range(MESSAGES + 1):
        await cluster.trigger()
        await cluster.settle()
    assert len(await kept(cluster)) == MESSAGES
    await cluster.advance(MESSAGE_MS)
    await cluster.trigger()
    assert len(await kept(cluster)) == 1


async def kept(cluster: DaprHouse) -> Sequence[Remembered]:
    """The answers in the job's row."""
    row = present(await cluster.node.shared.load("job"))
    return read_row_state(row.state or b"").messages


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
