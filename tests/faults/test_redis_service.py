"""A service over Redis: who may have the store, and what it says when it is away."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.homes import RedisHome
from tests.faults.jobs import asked, begin, ended, plain
from tests.faults.processes import ROOT, Fleet, Run
from tests.faults.stories import JOB
from tests.faults.sweeping import House
from tests.faults.target import open_target
from tests.redis_server import SYNCING, RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that the test may stop."""
    server = RedisServer(tmp_path / "redis", *SYNCING).start()
    yield server
    server.kill()


def begin_at(fleet: Fleet, folder: Path, server: RedisServer) -> Run:
    """A service with a folder of its own over the server."""
    return fleet.start(folder, settings={"store.url": server.url})


async def test_a_second_service_refuses_to_start(fleet: Fleet, tmp_path: Path, redis_house: House) -> None:
    """Exit code 3, and the message names the store and the process that has it; the first one goes on."""
    home = redis_house(tmp_path / "data")
    assert isinstance(home, RedisHome)
    run = fleet.start(home.folder, settings={"store.durability": "process"} | home.settings)
    assert await run.is_up(), run.message
    command = [
        sys.executable,
        "-m",
        "scheduler_service",
        "serve",
        "--port",
        "0",
        "--data",
        str(tmp_path / "b"),
    ]
    environ = {"PUNCTUAL_STORE__DURABILITY": "process", "COLUMNS": "500"}
    second = await asyncio.to_thread(
        subprocess.run,
        [*command, "--store", str(home.address)],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode == 3
    assert f"The store {home.address} is in use by process {run.pid} on" in second.stderr
    assert "Traceback" not in second.stderr
    assert (await run.ask("GET", "/health/ready")).status_code == 200
    assert await run.terminate() == 0


async def test_a_second_service_on_the_same_folder_refuses_to_start(
    fleet: Fleet, tmp_path: Path, redis_house: House
) -> None:
    """The history lies in it, wherever the jobs' state is."""
    first, second = redis_house(tmp_path / "data"), redis_house(tmp_path / "data")
    settings = {"store.durability": "process"}
    run = fleet.start(first.folder, settings=settings | first.settings)
    assert await run.is_up(), run.message
    refused = fleet.start(second.folder, settings=settings | second.settings)
    assert await refused.end() == 3
    assert "is in use by process" in refused.message
    assert await run.terminate() == 0


async def test_a_frozen_service_that_wakes_stops_and_changes_nothing(
    fleet: Fleet, tmp_path: Path, server: RedisServer
) -> None:
    """Another one has taken its jobs: it writes and sends nothing any more, says who, and ends with 3."""
    async with open_target() as target:
        frozen = begin_at(fleet, tmp_path / "a", server)
        await begin(frozen, plain(target, timer={"dueTime": "0s", "period": "R100/PT0.2S"}, qos=1))
        await frozen.until(lambda: asked(target, 3), "three firings")
        os.kill(frozen.pid, signal.SIGSTOP)
        with server.client as client:
            while client.exists("punctual:lease"):  # noqa: ASYNC110 - it ends in another process
                await asyncio.sleep(0.1)
        heir = begin_at(fleet, tmp_path / "b", server)
        assert await heir.is_up(), heir.message
        count = len(target.seen)
        await heir.until(lambda: asked(target, count + 3), "the heir goes on")
        os.kill(frozen.pid, signal.SIGCONT)
        assert await frozen.end() == 3
        assert f"process {heir.pid} on" in frozen.message
        assert "writes nothing any more and stops" in frozen.message
        await heir.until(lambda: asked(target, count + 8), "the heir goes on")
        assert (await heir.ask("PUT", JOB, params={"active": 0})).status_code == 200
        executions = await ended(heir, 1)
        assert await heir.terminate() == 0
    numbers = [one["executeNumber"] for one in executions]
    assert len(set(numbers)) == len(numbers)
    # What the frozen one had in flight is sent again by its heir, under its key.
    repeated = [
        identity for identity, count in Counter(one.identity for one in target.seen).items() if count > 1
    ]
    assert len(repeated) <= 1
    assert len({one.execution for one in target.seen}) == len({one.key for one in target.seen})
    assert '"store_lost"' in Path(frozen.order.log).read_text()


async def test_a_store_that_is_away_is_told_and_waited_for(
    fleet: Fleet, tmp_path: Path, server: RedisServer
) -> None:
    """Readiness names it, changes are refused with 503; when it is back the same process goes on."""
    async with open_target() as target:
        run = begin_at(fleet, tmp_path / "data", server)
        await begin(run, plain(target, qos=1))
        server.kill()

        async def lacks_its_store() -> bool:
            answer = await run.ask("GET", "/health/ready")
            return answer.status_code == 503 and "store" in answer.text

        await run.until(lacks_its_store, "readiness names the store")
        refused = await run.ask("POST", f"{JOB}/trigger")
        assert (refused.status_code, refused.headers["content-type"]) == (503, "application/problem+json")
        assert not target.seen
        server.start()

        async def is_ready() -> bool:
            return (await run.ask("GET", "/health/ready")).status_code == 200

        await run.until(is_ready, "it is ready again")
        assert (await run.ask("POST", f"{JOB}/trigger")).status_code == 200
        assert [one["state"] for one in await ended(run, 1)] == ["succeeded"]
        assert await run.terminate() == 0
    said = Path(run.order.log).read_text()
    assert '"store_unreachable"' in said
    assert '"store_reached_again"' in said


async def test_callers_of_a_store_that_stands_still_are_answered(
    fleet: Fleet, tmp_path: Path, server: RedisServer
) -> None:
    """All within one patience; what is said not to be done is not done later, when the server is back."""
    async with open_target() as target:
        run = begin_at(fleet, tmp_path / "data", server)
        await begin(run, plain(target))
        for number in range(30):
            job = plain(target, jobId=f"job-{number}")
            assert (await run.ask("POST", f"/jobs/job-{number}", json=job)).status_code == 201
        server.freeze()
        try:
            async with asyncio.timeout(15):
                asks = (run.ask("POST", f"/jobs/job-{number}/trigger", timeout=15) for number in range(30))
                answers = await asyncio.gather(*asks)
        finally:
            server.wake()
        assert {answer.status_code for answer in answers} == {503}
        assert (await run.ask("POST", f"{JOB}/trigger", timeout=15)).status_code == 200
        await ended(run, 1)
        for number, answer in enumerate(answers):
            done = (await run.read(f"/jobs/job-{number}/executions"))["items"]
            assert not done or answer.json()["errors"][0]["code"] == "unknown"
        assert await run.terminate() == 0


async def test_a_server_that_keeps_nothing_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    """At the start, with what to set."""
    server = RedisServer(tmp_path / "redis").start("--appendonly", "no")
    try:
        run = begin_at(fleet, tmp_path / "data", server)
        assert await run.end() == 3
        assert "set appendonly yes" in run.message
    finally:
        server.kill()


async def test_the_password_stands_in_no_log(fleet: Fleet, tmp_path: Path, server: RedisServer) -> None:
    """Neither at the start, nor while the server is away, nor in the settings that are shown."""
    with server.client as client:
        client.config_set("requirepass", "very-secret")
    url = server.url.replace("//", "//:very-secret@")
    run = fleet.start(tmp_path / "data", settings={"store.url": url})
    assert await run.is_up(), run.message
    shown = await run.ask("GET", "/settings")
    assert "very-secret" not in shown.text
    assert f"redis://***@127.0.0.1:{server.port}/0" in shown.text
    server.kill()

    async def is_away() -> bool:
        return (await run.ask("GET", "/health/ready")).status_code == 503

    await run.until(is_away, "readiness is gone")
    await run.kill()
    assert "very-secret" not in Path(run.order.log).read_text()


async def test_a_store_that_stands_still_does_not_hold_up_the_end(
    fleet: Fleet, tmp_path: Path, server: RedisServer
) -> None:
    """Nor does one that takes connections and says nothing; what it was told is found by the next start."""
    async with open_target() as target:
        settings = {"store.url": server.url, "server.drain_seconds": 1}
        run = fleet.start(tmp_path / "data", settings=settings)
        await begin(run, plain(target, timer={"dueTime": "0s", "period": "PT0.2S"}, qos=1))
        await run.until(lambda: asked(target, 3), "three firings")
        server.freeze()
        await asyncio.sleep(0.5)  # until turns wait for it
        try:
            async with asyncio.timeout(1 + 10):
                assert await run.terminate() == 0
        finally:
            server.wake()
        heir = begin_at(fleet, tmp_path / "data", server)
        assert await heir.is_up(), heir.message
        count = len(target.seen)
        await heir.until(lambda: asked(target, count + 3), "the heir goes on")
        assert await heir.terminate() == 0
    assert len({one.execution for one in target.seen}) == len({one.key for one in target.seen})
