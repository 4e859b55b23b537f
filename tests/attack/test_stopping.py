"""SIGTERM ends the process within the deadline of its drain, whatever callers do."""

import asyncio
import re
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.attack.client import SMALL_BUFFER, get, open_client, post
from tests.attack.service import Service, fill, job, open_service
from tests.unit.transport.servers import Peer, Stage

REPORT = re.compile(r"X-Report: http://[^/]+(/\S+)")


async def await_report(service: Service, stage: Stage) -> str:
    """The path, with its token, to which the target of a job that is under way may report."""
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def accept(peer: Peer) -> None:
        found = REPORT.search((await peer.read()).decode("latin-1"))
        assert found is not None
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        told.set_result(found[1])

    target = await stage.server(accept)
    step = {"url": target.url, "headers": {"X-Report": "${schedulingFeedbackUrl}"}}
    await service.create(job("reporting", "", request=[step], **{"async": True}))
    return await told


@pytest.mark.parametrize(
    "workers",
    [pytest.param(1, id="alone", marks=pytest.mark.long), pytest.param(2, id="with a worker process")],
)
async def test_callers_cannot_hold_up_the_end(stage: Stage, tmp_path: Path, workers: int) -> None:
    """Half a head, half a body, half a feedback, an answer that nobody reads, an idle connection."""
    settings = {"server.drain_seconds": 1, "server.workers": workers, "limits.body_bytes": 1 << 22}
    async with (
        open_service(tmp_path / "data", settings=settings) as service,
        AsyncExitStack() as stack,
    ):
        await fill(service)
        report = await await_report(service, stage)
        client = partial(open_client, service.url)
        half_head, half_body, half_feedback, idle = [
            await stack.enter_async_context(client()) for _ in "1234"
        ]
        unread = await stack.enter_async_context(client(buffer=SMALL_BUFFER))
        await half_head.say(get("/jobs")[:-2])
        await half_body.say(post("/jobs", b"[", length=10_000))
        await half_feedback.say(post(report, b"{", length=10_000))
        await unread.say(get("/jobs?limit=500") * 200)
        await idle.say(get("/health/live"))
        assert (await idle.answer())[0] == 200
        assert await service.run.terminate() == 0
        assert len(service.logged("stopped")) == 1
        assert b" 403 " not in await half_feedback.rest(), "its token is right, so its body was awaited"
