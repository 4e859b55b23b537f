"""Incidents of what is kept, of processes and of clocks."""

import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scheduler_service.app.store_opening import shard_of
from tests.faults.inside import Wall, open_inside
from tests.faults.jobs import plain
from tests.faults.processes import Run
from tests.faults.target import open_target
from tests.redis_server import SYNCING, RedisServer
from tests.tour.scene import Address, scene
from tests.tour.watch import HOOK, Watch

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


FROZEN = 3.0


@asynccontextmanager
async def beating(run: Run, path: str) -> AsyncIterator[None]:
    """The instance gives signs of life."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(0.2)
            await run.ask("POST", f"{path}/heartbeat")

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.long
async def test_a_worker_process_is_killed(tmp_path: Path) -> None:
    """Line and alert name the process; it is started again, which both say."""
    async with scene(tmp_path / "data", "workerLost", server__workers=2) as at:
        watch = at.watch
        (start,) = await watch.samples("punctual_process_start_time_seconds", process="1")
        worker = at.service.pids[1]
        os.kill(worker, signal.SIGKILL)
        watch.start("worker process killed")
        line = await watch.line("worker_lost", worker=1)
        assert (line["level"], line["exit"]) == ("error", -signal.SIGKILL)
        await watch.line("worker_restarted", worker=1)
        await watch.metric("punctual_process_start_time_seconds", lambda at: at > start, process="1")
        await watch.metric("punctual_process_up", lambda up: up == 1, process="1")
        await watch.told("workerLost", subject="1")  # it is back within a second at times
        await watch.recovered("workerLost", subject="1")


@pytest.mark.long
async def test_an_instance_is_lost(tmp_path: Path) -> None:
    """Line, figure and alert when it was silent for `services.lost_after_seconds`, and when it is back."""
    settings = {
        "services__heartbeat_seconds": 0.5,
        "services__offline_seconds": 1,
        "services__lost_after_seconds": 1,
    }
    async with scene(tmp_path / "data", "instanceLost", **settings) as at:
        watch, path = at.watch, "/services/billing/instances/b-1"
        registration = {"address": at.target.url}
        assert (await at.run.ask("PUT", path, json=registration)).is_success
        watch.start("instance lost")
        labels = {"service": "billing", "state": "offline"}
        await watch.metric("punctual_instances", lambda count: count == 1, **labels)
        line = await watch.line("instance_lost", service="billing", instance="b-1")
        assert (line["level"], line["reason"]) == ("warning", "silent")
        await watch.alert("instanceLost", subject="billing/b-1")
        async with beating(at.run, path):
            assert (await at.run.ask("PUT", path, json=registration)).is_success
            watch.start("instance back")
            await watch.line("instance_returned", service="billing", instance="b-1")
            await watch.metric("punctual_instances", lambda count: count == 0, **labels)
            await watch.recovered("instanceLost", subject="billing/b-1")


@pytest.mark.long
async def test_a_process_is_frozen(tmp_path: Path) -> None:
    """Nothing answers while it lasts; then line and figure say for how long, and the alert what was late."""
    async with scene(tmp_path / "data", "overdue", alert={"overdueSeconds": 1}) as at:
        watch = at.watch
        await at.create("often", f"{at.target.url}/one", timer=OFTEN | {"misfire": {"policy": "fire_once"}})
        await at.target.until(2)
        os.kill(at.run.pid, signal.SIGSTOP)
        await asyncio.sleep(FROZEN)  # that is the incident
        os.kill(at.run.pid, signal.SIGCONT)
        watch.start("process no more frozen")
        line = await watch.line("loop_stalled")
        assert line["ms"] > FROZEN * 900
        await watch.line("firing_delayed", jobId="often")
        lag = "punctual_event_loop_lag_seconds"
        (within,) = await watch.samples(f"{lag}_bucket", process="0", le="1.0")
        await watch.metric(f"{lag}_count", lambda count: count > within, process="0")
        await watch.told("overdue", subject="often")


@pytest.mark.long
async def test_the_clock_is_stepped(tmp_path: Path) -> None:
    """An hour forward: a line, firings that are counted as late and skipped, and jobs that were overdue."""
    wall, folder = Wall(), tmp_path / "data"
    async with open_target() as target:
        alerts = [{"name": "ops", "on": ["overdue"], "url": f"{target.url}{HOOK}", "minIntervalSeconds": 0}]
        async with open_inside(folder, wall=wall, alerts=alerts) as inside:
            watch = Watch(
                service=inside, target=target, lines=lambda: [{"event": event} for event in inside.log]
            )
            timer = {"dueTime": "30s", "period": "60s"}
            created = await inside.ask("POST", "/jobs/job", json=plain(target, timer=timer))
            assert created.status_code == 201
            wall.shift += 3_600
            watch.start("clock stepped")
            await watch.line("clock_stepped")
            await watch.line("firings_missed")
            await watch.metric("punctual_firings_total", lambda count: count >= 1, outcome="late")
            await watch.metric("punctual_firings_total", lambda count: count >= 50, outcome="skipped")
            await watch.alert("overdue", subject="job")
