"""`punctual demo`: the service, its target and its jobs in one process, all on loopback."""

import asyncio
from functools import partial

import httpx
import uvloop

from scheduler_service.app.lifetime import serve
from scheduler_service.app.listener import listen
from scheduler_service.app.local_service import open_service
from scheduler_service.app.process_setup import process_log
from scheduler_service.demo.crash import CrashAct
from scheduler_service.demo.demo_jobs import DemoTarget, demo_jobs
from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.execution import TERMINAL
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.records import AttemptEnded, ExecutionRecord
from scheduler_service.http_server.server import Server
from scheduler_service.ports.history import Batch
from scheduler_service.ports.log import Log
from scheduler_service.settings import LoadedSettings

TARGET_HOST = "127.0.0.1"


class DemoError(PunctualError):
    """The demo cannot start."""


def run_demo(loaded: LoadedSettings, *, shows_crash: bool = True) -> None:
    """Runs until SIGTERM or Ctrl-C. Raises SettingsError, StoreError, DemoError.

    `shows_crash`: a second service is killed and started again meanwhile.
    """
    with process_log(loaded.settings) as log:
        uvloop.run(_run(loaded, log, shows_crash=shows_crash))


async def _run(loaded: LoadedSettings, log: Log, *, shows_crash: bool) -> None:
    loaded = loaded.allowing(TARGET_HOST)
    listener = listen(TARGET_HOST, 0)
    target = f"http://{TARGET_HOST}:{listener.getsockname()[1]}"
    server = Server(DemoTarget(), log=log)
    serving = asyncio.create_task(server.serve([listener]))

    async def begin(served: str) -> None:
        await _post_jobs(served, target, loaded.settings.server.key)
        for line in describe_demo(served, shows_crash=shows_crash):
            _print_line(line)
        if shows_crash:
            acts.append(asyncio.create_task(CrashAct(write=_print_line, log=log).run()))

    acts: list[asyncio.Task[None]] = []
    try:
        await serve(loaded, log=log, opening=partial(open_service, observer=print_ends), began=begin)
    finally:
        for act in acts:
            act.cancel()
        await asyncio.gather(*acts, return_exceptions=True)
        server.ask_to_end()
        await serving


def describe_demo(served: str, *, shows_crash: bool) -> list[str]:
    """What runs, why some of it fails, and where to look."""
    crash = [
        "Meanwhile a second service is killed (kill -9) in the middle of a chain, and started again: 'crash'."
    ]
    return [
        f"Punctual answers at {served} (try {served}/jobs); stop with Ctrl-C. Look at:",
        f"  {served}/console/                         the console, for a browser",
        f"  {served}/docs                             every route with examples",
        f"  {served}/executions?jobId=demo-flaky      executions, each with its attempts",
        f"  {served}/stats                            due, running, outcomes, lateness",
        "Its jobs:",
        "  demo-chain   every 5 s: asks for a price, then orders with what was answered",
        "  demo-report  every 10 s: begins a long report, then asks each second how far it is",
        "  demo-flaky   every 15 s: its target fails twice on purpose (503); the job's policy waits 1 s,",
        "               then 1.5 s, and the third attempt succeeds",
        *(crash if shows_crash else []),
        "Ended executions:",
    ]


def print_ends(batch: Batch) -> None:
    """Prints a line for each execution that ends or is tried again."""
    for record in batch.records:
        if isinstance(record, ExecutionRecord) and record.state in TERMINAL:
            _print_line(describe_end(batch.job_id, record))
        elif isinstance(record, AttemptEnded) and record.retry_in is not None:
            _print_line(describe_retry(batch.job_id, record))


def _print_line(line: str) -> None:
    print(line, flush=True)


async def _post_jobs(served: str, target: str, key: str | None) -> None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(trust_env=False, headers=headers, timeout=10) as client:
        answer = await client.post(f"{served}/jobs", params={"onExisting": "update"}, json=demo_jobs(target))
    refused = [item for item in answer.json().get("data", {}).get("items", []) if item["status"] == "refused"]
    if not answer.is_success or refused:
        raise DemoError(f"the demo jobs were refused: {refused or answer.text}")


def describe_retry(job_id: str, record: AttemptEnded) -> str:
    """`2026-01-31T09:00:00.000Z  demo-flaky  #1  failed with 503: its retry policy has it wait 1000 ms`."""
    place = f"{job_id:<12} #{record.execute_number:<4}"
    wait = f"its retry policy has it wait {record.retry_in} ms, then the whole chain is tried again"
    return f"{rfc3339(record.at)}  {place} failed with {record.error}: {wait}"


def describe_end(job_id: str, record: ExecutionRecord) -> str:
    """`2026-01-31T09:00:00.000Z  demo-chain  #1  succeeded  12 ms, 1 attempt`."""
    ended = record.ended_at or record.created_at
    took = ended - (record.started_at or ended)
    attempts = f"{record.attempt_count} attempt{'' if record.attempt_count == 1 else 's'}"
    cause = f"  {record.error}" if record.error else ""
    place = f"{job_id:<12} #{record.execute_number:<4}"
    return f"{rfc3339(ended)}  {place} {record.state:<10} {took} ms, {attempts}{cause}"
