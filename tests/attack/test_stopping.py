"""SIGTERM ends the process within the deadline of its drain, whatever callers do."""

from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.attack.client import SMALL_BUFFER, get, open_client, post
from tests.attack.service import Service, job, open_service
from tests.faults.processes import Fleet

pytestmark = pytest.mark.anyio
JOBS = 300


async def fill(service: Service) -> None:
    """Jobs whose list is longer than what a connection buffers."""
    jobs = [
        {**job(f"many-{number}", "http://127.0.0.1:9/x"), "timer": {"period": "external"}}
        | {"jobDescription": "long " * 1_000}
        for number in range(JOBS)
    ]
    answer = await service.run.ask("POST", "/jobs", json=jobs)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("workers", [1, 2], ids=["alone", "with a worker process"])
async def test_callers_cannot_hold_up_the_end(fleet: Fleet, tmp_path: Path, workers: int) -> None:
    """Half a head, half a body, half a feedback, an answer that nobody reads, an idle connection."""
    settings = {"server.drain_seconds": 1, "server.workers": workers, "limits.body_bytes": 1 << 22}
    async with (
        open_service(fleet, tmp_path / "data", settings=settings) as service,
        AsyncExitStack() as stack,
    ):
        await fill(service)
        client = partial(open_client, service.url)
        half_head, half_body, half_feedback, idle = [
            await stack.enter_async_context(client()) for _ in "1234"
        ]
        unread = await stack.enter_async_context(client(buffer=SMALL_BUFFER))
        await half_head.say(get("/jobs")[:-2])
        await half_body.say(post("/jobs", b"[", length=10_000))
        await half_feedback.say(post("/jobs/many-1/feedback/1?token=x", b"{", length=10_000))
        await unread.say(get("/jobs?limit=500") * 200)
        await idle.say(get("/health/live"))
        assert (await idle.answer())[0] == 200
        assert await service.run.terminate() == 0
        assert len(service.logged("stopped")) == 1
