"""Incidents of what is kept: a full disk, a Redis that is gone, and an outbox that nobody takes."""

import resource
from pathlib import Path

import pytest

from scheduler_service.app.store_opening import shard_of
from tests.redis_server import SYNCING, RedisServer
from tests.tour.scene import Address, scene
from tests.tour.watch import Watch

OFTEN = {"dueTime": "0s", "period": "PT0.5S"}
# Smaller than a database's write-ahead log with one page in it: wherever the log goes on, there is no room.
NO_FRAME = 4_150


@pytest.mark.long
async def test_the_disk_is_full(tmp_path: Path) -> None:
    """In log, figures and readiness; the alert needs the disk itself and follows in the end."""
    async with scene(tmp_path / "data", "storeLost") as at:
        watch, pid = at.watch, at.run.pid
        await at.create("often", f"{at.target.url}/one", timer=OFTEN, qos=1)
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (NO_FRAME, hard))
        watch.start("disk full")
        line = await watch.line("store_not_written", level="error")
        assert line["error"]
        await watch.metric("punctual_store_up", lambda up: up == 0, store="state")
        assert "store" in await watch.ready(503)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        watch.start("room on the disk")
        await watch.line("store_written_again")
        await watch.metric("punctual_store_up", lambda up: up == 1, store="state")
        await watch.ready(200)
        await watch.recovered("storeLost")


async def test_the_disk_of_one_worker_process_is_full(tmp_path: Path) -> None:
    """Its log says so once; readiness and `GET /nodes` name the process and what it cannot write."""
    async with scene(tmp_path / "data", "storeLost", server__workers=2) as at:
        service, pid = at.service, at.service.pids[1]
        watch = Watch(service=at.run, target=at.target, lines=service.logged_by_workers)
        name = next(f"often-{number}" for number in range(100) if shard_of(2)(f"often-{number}") == 1)
        await at.create(name, f"{at.target.url}/one", timer=OFTEN, qos=1)
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (NO_FRAME, hard))
        watch.start("disk of a worker process full")
        await watch.line("store_not_written", worker=1)
        await watch.metric("punctual_store_up", lambda up: up == 0, store="state", process="1")
        assert "store of worker process 1" in await watch.ready(503)
        (node,) = (await at.run.read("/nodes"))["items"]
        own, worker = node["processes"]
        assert (own["missing"], worker["state"]) == ([], "running")
        assert "store" in worker["missing"]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        watch.start("room on the disk of a worker process")
        await watch.line("store_written_again", worker=1)
        await watch.ready(200)
        (node,) = (await at.run.read("/nodes"))["items"]
        assert "store" not in node["processes"][1]["missing"]
        lines = [line["event"] for line in service.logged_by_workers()]
        assert (lines.count("store_not_written"), lines.count("store_written_again")) == (1, 1)


@pytest.mark.long
async def test_the_redis_of_contexts_is_gone(tmp_path: Path) -> None:
    """Seen at once in the log; jobs of qos 1 fire again, and the alert follows, when it is back."""
    server = RedisServer(tmp_path / "redis", *SYNCING).start()
    try:
        async with scene(tmp_path / "data", "storeLost", contexts__url=server.url) as at:
            watch = at.watch
            await at.create("often", f"{at.target.url}/one", timer=OFTEN, qos=1)
            server.kill()
            watch.start("Redis gone")
            await watch.line("contexts_unreachable", level="error")
            await watch.ready(200)
            server.start()
            watch.start("Redis back")
            await watch.line("contexts_reached_again")
            await watch.recovered("storeLost")
    finally:
        server.kill()


@pytest.mark.long
async def test_the_outbox_is_stuck(tmp_path: Path) -> None:
    """A receiver that is down: line, figure and alert as soon as a notification is given up."""
    address = Address()
    settings = {"notification__retries": 0, "notification__outbox_seconds": 2}
    async with scene(tmp_path / "data", "undeliverable", **settings) as at:
        watch = at.watch
        entry = {"url": f"http://{address.host}/told", "stateEquals": "finalSucceed"}
        await at.create("nightly", f"{at.target.url}/one", qos=1, notification=[entry])
        watch.start("outbox stuck")
        execution = await at.trigger("nightly")
        line = await watch.line("delivery_failed", executionId=execution, state="outbox")
        assert (line["level"], line["target"]) == ("warning", address.host)
        await watch.metric("punctual_deliveries_total", lambda count: count >= 1, outcome="outbox")
        await watch.metric("punctual_outbox_deliveries", lambda count: count == 1)
        await watch.alert("undeliverable", jobId="nightly")
        async with address.served_by(at.target):
            watch.start("receiver up again")
            await watch.metric("punctual_deliveries_total", lambda count: count >= 2, outcome="delivered")
            assert at.target.to("/told")
