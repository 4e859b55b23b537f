"""A service whose contexts of qos 1 are in Redis: what it says, and does, while the server is away."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.jobs import asked, begin, ended, plain
from tests.faults.processes import Run, start_run
from tests.faults.stories import JOB
from tests.faults.target import open_target
from tests.redis_server import SYNCING, RedisServer

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that the test may stop."""
    server = RedisServer(tmp_path / "redis", *SYNCING).start()
    yield server
    server.kill()


def begin_at(folder: Path, server: RedisServer) -> Run:
    """A service with a folder of its own, and contexts at the server."""
    return start_run(folder, settings={"contexts.url": server.url})


async def test_contexts_that_are_away_hold_up_qos_1_alone(tmp_path: Path, server: RedisServer) -> None:
    """503 and a line of the log; jobs of qos 0 run; when the server is back the same process goes on."""
    async with open_target() as target:
        run = begin_at(tmp_path / "data", server)
        await begin(run, plain(target, qos=1))
        light = plain(target, jobId="light", qos=0)
        assert (await run.ask("POST", "/jobs/light", json=light)).status_code == 201
        server.kill()
        refused = await run.ask("POST", f"{JOB}/trigger")
        assert (refused.status_code, refused.headers["content-type"]) == (503, "application/problem+json")
        assert not target.seen
        assert (await run.ask("POST", "/jobs/light/trigger")).status_code == 200
        await run.until(lambda: asked(target, 1), "qos 0 runs")
        assert (await run.ask("GET", "/health/ready")).status_code == 200
        server.start()
        assert (await run.ask("POST", f"{JOB}/trigger")).status_code == 200
        assert [one["state"] for one in await ended(run, 1)] == ["succeeded"]
        assert await run.terminate() == 0
    said = Path(run.order.log).read_text()
    assert '"contexts_unreachable"' in said
    assert '"contexts_reached_again"' in said


async def test_callers_of_a_server_that_stands_still_are_answered(
    tmp_path: Path, server: RedisServer
) -> None:
    """All within one patience; what is said not to be done is not done later, when the server is back."""
    async with open_target() as target:
        run = begin_at(tmp_path / "data", server)
        await begin(run, plain(target))
        for number in range(30):
            job = plain(target, jobId=f"job-{number}", qos=1)
            assert (await run.ask("POST", f"/jobs/job-{number}", json=job)).status_code == 201
        server.freeze()
        try:
            async with asyncio.timeout(40):
                asks = (run.ask("POST", f"/jobs/job-{number}/trigger", timeout=40) for number in range(30))
                answers = await asyncio.gather(*asks)
        finally:
            server.wake()
        assert {answer.status_code for answer in answers} == {503}
        assert (await run.ask("POST", f"{JOB}/trigger", timeout=40)).status_code == 200
        await ended(run, 1)
        for number in range(30):
            assert not (await run.read(f"/jobs/job-{number}/executions"))["items"]
        assert await run.terminate() == 0


async def test_a_start_without_the_contexts_of_a_job_leaves_it(tmp_path: Path, server: RedisServer) -> None:
    """Its execution is not lost: with `contexts.url` as it was it goes on."""
    async with open_target() as target:
        run = begin_at(tmp_path / "data", server)
        await begin(run, plain(target, qos=1, timeoutSeconds=600, **{"async": True}))
        assert (await run.ask("POST", f"{JOB}/trigger")).status_code == 200
        await run.until(lambda: asked(target, 1), "it is sent")
        await run.kill()
        other = start_run(tmp_path / "data")
        assert await other.is_up(), other.message
        answer = await other.ask("POST", f"{JOB}/trigger")
        assert answer.status_code == 503
        assert "start the service with contexts.url as it was" in answer.text
        await other.kill()
        again = begin_at(tmp_path / "data", server)
        assert await again.is_up(), again.message
        (execution,) = (await again.read(f"{JOB}/executions"))["items"]
        assert execution["state"] == "processing"


async def test_the_password_stands_in_no_log(tmp_path: Path, server: RedisServer) -> None:
    """Neither at the start, nor while the server is away, nor in the settings that are shown."""
    with server.client as client:
        client.config_set("requirepass", "very-secret")
    url = server.url.replace("//", "//:very-secret@")
    run = start_run(tmp_path / "data", settings={"contexts.url": url})
    assert await run.is_up(), run.message
    shown = await run.ask("GET", "/settings")
    assert "very-secret" not in shown.text
    assert f"redis://***@127.0.0.1:{server.port}/0" in shown.text
    server.kill()
    async with open_target() as target:
        await begin(run, plain(target, qos=1))
        assert (await run.ask("POST", f"{JOB}/trigger")).status_code == 503
    await run.kill()
    assert "very-secret" not in Path(run.order.log).read_text()


@pytest.mark.long
async def test_a_store_that_stands_still_does_not_hold_up_the_end(
    tmp_path: Path, server: RedisServer
) -> None:
    """Nor does one that takes connections and says nothing; what it was told is found by the next start."""
    async with open_target() as target:
        settings = {"contexts.url": server.url, "server.drain_seconds": 1}
        run = start_run(tmp_path / "data", settings=settings)
        await begin(run, plain(target, timer={"dueTime": "0s", "period": "PT0.2S"}, qos=1))
        await run.until(lambda: asked(target, 3), "three firings")
        server.freeze()
        await asyncio.sleep(0.5)  # until turns wait for it
        try:
            async with asyncio.timeout(1 + 10):
                assert await run.terminate() == 0
        finally:
            server.wake()
        heir = begin_at(tmp_path / "data", server)
        assert await heir.is_up(), heir.message
        count = len(target.seen)
        await heir.until(lambda: asked(target, count + 3), "the heir goes on")
        assert await heir.terminate() == 0
    assert len({one.execution for one in target.seen}) == len({one.key for one in target.seen})
