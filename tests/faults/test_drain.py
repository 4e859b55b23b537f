"""A service that is told to stop ends what runs, and hands over the rest (SPEC section 14)."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.faults.homes import SqliteHome
from tests.faults.jobs import asked, begin, ended, plain
from tests.faults.processes import ROOT, Run, start_run
from tests.faults.stories import JOB, check_tidy
from tests.faults.target import open_target


async def begin_to_stop(run: Run) -> None:
    """Tells the service to stop; returns when it starts nothing any more, which comes after readiness."""
    run.signal_stop()

    async def is_draining() -> bool:
        return bool((await run.read("/nodes"))["items"][0]["state"] == "draining")

    await run.until(is_draining, "it drains")
    assert (await run.ask("GET", "/health/ready")).status_code == 503


@pytest.mark.parametrize("qos", [0, 1])
async def test_what_runs_ends_and_is_recorded(tmp_path: Path, qos: int) -> None:
    """Readiness goes first; nothing new is started; the open call is awaited; the end is in the history."""
    async with open_target() as target:
        run = start_run(tmp_path / "data")
        await begin(run, plain(target, qos=qos))
        gate = target.hold("/one")
        assert (await run.ask("POST", f"{JOB}/trigger")).status_code == 200
        await run.until(lambda: asked(target, 1), "the target was asked")
        await begin_to_stop(run)
        refused = await run.ask("POST", f"{JOB}/trigger")
        assert refused.status_code == 503
        assert "stopping" in refused.text, refused.text
        gate.set()
        assert await run.end() == 0
        await check_tidy(SqliteHome(tmp_path / "data"))
        again = start_run(tmp_path / "data")
        assert await again.is_up()
        assert [one["state"] for one in await ended(again, 1)] == ["succeeded"]
        assert await again.terminate() == 0
        assert len(target.seen) == 1


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
async def test_what_waits_begins_after_the_next_start(tmp_path: Path, workers: int) -> None:
    """The stop takes no longer than what runs; each of those that wait is sent once, at qos 0 too."""
    async with open_target() as target:
        run = start_run(tmp_path / "data", settings={"server.workers": workers})
        await begin(run, plain(target, overlapPolicy="queue"))
        gate = target.hold("/one")
        for _ in range(3):
            assert (await run.ask("POST", f"{JOB}/trigger")).status_code == 200
        await run.until(lambda: asked(target, 1), "the target was asked")
        await begin_to_stop(run)
        gate.set()
        assert await run.end() == 0
        assert len(target.seen) == 1
        again = start_run(tmp_path / "data", settings={"server.workers": workers})
        assert await again.is_up()
        executions = await ended(again, 3)
        assert await again.terminate() == 0
    assert [one["state"] for one in executions] == ["succeeded"] * 3
    assert len({one.key for one in target.seen}) == len(target.seen) == 3


@pytest.mark.parametrize("qos", [pytest.param(0, marks=pytest.mark.long), 1])
async def test_nothing_is_doubled_or_lost_over_rolling_restarts(tmp_path: Path, qos: int) -> None:
    """Twelve firings over four processes: each planned moment has one execution, each was sent once."""
    async with open_target() as target:
        definition = plain(target, qos=qos, timer={"dueTime": "0s", "period": "R12/PT0.2S"})
        run = start_run(tmp_path / "data")
        await begin(run, definition | {"overlapPolicy": "queue"})
        for count in (3, 6, 9):
            await run.until(partial(asked, target, count), f"{count} were sent")
            assert await run.terminate() == 0
            run = start_run(tmp_path / "data")
            assert await run.is_up()
        executions = await ended(run, 12)
        firings = (await run.read(f"{JOB}/firings", limit=500))["items"]
        assert await run.terminate() == 0
    assert {one["state"] for one in executions} == {"succeeded"}
    assert sorted(one["executionId"] for one in firings) == sorted(one["executionId"] for one in executions)
    moments = sorted(one["plannedAt"] for one in firings)
    assert len(set(moments)) == len({one.key for one in target.seen}) == len(target.seen) == 12


@pytest.mark.parametrize(("qos", "state"), [(0, "terminated"), (1, "succeeded")])
async def test_what_is_open_at_the_deadline_is_lost_or_goes_on(tmp_path: Path, qos: int, state: str) -> None:
    """At qos 0 it ends as lost after the next start, at qos 1 it is sent again with its key."""
    async with open_target() as target:
        run = start_run(tmp_path / "data", settings={"server.drain_seconds": 0.1})
        await begin(run, plain(target, qos=qos))
        gate = target.hold("/one")
        assert (await run.ask("POST", f"{JOB}/trigger")).status_code == 200
        await run.until(lambda: asked(target, 1), "the target was asked")
        assert await run.terminate() == 0
        gate.set()
        again = start_run(tmp_path / "data")
        assert await again.is_up()
        executions = await ended(again, 1)
        assert await again.terminate() == 0
    assert [one["state"] for one in executions] == [state]
    assert [one["error"] for one in executions] == ["lost" if qos == 0 else None]
    assert len({one.text for one in target.seen}) == 1
    assert len(target.seen) == 1 + qos


async def test_a_second_signal_ends_the_waiting(tmp_path: Path) -> None:
    """Exit code 1, at once; what was open goes on after the next start as after a crash."""
    async with open_target() as target:
        run = start_run(tmp_path / "data")
        await begin(run, plain(target, qos=1))
        gate = target.hold("/one")
        assert (await run.ask("POST", f"{JOB}/trigger")).status_code == 200
        await run.until(lambda: asked(target, 1), "the target was asked")
        await begin_to_stop(run)
        assert await run.terminate() == 1
        gate.set()
        again = start_run(tmp_path / "data")
        assert await again.is_up()
        assert [one["state"] for one in await ended(again, 1)] == ["succeeded"]
        assert await again.terminate() == 0
        assert len({one.text for one in target.seen}) == 1


async def test_a_second_service_over_a_folder_refuses_to_start(tmp_path: Path) -> None:
    """Exit code 3, and the message names the folder and the process that has it."""
    folder = tmp_path / "data"
    run = start_run(folder)
    assert await run.is_up()
    command = [sys.executable, "-m", "scheduler_service", "serve", "--port", "0", "--data", str(folder)]
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)  # noqa: ASYNC221
    assert second.returncode == 3
    said = "".join(second.stderr.split())
    assert "".join(str(folder).split()) in said
    assert f"process{run.pid}" in said
    assert "Traceback" not in second.stderr
    assert (await run.ask("GET", "/health/ready")).status_code == 200
    assert await run.terminate() == 0
