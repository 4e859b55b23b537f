"""The life of a service from its socket to its drain."""

import asyncio
import os
import signal

import pytest
from fastapi import FastAPI

from scheduler_service.app.server import serve
from scheduler_service.ports.log import Log
from scheduler_service.settings import Loaded, load_settings

pytestmark = pytest.mark.anyio


class EndlessStart:
    """A service that is told to stop while it starts, which takes for ever."""

    def __init__(self) -> None:
        self.api = FastAPI()
        self.stopped = False

    async def start(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.get_running_loop().create_future()

    async def breaks(self) -> str:
        await asyncio.get_running_loop().create_future()
        return ""

    async def stop(self, grace: int) -> None:
        self.stopped = True


async def test_a_signal_ends_a_start() -> None:
    """A start that waits for something, as for a worker process that dies again and again, can be ended."""
    service = EndlessStart()
    began = []

    async def opening(loaded: Loaded, *, served: str, log: Log) -> EndlessStart:
        return service

    async def begin(served: str) -> None:
        began.append(served)

    loaded = load_settings({"server.port": 0}, {})
    await serve(loaded, log=lambda event, /, **keys: None, opening=opening, began=begin)
    assert service.stopped
    assert began == []
