"""daprd sends a message once more where it got no answer: the turn is taken once (SPEC sections 3 and 10)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from scheduler_service.domain.replies import Reactivated, Refusal, Reply, Unchanged
from scheduler_service.domain.turn_events import (
    Activated,
    CancelRequested,
    Created,
    Destroyed,
    Paused,
    Triggered,
    Updated,
)
from scheduler_service.hosts.dapr.cached_state import MESSAGE_MS, MESSAGES
from scheduler_service.hosts.messages import read_reply, write_error
from scheduler_service.persistence.common.packing import read_row_state
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import (
    StoreConflict,
    StoreError,
    StoreStopping,
    StoreUnavailable,
    StoreUncertain,
)
from scheduler_service.ports.state import Remembered
from tests.conformance.hosts.houses import DaprHouse
from tests.unit.hosts.house import describe

pytestmark = pytest.mark.anyio

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
    row = await cluster.node.shared.load("job")
    assert row is not None
    return read_row_state(row.state or b"").messages
