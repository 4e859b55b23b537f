"""The life of a worker process, without the process."""

import asyncio
import gc
import socket
import threading
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from scheduler_service.app.core_settings import make_surroundings
from scheduler_service.app.store_opening import worker_configs
from scheduler_service.app.worker_main import WorkerMain
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.rpc_methods import RpcConnection
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.settings import LoadedSettings, Settings
from scheduler_service.telemetry.logs import EventLog
from scheduler_service.telemetry.loop_watch import THREAD
from tests.manual_clock import ManualClock

SHARD = 1
SERVED = "http://here.test"
NOTHING = rpc_methods.START.write_argument(None)


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """The collector of this process as it was: a worker process freezes its own."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


async def refuse(method: str, argument: bytes) -> bytes:
    """A service of which nothing is asked here."""
    raise KeyError(method)


async def open_connection(end: socket.socket) -> RpcConnection:
    end.setblocking(False)
    return await RpcConnection.open(
        end,
        serve=refuse,
        on_notice=lambda method, argument: None,
        on_lost=lambda: None,
        log=lambda event, /, **keys: None,
    )


def watches() -> list[threading.Thread]:
    """The threads that look after a loop."""
    return [thread for thread in threading.enumerate() if thread.name == THREAD]


async def test_the_loop_is_watched_from_its_start_to_the_end_of_its_drain(tmp_path: Path) -> None:
    """Then the thread of the watch ends: nothing looks at a loop that is gone."""
    settings = Settings.model_validate({"store": {"data": str(tmp_path)}, "server": {"workers": 2}})
    HistoryDatabase(url=f"sqlite:///{tmp_path / 'history.db'}", durability="process").close()
    loaded = LoadedSettings(settings, {})
    config_for = worker_configs(
        loaded,
        make_surroundings(loaded, SERVED),
        SERVED,
        "node-1",
        ManualClock(wall=1),
    )
    ours, theirs = socket.socketpair()
    connections = [await open_connection(ours), await open_connection(theirs)]
    worker = WorkerMain(open_log=lambda settings, shard: EventLog(stream=StringIO()))
    worker.connection = connections[0]
    await worker.serve(rpc_methods.OPEN.name, rpc_methods.OPEN.write_argument(config_for(SHARD)))
    before = watches()
    await worker.serve(rpc_methods.START.name, NOTHING)
    [watch] = [thread for thread in watches() if thread not in before]
    await worker.serve(rpc_methods.STOP.name, rpc_methods.STOP.write_argument(0))
    await asyncio.to_thread(watch.join, 30)
    assert not watch.is_alive()
    for connection in connections:
        connection.close()
    await asyncio.sleep(0)
