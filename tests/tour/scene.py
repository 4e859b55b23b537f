"""A service in a process of its own, its target, the receiver of its alerts, and who watches all that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.attack.service import Service, open_service
from tests.faults.processes import Run
from tests.faults.target import Target, open_target
from tests.ports import free_port
from tests.tour.watch import HOOK, Watch


class Scene:
    """Where an incident happens; `watch` sees it."""

    def __init__(self, *, service: Service, target: Target) -> None:
        self.service = service
        self.target = target
        self.watch = Watch(service=service.run, target=target, lines=service.logged)

    @property
    def run(self) -> Run:
        """The process, and what asks it."""
        return self.service.run

    async def create(self, job_id: str, url: str, **members: Any) -> None:
        """A job of one step that is not retried; fired by triggers alone unless `members` say otherwise."""
        await self.service.create(_definition(job_id, url, **members))

    async def update(self, job_id: str, url: str, **members: Any) -> None:
        """The same job with another definition."""
        definition = _definition(job_id, url, **members)
        answer = await self.run.ask("POST", f"/jobs/{job_id}/update", json=definition)
        assert answer.status_code == 200, answer.text

    async def trigger(self, job_id: str, body: object = None) -> str:
        """Triggers a job; the id of the execution."""
        answer = await self.run.ask("POST", f"/jobs/{job_id}/trigger", json=body or {})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["data"]["executionId"])


def _definition(job_id: str, url: str, **members: Any) -> dict[str, Any]:
    return {
        "jobId": job_id, "jobName": job_id, "creator": "1", "creatorName": "one", "maxRetries": 0,
        "timer": {"period": "external"}, "request": [{"url": url}], **members,
    }  # fmt: skip


@asynccontextmanager
async def scene(folder: Path, *on: str, **settings: Any) -> AsyncIterator[Scene]:
    """A service with one alert for what is in `on`; `settings` with `__` for the dot.

    Members of the alert come as `alert`. The target is the service `receiver`, too.
    """
    alert = {"name": "ops", "on": list(on), "minIntervalSeconds": 0, **settings.pop("alert", {})}
    async with open_target() as target:
        given = {name.replace("__", "."): value for name, value in settings.items()}
        given["services.static"] = {"receiver": [target.url]}
        given["alerts"] = [{"url": f"{target.url}{HOOK}", **alert}]
        async with open_service(folder, settings=given) as service:
            yield Scene(service=service, target=target)


class Address:
    """An address on loopback at which nobody listens, until somebody does."""

    def __init__(self) -> None:
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"

    @asynccontextmanager
    async def served_by(self, target: Target) -> AsyncIterator[None]:
        """The target is there, too."""
        server = await asyncio.start_server(target.take, "127.0.0.1", self.port)
        try:
            yield
        finally:
            server.close()
