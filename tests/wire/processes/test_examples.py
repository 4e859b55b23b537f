"""The services of `examples/`, each a real process on loopback (SPEC section 16)."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest

from client_sdk import Client
from client_sdk.errors import Invalid
from tests.unit.client_sdk.lines import serving
from tests.unit.client_sdk.queue import Queue
from tests.unit.docs.pages import ROOT
from tests.wire.processes.process import COMMAND, Process, bare_environment, serve
from tests.wire.processes.test_documented import free_port

pytestmark = pytest.mark.anyio
BUILD = "reports.examples.fastapi_service.build"
CLEAN = "reports.examples.fastapi_service.clean"


def environment(**further: str) -> dict[str, str]:
    """With the checkout as a place for modules."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return bare_environment(PYTHONPATH=path, **further)


@contextmanager
def target(place: str, port: str, **environ: str) -> Iterator[Process]:
    """An example under uvicorn, once it takes calls."""
    arguments = [sys.executable, "-m", "uvicorn", place, "--port", port]
    with Process(arguments, cwd=ROOT, environ=environment(**environ)) as process:
        process.wait_for_line("Uvicorn running on")
        yield process


@asynccontextmanager
async def scheduler(tmp_path: Path, **environ: str) -> AsyncIterator[Client]:
    """A real scheduler and a client of it."""
    with serve(tmp_path / "data", **environ) as process:
        async with Client(await asyncio.to_thread(process.wait_for_url)) as client:
            yield client


async def test_the_fastapi_service(tmp_path: Path) -> None:
    """It registers its jobs; they are called, one reports progress; told to end, it finishes and leaves."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    async with scheduler(tmp_path) as client:
        own = {"PUNCTUAL_URL": client.url, "ADDRESS": address}
        with target("examples.fastapi_service:app", port, **own) as process:
            await client.wait_for(await client.jobs.trigger("check-timers"), timeout=20)
            assert (await client.jobs.get(CLEAN)).kind == "cron"
            built = await client.wait_for(await client.jobs.trigger(BUILD, {"name": "a"}), timeout=20)
            assert (built.state, built.progress) == ("succeeded", "60/60")
            failed = await client.jobs.trigger(BUILD, {"name": "impossible"})
            assert (await client.wait_for(failed, timeout=20)).error == "E_IMPOSSIBLE"
            with pytest.raises(Invalid, match="minimum"):
                await client.jobs.trigger(CLEAN, {"days": 0})
            cleaned = await client.wait_for(await client.jobs.trigger(CLEAN, {"days": 7}), timeout=20)
            assert cleaned.state == "succeeded"
            async with httpx.AsyncClient() as http:
                assert (await http.get(f"{address}/cleanings")).json() == [7]
            last = await client.jobs.trigger(BUILD, {"name": "b", "pages": 100})
            await asyncio.to_thread(process.wait_for_line, r"/jobs/.*\.build .* 202", many=3)
            process.send(signal.SIGTERM)
            assert (await client.wait_for(last, timeout=20)).state == "succeeded"
            assert await asyncio.to_thread(process.wait) in (0, -signal.SIGTERM)
        assert (await client.services.get("reports")).instances == []


async def test_the_plain_service(tmp_path: Path) -> None:
    """Without the SDK: it is asked how far it is."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    definition = {
        "jobName": "Plain",
        "creator": "me",
        "creatorName": "Me",
        "timer": {"period": "external"},
        "request": [{"url": f"{url}/start"}],
        "async": True,
        "checkUrl": f"{url}/progress/${{schedulingExecuteNumber}}",
        "checkRateSeconds": 0.1,
    }
    async with scheduler(tmp_path) as client:
        with target("examples.plain_asgi:app", port):
            await client.jobs.create(definition, job_id="plain")
            ended = await client.wait_for(await client.jobs.trigger("plain"), timeout=20)
    assert (ended.state, ended.progress) == ("succeeded", "3/3")
    assert len(ended.attempts[0].checks) == 3


async def test_the_worker() -> None:
    """`punctual worker` claims and completes; told to end, it leaves in good order."""
    queue = Queue()
    async with serving(queue.app) as url:
        arguments = [*COMMAND, "worker", "examples.pull_worker:worker", "--concurrency", "2"]
        with Process(arguments, cwd=ROOT, environ=environment(PUNCTUAL_URL=url)) as process:
            await queue.publish("thumbnails.examples.pull_worker.make_thumbnail", {"image": "cat"})
            await queue.publish("another", {"size": 1})
            await queue.until_completed(2)
            assert process.send(signal.SIGTERM) is None
            assert await asyncio.to_thread(process.wait) == 0
        queue.key = "right"
        own = environment(PUNCTUAL_URL=url, PUNCTUAL_KEY="wrong")
        with Process(arguments, cwd=ROOT, environ=own) as process:
            assert await asyncio.to_thread(process.wait) == 1
            assert process.err[-1] == "punctual: 401: the key is not known"
    ends = {lease: end.data for lease, end in queue.completed}
    assert ends["lease-1"] == {"thumbnail": "cat.120.png"}
    assert ends["lease-2"] == {"jobId": "another", "params": {"size": 1}}
    assert (queue.most_held, queue.told[-1]) == (2, "deregistered")
    [said] = {instance.instance_id for instance in queue.claims}
    assert said not in queue.instances
