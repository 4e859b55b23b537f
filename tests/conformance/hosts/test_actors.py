"""What daprd says through the SDK's routes to a job's actor, and what it refuses to one that has moved."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from dapr.actor import Actor, ActorId, ActorInterface, actormethod
from dapr.actor.runtime._type_information import ActorTypeInformation
from dapr.actor.runtime.config import ActorRuntimeConfig
from dapr.actor.runtime.context import ActorRuntimeContext
from dapr.actor.runtime.manager import ActorManager

from scheduler_service.app.actor_listener import create_actor_app
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.replies import Started
from scheduler_service.domain.turn_events import Triggered
from scheduler_service.hosts.dapr.actor import JobActor, PlainSerializer
from scheduler_service.hosts.node_messages import read_reply, write_ask
from scheduler_service.ports.delivery import Command
from tests.conformance.hosts.houses import DaprHouse, freeze
from tests.conformance.hosts.standin import StandInClient
from tests.shown import shows

pytestmark = pytest.mark.anyio
ACTOR = "/actors/job_scheduler/job"


class Deaf(ActorInterface):
    """An interface of an actor without reminders."""

    @actormethod(name="say")  # type: ignore[untyped-decorator]
    async def say(self) -> bytes:
        """Says nothing."""
        raise NotImplementedError


class DeafActor(Actor, Deaf):
    """An actor without reminders."""

    async def say(self) -> bytes:
        """Says nothing."""
        return b""


async def ask(cluster: DaprHouse, verb: str, path: str, body: bytes = b"") -> httpx.Response:
    """One request of daprd to the application."""
    app = create_actor_app(cluster.host)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8001") as client:
        return await client.request(verb, path, content=body)


@shows("da-00011")
async def test_daprd_finds_its_routes_and_no_others(cluster: DaprHouse) -> None:
    """Health, configuration, and of an actor: its methods, timers, reminders and its end."""
    await cluster.create()
    reminder = json.dumps({"dueTime": "", "period": ""}).encode()
    known = [
        await ask(cluster, "GET", "/healthz"),
        await ask(cluster, "GET", "/dapr/config"),
        await ask(cluster, "PUT", f"{ACTOR}/method/take", write_ask(None)),
        await ask(cluster, "PUT", f"{ACTOR}/method/remind/alarm", reminder),
        await ask(cluster, "DELETE", ACTOR),
    ]
    assert [answer.status_code for answer in known] == [200] * 5
    assert read_reply(known[2].content).document
    for path in ("/", "/docs", "/openapi.json", "/jobs", "/health/ready", ACTOR):
        assert (await ask(cluster, "GET", path)).status_code in (404, 405)


async def test_a_message_in_pieces_is_one_turn(cluster: DaprHouse) -> None:
    """And one whose sender goes away before its end is none, and has no answer."""
    await cluster.create()
    message = write_ask(Command(Triggered()))

    async def pieces() -> AsyncIterator[bytes]:
        for byte in message:
            yield bytes([byte])

    transport = httpx.ASGITransport(app=create_actor_app(cluster.host))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8001") as client:
        answer = await client.put(f"{ACTOR}/method/take", content=pieces())
    assert isinstance(read_reply(answer.content).reply, Started)
    told: list[object] = []
    left = [{"type": "http.request", "body": message, "more_body": True}, {"type": "http.disconnect"}]

    async def receive() -> object:
        return left.pop(0)

    async def send(event: object) -> None:
        told.append(event)

    scope = {
        "type": "http",
        "method": "PUT",
        "path": f"{ACTOR}/method/take",
        "headers": [(b"host", b"127.0.0.1")],
    }
    await create_actor_app(cluster.host)(scope, receive, send)
    await cluster.settle()
    assert told == []
    assert len(cluster.executions()) == 1


@shows("da-00105")
async def test_an_actor_that_is_not_there_is_an_error(cluster: DaprHouse) -> None:
    """A type that is not registered, the end of an actor that is not active, a timer that nobody set."""
    for path in ("method/take", "method/remind/alarm", "method/timer/tick"):
        assert (await ask(cluster, "PUT", f"/actors/unknown/job/{path}", b"{}")).status_code == 500
    assert (await ask(cluster, "DELETE", "/actors/unknown/job")).status_code == 500
    assert (await ask(cluster, "DELETE", "/actors/job_scheduler/inactive")).status_code == 500
    assert (await ask(cluster, "PUT", f"{ACTOR}/method/timer/tick", b"{}")).status_code == 500


@shows("da-00106")
async def test_only_who_takes_reminders_gets_them(cluster: DaprHouse) -> None:
    """The SDK refuses a reminder for another class; the job's is one that takes them."""
    assert ActorTypeInformation.create(JobActor).is_remindable()
    serializer: Any = PlainSerializer()
    context = ActorRuntimeContext(
        ActorTypeInformation.create(DeafActor), serializer, serializer, StandInClient(cluster.world, "one")
    )
    with pytest.raises(ValueError, match="Remindable"):
        await ActorManager(context).fire_reminder(ActorId("one"), "alarm", b"{}")


@shows("da-00113")
async def test_daprd_is_told_what_jobs_need(cluster: DaprHouse) -> None:
    """A day of idleness in place of an hour, two seconds of drain as daprd has it; no reentrancy."""
    config = (await ask(cluster, "GET", "/dapr/config")).json()
    assert config["entities"] == ["job_scheduler"]
    assert config["actorIdleTimeout"] == "24h0m0s0ms0\u03bcs"
    assert config["drainOngoingCallTimeout"] == "0h0m2s0ms0\u03bcs"
    assert config["drainRebalancedActors"] is True
    assert "reentrancy" not in config
    standard = ActorRuntimeConfig().as_dict()
    assert (standard["actorIdleTimeout"].seconds, standard["actorScanInterval"].seconds) == (3600, 30)
    assert (standard["drainRebalancedActors"], "reentrancy" in standard) == (True, False)


async def test_a_turn_whose_actor_has_moved_is_taken_over_what_the_other_node_did(cluster: DaprHouse) -> None:
    """Its claim is refused, and it is decided anew; the job goes on where it lives now."""
    await cluster.create(qos=1)
    gate = await freeze(cluster)
    frozen = asyncio.create_task(cluster.trigger())
    await cluster.settle()
    second = await cluster.add("two")
    cluster.world.kill("one")
    await cluster.advance(1_000)
    assert isinstance(await second.host("job", Command(Triggered())), Started)
    await cluster.settle()
    gate.set_result(None)
    assert isinstance(await frozen, Started)
    await cluster.settle()
    reply = await second.host("job", Command(Triggered()))
    await cluster.settle()
    assert isinstance(reply, Started)
    assert cluster.executions() == dict.fromkeys((1, 2, 3), State.SUCCEEDED)
    assert len(cluster.sender.requests) == 3


async def test_a_job_is_let_go_before_its_turn_ends(cluster: DaprHouse) -> None:
    """daprd moves nothing until it has the answer: a turn that hangs must not hold up the cluster (DAPR)."""
    await cluster.create()
    gate = await freeze(cluster)
    frozen = asyncio.create_task(cluster.trigger())
    await cluster.settle()
    assert (await ask(cluster, "DELETE", ACTOR)).status_code == 200
    assert not frozen.done()
    gate.set_result(None)
    assert isinstance(await frozen, Started)
    await cluster.advance(2_000)
    assert cluster.executions() == {1: State.SUCCEEDED}
