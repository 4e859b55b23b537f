"""The services of `examples/`, each a real process on loopback (SPEC section 16)."""

import asyncio
import json
import os
import re
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
from tests.forked import Forked
from tests.ports import free_port
from tests.unit.docs.pages import ROOT, fences, read
from tests.wire.processes.process import COMMAND, Process, bare_environment, serve
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
    port = str(free_port())
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
    port = str(free_port())
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


EXAMPLES = fences(read("docs/sdk.md"), "python")
STRICT = "import warnings; warnings.simplefilter('error')\n"
CHECK = """
import sys
from client_sdk import Service, Worker
for one in list(globals().values()):
    if isinstance(one, Service | Worker):
        print(type(one).__name__, *(job["jobId"] for job in one.definitions()))
"""


SILENT = ("Verifier", "client.events(")
"""Of examples that print nothing where nothing happens."""


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_examples_run(number: int, service: str, tmp_path: Path) -> None:
    """As scripts of their own against a real service; what declares jobs can be registered."""
    text = EXAMPLES[number].replace("http://127.0.0.1:8000", service)
    (tmp_path / "invoices.py").write_text(STRICT + text + CHECK, encoding="utf-8")
    script = Forked(["-m", "invoices"], cwd=tmp_path, environ=bare_environment())
    with script.stdout, script.stderr:
        printed, errors = script.stdout.read(), script.stderr.read()
    assert (script.wait(60), errors) == (0, "")
    assert printed or any(word in text for word in SILENT)


def test_there_are_examples_of_everything() -> None:
    """Client, blocking client, service, signature, worker, lite."""
    text = "".join(EXAMPLES)
    for name in ("Client", "BlockingClient", "Service", "Verifier", "Worker", "LiteJob"):
        assert name in text


async def test_an_application_lives_whatever_its_jobs_do(tmp_path: Path) -> None:
    """One failure each, a blocked loop costs no heartbeat, and no execution runs beside the next one."""
    silent = {"PUNCTUAL_SERVICES__OFFLINE_SECONDS": "2", "PUNCTUAL_SERVICES__HEARTBEAT_SECONDS": "0.2"}
    with serve(tmp_path / "data", **silent) as scheduler:
        url = await asyncio.to_thread(scheduler.wait_for_url)
        environ = bare_environment(PYTHONPATH=f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        unruly_app = ("uvicorn", "tests.wire.processes.unruly:app", "--port", str(free_port()))
        command = [sys.executable, "-m", *unruly_app]
        with Process(command, cwd=ROOT, environ={**environ, "PUNCTUAL_URL": url}) as unruly:
            async with Client(url) as client, asyncio.timeout(60):
                await exists(client, "unruly-long")
                assert await failure(client, "unruly-exit") == "SystemExit: 3"
                assert await failure(client, "unruly-stop") == "StopIteration"
                held = await client.jobs.trigger("unruly-block", {"seconds": 3})
                assert (await client.wait_for(held)).state == "succeeded"
                for number in range(1, 5):
                    last = await client.jobs.trigger("unruly-long")
                    await asyncio.to_thread(unruly.wait_for_line, f"begin {number}, 1 at once")
                await client.executions.cancel(last)
                await asyncio.to_thread(unruly.wait_for_line, "end 4")
        said = [line.strip() for line in unruly.out if re.match("begin|end", line)]
        expected = [line for one in range(1, 5) for line in (f"begin {one}, 1 at once", f"end {one}")]
        assert said == expected
        assert not [line for line in scheduler.err if '"instance_lost"' in line]


async def exists(client: Client, job_id: str) -> None:
    """Returns when the job does: an instance looks for its address first."""
    while True:
        try:
            await client.jobs.get(job_id)
        except Absent:
            continue  # each look is a request
        return


async def failure(client: Client, job_id: str) -> str:
    """What the function did, in the words of its one failed attempt."""
    ended = await client.wait_for(await client.jobs.trigger(job_id))
    assert (ended.state, ended.error, ended.attempt_count) == ("terminated", "500", 1)
    body = ended.attempts[0].steps[0].response
    assert body is not None
    found = re.search(r'"message":\s*"((?:SystemExit: 3)|StopIteration)', str(body.body))
    assert found is not None, body
    return found[1]
