"""`punctual demo`: the service, its target and its jobs in one process, all on loopback."""

import asyncio

import httpx
import uvloop

from scheduler_service.app.server import listen, make_server, serve
from scheduler_service.demo.jobs import demo_jobs
from scheduler_service.demo.lines import PrintingHistory
from scheduler_service.demo.target import DemoTarget
from scheduler_service.domain.errors import PunctualError
from scheduler_service.ports.history import History
from scheduler_service.settings import Loaded
from scheduler_service.telemetry.logs import stderr_log

TARGET_HOST = "127.0.0.1"


class DemoError(PunctualError):
    """The demo cannot start."""


def run_demo(loaded: Loaded) -> None:
    """Runs until it is told to stop. Raises SettingsError, StoreError, DemoError."""
    uvloop.run(_run(loaded))


async def _run(loaded: Loaded) -> None:
    loaded = loaded.allowing(TARGET_HOST)
    listener = listen(TARGET_HOST, 0)
    target = f"http://{TARGET_HOST}:{listener.getsockname()[1]}"
    server = make_server(DemoTarget())
    serving = asyncio.create_task(server.serve(sockets=[listener]))

    async def begin(served: str) -> None:
        await _post_jobs(served, target, loaded.settings.server.key)
        _say(f"Punctual answers at {served} (try {served}/jobs); stop with Ctrl-C. Executions as they end:")

    try:
        await serve(loaded, log=stderr_log(), wrap=_tell, began=begin)
    finally:
        server.should_exit = True
        await serving


def _tell(history: History) -> History:
    return PrintingHistory(history=history, write=_say)


def _say(line: str) -> None:
    print(line, flush=True)


async def _post_jobs(served: str, target: str, key: str | None) -> None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(trust_env=False, headers=headers, timeout=10) as client:
        answer = await client.post(f"{served}/jobs", params={"onExisting": "update"}, json=demo_jobs(target))
    refused = [item for item in answer.json().get("data", {}).get("items", []) if item["status"] == "refused"]
    if not answer.is_success or refused:
        raise DemoError(f"the demo jobs were refused: {refused or answer.text}")
