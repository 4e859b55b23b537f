"""The services of `examples/`, each a real process on loopback (SPEC section 16)."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest

from client_sdk import Client
from client_sdk.errors import Absent, Invalid
from client_sdk.models.answers.jobs import Job
from tests.unit.docs.pages import ROOT
from tests.wire.processes.process import COMMAND, Process, bare_environment, free_port, serve
from tests.wire.service import definition

BUILD = "reports.examples.fastapi_service.build"
MAKE = "thumbnails.examples.pull_worker.make_thumbnail"
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


async def addresses_of(client: Client, name: str) -> list[str | None]:
    """The addresses of a service's instances, once there are any: they look for their own first."""
    async with asyncio.timeout(20):
        while True:
            try:
                return [one.address for one in (await client.services.get(name)).instances]
            except Absent:
                continue  # each look is a request


async def declared_job(client: Client, job_id: str) -> Job:
    """A declared job, once it exists: the instance is shown before its registration is answered."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await client.jobs.get(job_id)
            except Absent:
                continue  # each look is a request


async def test_the_fastapi_service(tmp_path: Path) -> None:
    """It registers its jobs; they are called, one reports progress; told to end, it finishes and leaves."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    async with scheduler(tmp_path) as client:
        with target("examples.fastapi_service:app", port, PUNCTUAL_URL=client.url) as process:
            assert await addresses_of(client, "reports") == [address]
            assert (await declared_job(client, CLEAN)).kind == "cron"
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


async def test_the_worker(tmp_path: Path) -> None:
    """`punctual worker` claims and completes; told to end, it leaves in good order."""
    arguments = [*COMMAND, "worker", "examples.pull_worker:worker", "--concurrency", "2"]
    other = {"url": "queue://thumbnails", "body": "${trigger}|json"}
    async with scheduler(tmp_path) as client:
        with Process(arguments, cwd=ROOT, environ=environment(PUNCTUAL_URL=client.url)) as process:
            await registered(client)
            await client.wait_for(await client.jobs.trigger("check-timers"), timeout=20)
            await client.jobs.create(definition(request=[other]), job_id="another")
            fired = [
                await client.jobs.trigger(MAKE, {"image": "cat"}),
                await client.jobs.trigger("another", {"size": 1}),
            ]
            ended = [await client.wait_for(one, timeout=20) for one in fired]
            assert process.send(signal.SIGTERM) is None
            assert await asyncio.to_thread(process.wait) == 0
        assert (await client.services.get("thumbnails")).instances == []
    steps = [one.attempts[0].steps[0] for one in ended]
    told = [json.loads((step.response.body if step.response else None) or "null") for step in steps]
    assert told == [{"thumbnail": "cat.120.png"}, {"jobId": "another", "params": {"size": 1}}]


async def registered(client: Client) -> None:
    """Returns when a worker of the example is known; each look is a request."""
    async with asyncio.timeout(20):
        while "thumbnails" not in [line.name async for line in client.services.list()]:
            pass
        while not (await client.services.get("thumbnails")).instances:
            pass


async def test_a_worker_with_a_wrong_key_ends_and_says_so(tmp_path: Path) -> None:
    """Asking again would not help."""
    async with scheduler(tmp_path, PUNCTUAL_SERVER__KEY="right-and-long-enough") as client:
        own = environment(PUNCTUAL_URL=client.url, PUNCTUAL_KEY="wrong")
        arguments = [*COMMAND, "worker", "examples.pull_worker:worker"]
        with Process(arguments, cwd=ROOT, environ=own) as process:
            assert await asyncio.to_thread(process.wait) == 1
            said = "punctual: this key is not known; give a key with --key or PUNCTUAL_KEY"
            assert process.err[-1] == said, process.err
