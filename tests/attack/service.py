"""The service that is attacked: a process with limits; its memory and its log are read from outside."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.faults.processes import PATIENCE, Run, start_run

MEMORY_MIB = 300
"""So much no attack makes any process of the service use."""

Limits = Mapping[str, tuple[int, int]]
"""`NOFILE`, `AS` and so on: the soft and the hard limit of the process (`RLIMIT_…`)."""


class Service:
    """A service that has come up; `run` is its process, and what asks it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        assert run.url is not None
        self.url = run.url
        self.port = int(run.url.rpartition(":")[2])

    @property
    def pids(self) -> list[int]:
        """The processes that there are now: the service, then its worker processes."""
        pid = self.run.pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def peak_memory(self) -> float:
        """MiB that the largest of its processes has had in memory at most, so far."""
        return max(_peak(pid) for pid in self.pids)

    def descriptors(self) -> int:
        """How many descriptors the service process has open; its worker processes are not counted."""
        return sum(1 for _ in Path(f"/proc/{self.run.pid}/fd").iterdir())

    def logged(self, event: str | None = None) -> list[dict[str, Any]]:
        """The lines of its log so far, as values; of one event alone where `event` is given."""
        text = Path(self.run.order.log).read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        return [line for line in lines if event in (None, line["event"])]

    def logged_by_workers(self) -> list[dict[str, Any]]:
        """The lines so far of the log of its worker processes."""
        text = Path(f"{self.run.order.log}.workers").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    async def is_live(self) -> bool:
        """Whether `/health/live` answers 200 over a connection of its own."""
        try:
            async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False) as client:
                return (await client.get(f"{self.url}/health/live")).status_code == 200
        except httpx.TransportError:
            return False

    async def create(self, definition: Mapping[str, Any]) -> None:
        """Posts one job; it is accepted."""
        answer = await self.run.ask("POST", f"/jobs/{definition['jobId']}", json=definition)
        assert answer.status_code == 201, answer.text


def _peak(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024


def job(job_id: str, url: str, **members: Any) -> dict[str, Any]:
    """The definition of a job of one step that fires once, at once."""
    return {
        "jobId": job_id,
        "jobName": job_id,
        "timer": {},
        "request": [{"url": url}],
        "maxRetries": 0,
        **members,
    }


async def fill(service: Service, count: int = 300) -> None:
    """So many jobs, whose list is longer than what a connection buffers."""
    jobs = [
        {**job(f"many-{number}", "http://127.0.0.1:9/x"), "timer": {"period": "external"}}
        | {"jobDescription": "long " * 1_000}
        for number in range(count)
    ]
    answer = await service.run.ask("POST", "/jobs", json=jobs)
    assert answer.status_code == 200, answer.text


@asynccontextmanager
async def open_service(
    folder: Path,
    *,
    limits: Limits | None = None,
    settings: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[Service]:
    """A service over `folder`, with `settings` by their dotted names; it is killed afterwards.

    Whatever was done to it: where it still runs then, none of its processes has used 300 MiB.
    """
    run = start_run(
        folder, limits=dict(limits or {}), settings=dict(settings or {}), environ=dict(environ or {})
    )
    assert await run.is_up(), run.message
    service = Service(run)
    try:
        yield service
        if run.code is None:
            peak = service.peak_memory()
            assert peak < MEMORY_MIB, f"{peak:.0f} MiB"
    finally:
        await run.kill()
