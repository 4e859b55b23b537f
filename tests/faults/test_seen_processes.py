"""What is seen of a service of three processes, one of which is killed or frozen: figures and events."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler_service.app.store_opening import shard_of
from tests.wire.event_stream import Frame, Stream
from tests.wire.metrics_text import Scraped, read_text
from tests.wire.processes.process import Process, serve
from tests.wire.target import Target

pytestmark = pytest.mark.timeout(300)
PATIENCE = 60.0
LOOK = 0.05
SHARDS = 3
EXECUTIONS = "punctual_executions_total"
UP = "punctual_process_up"


class Seen:
    """A service of three processes with a job in each, `job-SHARD`, and a caller."""

    def __init__(self, process: Process, client: httpx.AsyncClient) -> None:
        self.process = process
        self.client = client

    @property
    def workers(self) -> list[int]:
        """The ids of its worker processes, oldest first."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    async def ask(self, method: str, path: str, **options: Any) -> Any:
        """`data` of an answer."""
        answer = await self.client.request(method, path, **options)
        assert answer.status_code < 300, (path, answer.status_code, answer.text)
        return answer.json()["data"]

    async def run(self, shard: int) -> None:
        """One execution of the job of this shard."""
        await self.ask("POST", f"/jobs/{jobs()[shard]}/trigger")

    async def scrape(self) -> Scraped:
        """`/metrics`, by a real parser."""
        return read_text((await self.client.get("/metrics")).text)

    async def scraped(self, has: Callable[[Scraped], bool]) -> Scraped:
        """The first scrape of which `has` is true."""

        async def look() -> Scraped | None:
            found = await self.scrape()
            return found if has(found) else None

        found: Scraped = await until(look)
        return found

    @asynccontextmanager
    async def stream(self, after: str | None = None) -> AsyncIterator[Stream]:
        """The events of the whole service."""
        headers = {} if after is None else {"Last-Event-ID": after}
        async with self.client.stream("GET", "/events", headers=headers) as answer:
            assert answer.status_code == 200
            yield Stream(answer)


async def until(look: Callable[[], Awaitable[Any]]) -> Any:
    """The first answer that is true."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if found := await look():
                return found
            await asyncio.sleep(LOOK)


@asynccontextmanager
async def served(folder: Path, target: Target) -> AsyncIterator[Seen]:
    """A service that runs over the folder, with its jobs."""
    with serve(folder / "data", "--workers", str(SHARDS)) as process:
        url = await asyncio.to_thread(process.wait_for_url)
        await asyncio.to_thread(process.wait_for_line, '"ready"')
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as client:
            seen = Seen(process, client)
            for shard, name in jobs().items():
                job = {"jobName": name, "creator": "1", "creatorName": "one", "timer": {"period": "external"}}
                step = {"url": f"{target.url}/run/{shard}"}
                await client.post(f"/jobs/{name}", json={**job, "request": [step], "qos": 1})
            yield seen
            assert await asyncio.to_thread(process.stop) == 0


def jobs() -> dict[int, str]:
    """A job of each shard."""
    found: dict[int, str] = {}
    for number in range(100):
        found.setdefault(shard_of(SHARDS)(f"job-{number}"), f"job-{number}")
    return {shard: found[shard] for shard in range(SHARDS)}


@asynccontextmanager
async def three(folder: Path) -> AsyncIterator[Seen]:
    """A service over the folder, and its target."""
    async with Target(lambda: int(time.time() * 1_000)) as target, served(folder, target) as seen:
        yield seen


def away(found: Scraped) -> list[int]:
    """The processes that have not given their figures."""
    return [shard for shard in range(SHARDS) if found.value(UP, process=str(shard)) == 0]


def succeeded(found: Scraped, shard: int) -> float | None:
    """How many executions of this process have succeeded."""
    return found.value(EXECUTIONS, process=str(shard), outcome="succeeded", error="none")


@pytest.mark.long
async def test_one_scrape_shows_all_processes_and_which_of_them_stands_still(tmp_path: Path) -> None:
    """The figures of the others are there; those of `GET /stats` are of all jobs."""
    async with three(tmp_path) as seen:
        for shard in range(SHARDS):
            await seen.run(shard)
        found = await seen.scraped(
            lambda found: not away(found) and all(succeeded(found, shard) for shard in range(SHARDS))
        )
        assert [found.value(UP, process=str(shard)) for shard in range(SHARDS)] == [1, 1, 1]
        assert [succeeded(found, shard) for shard in range(SHARDS)] == [1, 1, 1]
        whole = await seen.ask("GET", "/stats")
        worker = seen.workers[-1]
        os.kill(worker, signal.SIGSTOP)
        try:
            # One that is only slow is away for a scrape, too: it is waited for until it is this one alone.
            found = await seen.scraped(lambda found: len(away(found)) == 1)
            (frozen,) = away(found)
            stats = await seen.ask("GET", "/stats")
        finally:
            os.kill(worker, signal.SIGCONT)
        assert stats["jobs"] == whole["jobs"]
        assert [succeeded(found, shard) for shard in range(SHARDS) if shard != frozen] == [1, 1]
        assert succeeded(found, frozen) is None


@pytest.mark.long
async def test_a_stream_goes_on_over_a_killed_worker_process(tmp_path: Path) -> None:
    """What happens in its successor comes on the same stream, without a gap."""
    async with three(tmp_path) as seen, seen.stream() as stream:
        await seen.run(1)
        before = await until_end(stream)
        os.kill(seen.workers[0], signal.SIGKILL)
        await asyncio.to_thread(seen.process.wait_for_line, '"worker_restarted"')
        for shard in range(SHARDS):
            await seen.run(shard)
        after: list[Frame] = []
        while {one["jobId"] for one in after if one.event == "finalSucceed"} != set(jobs().values()):
            after += await until_end(stream)  # what the crash shows once more too
        assert [frame.event for frame in before] == ["started", "finalSucceed"]
        assert "workerLost" in [frame.event for frame in after]
        assert "gap" not in [frame.event for frame in after]


@pytest.mark.long
async def test_who_comes_back_after_a_restart_is_told_of_the_gap_and_reads_on(tmp_path: Path) -> None:
    """The id of an earlier start is known for what it is: what happened meanwhile is not passed over."""
    async with Target(lambda: int(time.time() * 1_000)) as target:
        async with served(tmp_path, target) as seen, seen.stream() as stream:
            await seen.run(0)
            last = (await until_end(stream))[-1].id
        async with served(tmp_path, target) as seen, seen.stream(after=last) as stream:
            first = await stream.next()
            assert first.event == "gap"
            await seen.run(0)
            assert (await until_end(stream))[-1]["jobId"] == jobs()[0]


async def until_end(stream: Stream) -> list[Frame]:
    """The events up to the end of an execution, without those of jobs."""
    return [frame for frame in await stream.until("finalSucceed") if not str(frame.event).startswith("job")]
