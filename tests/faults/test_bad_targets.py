"""Whatever a target does, the service stays up and the history says what happened (SPEC sections 4, 5)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.inside import Inside, open_inside
from tests.faults.jobs import ended, plain
from tests.faults.target import open_target
from tests.unit.transport.servers import Handler, Peer, Stage

pytestmark = pytest.mark.long
MIB = 1 << 20
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
async def stage(anyio_backend: str) -> AsyncIterator[Stage]:
    """Servers that are gone after the test."""
    async with AsyncExitStack() as stack:
        yield Stage(stack)


async def hang(peer: Peer) -> None:
    await peer.read()
    await peer.reader.read()


async def reset(peer: Peer) -> None:
    await peer.read()
    peer.reset()


async def say_much(peer: Peer) -> None:
    """100 MiB, to which the scheduler listens as far as its limit."""
    await peer.read()
    await peer.say(OK + b"Content-Length: %d\r\n\r\n" % (100 * MIB))
    for _ in range(100):
        await peer.say(b"x" * MIB)


async def say_headers_without_end(peer: Peer) -> None:
    await peer.read()
    await peer.say(OK)
    while True:
        await peer.say(b"X-More: and more\r\n" * 100)


async def drip(peer: Peer) -> None:
    """A byte at a time, each in time for a limit that counts bytes."""
    await peer.read()
    await peer.say(OK + b"Content-Length: 1000000\r\n\r\n")
    while True:
        await peer.say(b"x")
        await asyncio.sleep(0.05)


async def run_against(stage: Stage, handler: Handler, folder: Path, **members: Any) -> dict[str, Any]:
    """The one execution of a job whose target behaves so; a job beside it is not disturbed."""
    bad = await stage.server(handler)
    async with open_target() as good, open_inside(folder) as inside:
        step = {"url": f"{bad.url}/work", "timeoutSeconds": 1}
        definition = plain(good, request=[step], timer={}) | members
        assert (await inside.ask("POST", "/jobs/job", json=definition)).status_code == 201
        await _check_neighbour(inside, plain(good, jobId="beside", timer={}))
        (execution,) = await ended(inside, 1)
        assert (await inside.ask("GET", "/health/live")).status_code == 200
    assert len(bad.requests) == 1
    return execution


async def _check_neighbour(inside: Inside, definition: dict[str, Any]) -> None:
    assert (await inside.ask("POST", "/jobs/beside", json=definition)).status_code == 201

    async def is_done() -> bool:
        items = (await inside.read("/jobs/beside/executions"))["items"]
        return [one["state"] for one in items] == ["succeeded"]

    await inside.until(is_done, "a job of a good target has run meanwhile")


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize(
    ("handler", "kind"),
    [(hang, "timeout"), (reset, "connect"), (say_headers_without_end, "connect"), (drip, "timeout")],
)
async def test_no_answer_is_a_500_that_says_why(
    stage: Stage, tmp_path: Path, handler: Handler, kind: str, qos: int
) -> None:
    """Error `500`, its kind, and a message that names the target."""
    execution = await run_against(stage, handler, tmp_path / "data", qos=qos)
    assert (execution["state"], execution["error"], execution["failureType"]) == ("terminated", "500", kind)
    (attempt,) = execution["attempts"]
    assert attempt["error"] == "500"
    assert "http://127.0.0.1" in attempt["message"]


async def test_100_mib_are_cut_where_nobody_reads_them(stage: Stage, tmp_path: Path) -> None:
    """The step succeeds; what the history keeps of its answer is short, and marked as cut."""
    execution = await run_against(stage, say_much, tmp_path / "data", qos=1)
    assert execution["state"] == "succeeded"
    response = execution["attempts"][0]["steps"][0]["response"]
    assert response["truncated"] is True
    assert len(response["body"]) <= MIB


async def test_100_mib_that_a_template_needs_are_too_large(stage: Stage, tmp_path: Path) -> None:
    """`response_too_large`, before the step that would have read them."""
    bad = await stage.server(say_much)
    request = [
        {"url": f"{bad.url}/work", "respEnvName": "BIG", "timeoutSeconds": 5},
        {"url": f"{bad.url}/never?x=${{BIG.value}}"},
    ]
    async with open_target() as good, open_inside(tmp_path / "data") as inside:
        definition = plain(good, request=request, timer={}, qos=1)
        assert (await inside.ask("POST", "/jobs/job", json=definition)).status_code == 201
        (execution,) = await ended(inside, 1)
    assert (execution["state"], execution["error"]) == ("terminated", "response_too_large")
    assert execution["failureType"] == "too_large"
    assert len(bad.requests) == 1
