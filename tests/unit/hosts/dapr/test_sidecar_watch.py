"""What a node asks of its daprd before it serves (`--runtime dapr`)."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

from scheduler_service.hosts.dapr.heartbeat import ActiveActors, Liveness
from scheduler_service.hosts.dapr.sidecar_watch import (
    POLL_MS,
    SidecarWatch,
    count_active,
    find_missing,
    is_too_old,
)
from scheduler_service.ports.errors import StoreUnavailable
from tests.manual_clock import ManualClock
from tests.unit.transport.servers import Stage, repeating

READY: dict[str, Any] = {
    "id": "scheduler",
    "runtimeVersion": "1.18.3",
    "components": [{"name": "statestore", "type": "state.redis", "capabilities": ["ETAG", "ACTOR"]}],
    "actorRuntime": {
        "runtimeStatus": "RUNNING",
        "activeActors": [{"type": "job_scheduler", "count": 1}],
        "hostReady": True,
        "placement": "placement: connected",
    },
    "scheduler": {"connected_addresses": ["127.0.0.1:50006"]},
}


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({}, []),
        ({"actorRuntime": {**READY["actorRuntime"], "placement": "placement: disconnected"}}, ["placement"]),
        ({"actorRuntime": {**READY["actorRuntime"], "hostReady": False}}, ["actors"]),
        ({"actorRuntime": {**READY["actorRuntime"], "activeActors": [{"type": "other"}]}}, ["actors"]),
        ({"scheduler": {"connected_addresses": []}}, ["scheduler service"]),
    ],
)
def test_readiness_names_the_part_that_is_missing(change: dict[str, Any], missing: list[str]) -> None:
    """From daprd's own metadata (SPEC section 14)."""
    assert find_missing(READY | change) == missing


def test_the_actors_that_daprd_has_are_counted() -> None:
    """None where its application was ill: daprd names the type without a number then."""
    ill: dict[str, Any] = {"actorRuntime": {"runtimeStatus": "INITIALIZING", "hostReady": False}}
    well: dict[str, Any] = {
        "actorRuntime": {**READY["actorRuntime"], "activeActors": [{"type": "job_scheduler"}]}
    }
    assert [count_active(one) for one in (READY, ill, well, {})] == [1, 0, 0, 0]


def test_without_an_answer_the_sidecar_is_missing() -> None:
    """Nothing else can be known then."""
    assert find_missing({}) == ["sidecar"]


@pytest.mark.parametrize(
    ("version", "old"),
    [("1.18.3", False), ("1.18.2", True), ("1.9.10", True), ("1.19.0", False), ("edge", False)],
)
def test_daprd_must_be_1_18_3_or_later(version: str, old: bool) -> None:
    """Compared by numbers; a build without one is taken."""
    assert is_too_old(version) is old


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"runtimeVersion": "1.17.0"}, "1.18.3"),
        ({"components": [{"name": "s", "type": "state.redis", "capabilities": ["ETAG"]}]}, "actorStateStore"),
    ],
)
def test_what_waiting_does_not_mend_is_refused(change: dict[str, Any], words: str) -> None:
    """An old daprd, and a state store that is not one for actors, as text."""
    watch = SidecarWatch(http_port=1, clock=ManualClock(), log=lambda event, /, **keys: None)
    watch.metadata = READY | change
    with pytest.raises(StoreUnavailable, match=words):
        watch.check()


@pytest.mark.anyio
async def test_the_token_of_the_api_is_shown() -> None:
    """Else a daprd with one would never be there."""
    async with AsyncExitStack() as stack:
        server = await Stage(stack).server(repeating(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
        watch = SidecarWatch(
            http_port=server.port, clock=ManualClock(), log=lambda event, /, **keys: None, token="sesame"
        )
        stack.push_async_callback(watch.stop)
        await watch.poll()
        assert b"dapr-api-token: sesame\r\n" in server.requests[0]


@pytest.mark.anyio
async def test_a_wrong_token_is_refused_at_once() -> None:
    """By name, without the token: waiting does not mend it."""
    async with AsyncExitStack() as stack:
        refusal = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
        server = await Stage(stack).server(repeating(refusal))
        watch = SidecarWatch(
            http_port=server.port, clock=ManualClock(), log=lambda event, /, **keys: None, token="sesame"
        )
        stack.push_async_callback(watch.stop)
        with pytest.raises(StoreUnavailable, match=r"401.*dapr\.api_token") as raised:
            await watch.wait()
        assert "sesame" not in str(raised.value)


@pytest.mark.anyio
async def test_actors_that_daprd_has_let_go_without_a_word_are_in_doubt() -> None:
    """It has one here, where two were known: by its next metadata no turn is taken without it."""
    clock = ManualClock()
    liveness = Liveness(clock=clock)
    liveness.extend(clock.now().steady)
    active = ActiveActors(liveness=liveness)
    for job_id in ("one", "two"):
        active.add(job_id)
    body = json.dumps(READY).encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    has_polled = asyncio.Event()

    async def note(missing: Sequence[str]) -> None:
        has_polled.set()

    async with AsyncExitStack() as stack, asyncio.timeout(10):
        server = await Stage(stack).server(repeating(answer))
        watch = SidecarWatch(http_port=server.port, clock=clock, log=lambda event, /, **keys: None)
        stack.push_async_callback(watch.stop)
        watch.start(note, active)
        await asyncio.sleep(0)
        assert "one" in active
        clock.advance(POLL_MS)
        await has_polled.wait()
        assert "one" not in active
