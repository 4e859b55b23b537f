"""The source's timer list over deaths and drains of scheduler and instances (SPEC sections 11, 13)."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from client_sdk import Client
from client_sdk.errors import Absent
from tests.ports import free_port
from tests.unit.docs.pages import ROOT
from tests.wire.processes.instance import WORK
from tests.wire.processes.process import Process, bare_environment, serve
from tests.wire.source_example import example

pytestmark = pytest.mark.timeout(180)
JOB = "20220125"
PATIENCE = 40.0
SETTINGS = {"PUNCTUAL_SERVICES__HEARTBEAT_SECONDS": "0.5", "PUNCTUAL_SERVICES__OFFLINE_SECONDS": "3"}
QUICK = {
    "timer": {"period": "0 0 0 1 1 ?"},
    "checkRateSeconds": 0.2,
    "retry": [{"maxAttempts": 2, "backoffRate": 1.5, "errorEquals": "500", "intervalSeconds": 4}],
}
"""An edit: fires by trigger, but for New Year, looks sooner, tries again when who is dead is known to be."""
ENDED = ("succeeded", "terminated", "cancelled", "skipped")


class Instance:
    """One process of the services of the example."""

    def __init__(self, process: Process, name: str) -> None:
        self.process = process
        self.name = name
        self.address = json.loads(process.wait_for_line('"ready"').string)["address"]

    async def tell(self, what: str) -> None:
        """`hold` or `release`."""
        async with httpx.AsyncClient(trust_env=False) as client:
            (await client.post(f"{self.address}/{what}")).raise_for_status()

    def count(self, event: str, path: str = "") -> int:
        """How often it has said so."""
        said = [json.loads(line) for line in self.process.out]
        return sum(one["event"] == event and one.get("path", "").startswith(path) for one in said)


class Stage:
    """Scheduler and instances; `client` speaks to the scheduler, whichever runs."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.data = folder / "data"
        self.timers = folder / "timers.json"
        self.port = str(free_port())
        self.client = Client(f"http://127.0.0.1:{self.port}")
        self.scheduler: Process | None = None
        self._stack = stack

    def declare(self, *timers: dict[str, Any]) -> None:
        """What stands in the configuration of all instances from now on."""
        fresh = self.timers.with_suffix(".new")
        fresh.write_text(json.dumps(timers))
        fresh.replace(self.timers)

    async def start_scheduler(self) -> None:
        """On the port that the instances know."""
        process = serve(self.data, "--port", str(self.port), **SETTINGS)
        self.scheduler = self._stack.enter_context(process)
        await asyncio.to_thread(process.wait_for_url)

    async def start_instance(self, name: str) -> Instance:
        """Ready to be called, and registered."""
        arguments = [sys.executable, "-m", "tests.wire.processes.instance", name, self.client.url]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        process = Process([*arguments, str(self.timers)], cwd=ROOT, environ=bare_environment(PYTHONPATH=path))
        self._stack.enter_context(process)
        return await asyncio.to_thread(Instance, process, name)

    async def wipe(self) -> None:
        """kill -9 of the scheduler, and nothing is left of what it knew."""
        assert self.scheduler is not None
        self.scheduler.send(signal.SIGKILL)
        await asyncio.to_thread(self.scheduler.wait)
        shutil.rmtree(self.data)
        await self.start_scheduler()

    async def scan(self) -> None:
        """One run of check-timers."""
        ended = await self.client.wait_for(await self.client.jobs.trigger("check-timers"), timeout=PATIENCE)
        assert ended.state == "succeeded", ended

    async def until_job(self, **wanted: object) -> None:
        """Returns when the declared job has these members; registrations and scans bring it there."""
        async with asyncio.timeout(PATIENCE):
            while True:
                await self.scan()
                try:
                    found = (await self.client.jobs.get(JOB)).definition
                except Absent:
                    continue
                if found == example() | wanted:
                    return

    async def until_idle(self) -> None:
        """Returns when nothing runs: the timer of the source may have come before it was edited."""
        async with asyncio.timeout(PATIENCE):
            while [one async for one in self.client.executions.list(job_id=JOB) if one.state not in ENDED]:
                pass

    async def instances(self) -> dict[str, str]:
        """The state of each instance of the worker's service."""
        known = (await self.client.services.get("jobswork")).instances
        return {one.instance_id: str(one.state) for one in known}

    async def until_instances(self, **wanted: str) -> None:
        """Returns when these are known, and no others."""
        async with asyncio.timeout(PATIENCE):
            while await self.instances() != wanted:
                pass

    async def trigger(self) -> str:
        """The id of a new execution of the declared job."""
        return (await self.client.jobs.trigger(JOB)).execution_id

    async def ends(self, execution: str) -> Any:
        """The execution, once it has ended."""
        return await self.client.wait_for(execution, timeout=PATIENCE)

    async def hold(self, *instances: Instance) -> tuple[str, Instance, Instance]:
        """An execution that hangs in the work of one of two instances: it, that one, the other one."""
        before = [one.count("begun", WORK) for one in instances]
        for one in instances:
            await one.tell("hold")
        execution = await self.trigger()
        async with asyncio.timeout(PATIENCE):
            while [one.count("begun", WORK) for one in instances] == before:
                await self.instances()
        first, second = instances
        caught = first if first.count("begun", WORK) > before[0] else second
        return execution, caught, second if caught is first else first


@asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[Stage]:
    """A scheduler, and what is started later; all of it is gone in the end."""
    async with AsyncExitStack() as stack:
        on = Stage(folder, stack)
        await stack.enter_async_context(on.client)
        on.declare(example())
        await on.start_scheduler()
        yield on


@pytest.mark.long
async def test_declared_jobs_go_on_whoever_dies(tmp_path: Path) -> None:
    """One is killed in the middle of work, one drained while it is called; then the scheduler is wiped."""
    async with stage(tmp_path) as on:
        a, b = await on.start_instance("a"), await on.start_instance("b")
        await on.until_job()
        on.declare(example() | QUICK)  # an edit of the configuration reaches the job
        await on.until_job(**QUICK)
        await on.until_idle()

        execution, killed, left = await on.hold(a, b)
        killed.process.send(signal.SIGKILL)
        await left.tell("release")
        ended = await on.ends(execution)
        assert ended.state == "succeeded"
        assert [one.error for one in ended.attempts] == ["500", None]
        assert {step.instance for step in ended.attempts[1].steps} == {left.name}
        await on.until_instances(**{killed.name: "offline", left.name: "online"})

        heir = await on.start_instance(killed.name)
        await on.until_instances(**{killed.name: "online", left.name: "online"})
        execution, drained, other = await on.hold(left, heir)
        drained.process.send(signal.SIGTERM)
        await asyncio.to_thread(drained.process.wait_for_line, '"draining"')
        assert (await on.instances())[drained.name] == "draining"
        await drained.tell("release")
        await other.tell("release")
        ended = await on.ends(execution)
        assert (ended.state, ended.attempt_count) == ("succeeded", 1)
        assert [step.instance for step in ended.attempts[0].steps] == [drained.name, other.name]
        assert await asyncio.to_thread(drained.process.wait) in (0, -signal.SIGTERM)
        assert drained.process.err == []
        await on.until_instances(**{other.name: "online"})

        uid = (await on.client.jobs.get(JOB)).uid
        await on.wipe()
        await on.until_job(**QUICK)
        again = await on.client.jobs.get(JOB)
        assert (again.uid != uid, again.state) == (True, "active")
        assert (await on.ends(await on.trigger())).state == "succeeded"
