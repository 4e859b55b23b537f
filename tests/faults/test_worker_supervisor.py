"""A worker process that stands still, at any stage of its life, is killed and started again."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler_service.app.core_settings import make_surroundings
from scheduler_service.app.store_opening import worker_configs
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.parent import ParentService
from scheduler_service.hosts.processes.remote_shard import WorkerHandle
from scheduler_service.hosts.processes.worker_processes import (
    WatchLimits,
    WorkerContext,
    WorkerProcess,
    WorkerSupervisor,
)
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.ports.errors import StoreError, StoreUncertain
from scheduler_service.services.instances import Instances
from scheduler_service.services.router import MemoryRouter, Terms
from scheduler_service.settings import LoadedSettings, Settings
from tests.faults.processes import LOOK, PATIENCE
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.timeout(120)
SHARD = 1
SERVED = "http://here.test"
SHORT = 0.2


class Supervised:
    """One worker process under its supervisor, whose limits a test can shorten."""

    def __init__(self, folder: Path, process: WorkerProcess) -> None:
        settings = Settings.model_validate({"store": {"data": str(folder)}, "server": {"workers": 2}})
        clock = ManualClock(wall=1_000_000)
        self.process = process
        self.worker = WorkerHandle(shard=SHARD)
        self.limits = WatchLimits(ping_interval=SHORT)
        self.log: list[str] = []
        self.exits: list[object] = []
        self.restarted = asyncio.Event()
        self._router = MemoryRouter(instances=Instances(), terms=lambda _, __: Terms(), clock=clock)
        loaded = LoadedSettings(settings, {})
        surroundings = make_surroundings(loaded, SERVED)
        context = WorkerContext(
            config_for=worker_configs(loaded, surroundings, SERVED, "node-1", clock),
            new_parent=lambda: ParentService(
                router=self._router,
                address_of=lambda _: (None, 0, "", None),
                wake_claimers=lambda queues: None,
            ),
            on_restart=lambda _: self.restarted.set(),
            log=self._write,
            limits=self.limits,
        )
        self.supervisor = WorkerSupervisor(worker=self.worker, process=process, context=context)

    def freeze(self) -> None:
        """The process goes on no more, and the supervisor waits for it no longer than for a moment."""
        os.kill(self.process.pid, signal.SIGSTOP)
        self.limits.silent, self.limits.hangs = SHORT, 2 * SHORT

    def _write(self, event: str, /, **keys: object) -> None:
        self.log.append(event)
        if event == "worker_lost":
            self.exits.append(keys["exit"])
            self.limits.silent, self.limits.hangs = 3.0, 30.0  # the next one may take its time to start


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[Supervised]:
    """A process that waits for its orders, over a folder whose history is there."""
    HistoryDatabase(url=f"sqlite:///{tmp_path / 'history.db'}", durability="process").close()
    one = Supervised(tmp_path, await WorkerProcess.launch())
    try:
        yield one
    finally:
        await one.supervisor.stop(0)


@pytest.mark.long
async def test_one_that_stands_still_before_it_has_started(one: Supervised) -> None:
    """The same while it recovers; it is never taken for one that takes calls."""
    await one.supervisor.open()
    one.freeze()
    await one.supervisor.start()
    assert one.log == ["worker_stuck", "worker_lost", "worker_restarted"]
    assert one.worker.is_up
    assert not one.restarted.is_set()  # nobody has had calls of it before
    assert (await one.worker.call(rpc_methods.STATUS, None)).held >= 0


async def test_one_that_refuses_its_shard(tmp_path: Path, one: Supervised) -> None:
    """What a living process answers ends the start: another one would say the same."""
    (tmp_path / "state.db").mkdir()
    with pytest.raises(StoreError, match=r"state\.db"):
        await one.supervisor.open()
    assert one.log == []


async def test_one_that_stands_still_while_it_works(one: Supervised) -> None:
    """It is not ready at first, then killed, and a new one takes calls over the same file."""
    await one.supervisor.open()
    await one.supervisor.start()
    assert one.worker.is_up
    one.freeze()
    with pytest.raises(StoreUncertain):
        await one.worker.call(rpc_methods.STATUS, None)
    await one.restarted.wait()
    assert one.log == ["worker_stalled", "worker_stuck", "worker_lost", "worker_restarted"]
    assert one.exits == [-signal.SIGKILL]
    assert (await one.worker.call(rpc_methods.STATUS, None)).held >= 0


async def test_one_that_goes_on_by_itself(one: Supervised) -> None:
    """The log has that it is silent, while it is, and that it answers again; nothing is killed."""
    await one.supervisor.open()
    await one.supervisor.start()
    one.limits.silent = SHORT
    os.kill(one.process.pid, signal.SIGSTOP)
    async with asyncio.timeout(PATIENCE):
        while not one.log:  # noqa: ASYNC110 - it is about another process
            await asyncio.sleep(LOOK)
        assert one.log == ["worker_stalled"]
        one.limits.silent = 30.0  # the pings that follow may take their time
        os.kill(one.process.pid, signal.SIGCONT)
        while one.worker.is_silent:  # noqa: ASYNC110 - it is about another process
            await asyncio.sleep(LOOK)
    assert one.log == ["worker_stalled", "worker_answered"]
