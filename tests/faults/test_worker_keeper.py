"""A worker process that stands still, at any stage of its life, is killed and started again."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scheduler_service.app.sharding import worker_configs
from scheduler_service.app.surroundings import make_surroundings
from scheduler_service.hosts.clock import ManualClock
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.parent_service import ParentService
from scheduler_service.hosts.processes.worker_handle import WorkerHandle
from scheduler_service.hosts.processes.worker_process import WorkerProcess, launch
from scheduler_service.hosts.processes.worker_supervisor import WatchLimits, WorkerSupervisor
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain
from scheduler_service.services.instances import Instances
from scheduler_service.services.router import MemoryRouter, Terms
from scheduler_service.settings import Loaded, Settings

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
SHARE = 1
SERVED = "http://here.test"
SHORT = 0.2


class Ward:
    """One worker process in the care of its keeper, whose patience ends when it is told to."""

    def __init__(self, folder: Path, launched: WorkerProcess) -> None:
        settings = Settings.model_validate({"store": {"data": str(folder)}, "server": {"workers": 2}})
        clock = ManualClock(wall=1_000_000)
        self.launched = launched
        self.branch = WorkerHandle(share=SHARE)
        self.patience = WatchLimits(watch=SHORT)
        self.log: list[str] = []
        self.exits: list[object] = []
        self.back = asyncio.Event()
        self._router = MemoryRouter(instances=Instances(), terms=lambda _, __: Terms(), clock=clock)
        self.keeper = WorkerSupervisor(
            branch=self.branch,
            launched=launched,
            give=worker_configs(
                Loaded(settings, {}), make_surroundings(settings, SERVED), SERVED, "node-1", clock
            ),
            hosting=lambda: ParentService(
                router=self._router, address=lambda _: (None, False), stir=lambda queues: None
            ),
            back=lambda _: self.back.set(),
            log=self._write,
            patience=self.patience,
        )

    def freeze(self) -> None:
        """The process goes on no more, and the keeper waits for it no longer than for a moment."""
        os.kill(self.launched._process.pid, signal.SIGSTOP)
        self.patience.silent, self.patience.hangs = SHORT, 2 * SHORT

    def _write(self, event: str, /, **keys: object) -> None:
        self.log.append(event)
        if event == "worker_lost":
            self.exits.append(keys["exit"])
            self.patience.silent, self.patience.hangs = 3.0, 30.0  # the next one may take its time to start


@asynccontextmanager
async def ward(folder: Path) -> AsyncIterator[Ward]:
    """A process that waits for its orders, over a folder whose history is there."""
    HistoryDatabase(url=f"sqlite:///{folder / 'history.db'}", durability="process").close()
    one = Ward(folder, await launch())
    try:
        yield one
    finally:
        await one.keeper.stop(0)


async def test_one_that_stands_still_before_it_has_opened(tmp_path: Path) -> None:
    """The service's start fails and says so, instead of waiting for ever."""
    async with ward(tmp_path) as one:
        one.freeze()
        with pytest.raises(StoreUnavailable, match="ended before it was ready"):
            await one.keeper.open()
        assert one.log == ["worker_hangs"]
        assert await one.keeper.end() == -signal.SIGKILL


async def test_one_that_stands_still_before_it_has_started(tmp_path: Path) -> None:
    """The same while it recovers; it is never taken for one that takes calls."""
    async with ward(tmp_path) as one:
        await one.keeper.open()
        one.freeze()
        with pytest.raises(StoreUnavailable, match="ended before it was ready"):
            await one.keeper.start()
        assert one.log == ["worker_hangs"]
        assert not one.branch.is_up
        assert await one.keeper.end() == -signal.SIGKILL


async def test_one_that_stands_still_while_it_works(tmp_path: Path) -> None:
    """It is not ready at first, then killed, and a new one takes calls over the same file."""
    async with ward(tmp_path) as one:
        await one.keeper.open()
        await one.keeper.start()
        assert one.branch.is_up
        one.freeze()
        with pytest.raises(StoreUncertain):
            await one.branch.call(rpc_methods.STANDING, None)
        await one.back.wait()
        assert one.log == ["worker_hangs", "worker_lost", "worker_back"]
        assert one.exits == [-signal.SIGKILL]
        assert (await one.branch.call(rpc_methods.STANDING, None)).held >= 0
