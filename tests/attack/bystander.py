"""A bystander: a healthy target in its own process, whose job fires every 100 ms whoever is attacked."""

import asyncio
import math
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import groupby
from typing import Any

import httpx
import msgspec

from tests.attack.service import Service
from tests.faults.processes import PATIENCE, ROOT
from tests.faults.stories import TERMINAL

JOB = "bystander"
PERIOD = "0.1s"
MOST_UNANSWERED = 10
AT_ONCE = 1_000
"""Executions of it that may run at once: none is skipped because others are late."""


class Sight(msgspec.Struct):
    """What the witness has seen: when each firing was planned and came, how long `/health/live` took.

    All in ms, moments since the epoch; None: `/health/live` gave no 200.
    """

    arrivals: list[tuple[str, float]]
    health: list[tuple[float, float | None]]


class Bystander:
    """The job, its target, and what has become of both."""

    def __init__(self, service: Service, url: str) -> None:
        self.url = url
        self._service = service
        self._client = httpx.AsyncClient(timeout=PATIENCE, trust_env=False)

    async def look(self) -> Sight:
        """What the target has seen so far."""
        answer = await self._client.get(f"{self.url}/seen")
        return msgspec.json.decode(answer.content, type=Sight)

    async def until_more(self, count: int = 5) -> None:
        """Returns when `count` more calls have come to the target."""
        wanted = len((await self.look()).arrivals) + count

        async def is_there() -> bool:
            return len((await self.look()).arrivals) >= wanted

        await self._service.run.until(is_there, f"the bystander was called {count} times more")

    async def check(self) -> None:
        """Its firings still come, and all that have ended have succeeded."""
        await self.until_more()
        page = await self._service.run.read(f"/jobs/{JOB}/executions", limit=500)
        ended = [one for one in page["items"] if one["state"] in TERMINAL]
        assert [one for one in ended if one["state"] != "succeeded"] == []
        firings = await self._service.run.read(f"/jobs/{JOB}/firings", limit=500)
        assert [one for one in firings["items"] if one["outcome"] == "skipped"] == []

    async def close(self) -> None:
        await self._client.aclose()


def lateness(arrivals: Sequence[tuple[str, float]]) -> dict[str, float]:
    """`count`, and `p50_ms`, `p99_ms` and `max_ms` of arrival after planned moment."""
    late = sorted(at - datetime.fromisoformat(planned).timestamp() * 1000 for planned, at in arrivals)
    if not late:
        return {"count": 0}
    places = {"p50_ms": len(late) // 2, "p99_ms": math.ceil(len(late) * 0.99) - 1, "max_ms": len(late) - 1}
    return {"count": len(late), **{name: round(late[place], 1) for name, place in places.items()}}


def longest_silence(seen: Sight) -> int:
    """How many questions in a row had no answer, at most."""
    asked = sorted(seen.health, key=lambda one: one[0])
    runs = groupby(took is None for _, took in asked)
    return max((len(list(run)) for is_silent, run in runs if is_silent), default=0)


def _definition(url: str) -> dict[str, Any]:
    return {
        "jobId": JOB,
        "jobName": JOB,
        "timer": {"dueTime": "0s", "period": PERIOD, "misfire": {"policy": "fire_all"}},
        "request": [{"url": f"{url}/run", "headers": {"X-Planned": "${schedulingFireTime}"}}],
        "overlapPolicy": "allow",
        "maxConcurrency": AT_ONCE,
        "maxRetries": 0,
    }


@asynccontextmanager
async def open_bystander(service: Service) -> AsyncIterator[Bystander]:
    """A bystander whose job fires; its process is gone afterwards.

    Whatever was done meanwhile: of ten questions in a row, a second, `/health/live` has answered one or more.
    A single one may be lost: silent connections are closed for new ones, and it is as new as they are.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.attack.witness", service.url, stdin=PIPE, stdout=PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdin is not None
    port = int(await process.stdout.readline())
    bystander = Bystander(service, f"http://127.0.0.1:{port}")
    try:
        await service.create(_definition(bystander.url))
        await bystander.until_more()
        yield bystander
        if service.run.code is None:
            assert longest_silence(await bystander.look()) < MOST_UNANSWERED, "/health/live did not answer"
    finally:
        await bystander.close()
        process.stdin.close()
        await process.wait()
