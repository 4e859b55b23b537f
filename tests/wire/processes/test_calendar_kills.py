"""Jobs over a calendar in processes that are killed between a change and its telling (SPEC section 3)."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from client_sdk import Client
from client_sdk.errors import Conflict
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.tables.key_secret_calendar_tables import SqlCalendarTable
from scheduler_service.system_jobs.calendar_rounds import TAKEN_OVER_MS
from tests.wire.processes.process import serve

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]
JOBS = [f"shop-{number}" for number in range(4)]
EACH_DAY, NO_DAY = [1, 2, 3, 4, 5, 6, 7], list[int]()
PATIENCE = 60.0


async def create(client: Client) -> None:
    """Jobs that would fire each second, on days that there are not."""
    await client.calendars.put("office", {"week": NO_DAY})
    timer = {"period": "* * * * * ?", "calendar": "office"}
    step = {"method": "GET", "url": f"{client.url}/health/live"}
    for job_id in JOBS:
        definition = {"jobName": job_id, "timer": timer, "request": [step]}
        made = await client.jobs.create(definition, job_id=job_id)
        assert made.next_fire_time is None


async def await_more(client: Client) -> None:
    """Returns when each job has fired more often than before."""
    before = {job_id: (await client.jobs.get(job_id)).execute_number for job_id in JOBS}
    deadline = time.monotonic() + PATIENCE
    for job_id in JOBS:
        while (await client.jobs.get(job_id)).execute_number <= before[job_id]:
            assert time.monotonic() < deadline, job_id


async def await_rest(client: Client) -> None:
    """Returns when none is planned any more."""
    for job_id in JOBS:
        while (await client.jobs.get(job_id)).next_fire_time is not None:
            pass


async def change_untold(folder: Path) -> None:
    """The change of a process that died before it told a job."""
    database = HistoryDatabase(url=f"sqlite:///{folder / 'data' / 'history.db'}", durability="process")
    table = SqlCalendarTable(database=database)
    changed_at = round(time.time() * 1_000) - TAKEN_OVER_MS
    await table.put("default", "office", json.dumps({"week": EACH_DAY}).encode(), changed_at)
    await table.close()
    database.close()


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_change_is_followed_over_a_kill(workers: int, tmp_path: Path) -> None:
    """By jobs of every process; what a killed one has not told is told by who comes after it."""

    @asynccontextmanager
    async def served() -> AsyncIterator[Client]:
        """A service that is killed in the end."""
        with serve(tmp_path / "data", "--workers", str(workers)) as process:
            async with Client(await asyncio.to_thread(process.wait_for_url)) as client:
                yield client

    async with served() as client:
        await create(client)
        await client.calendars.put("office", {"week": EACH_DAY})
        await await_more(client)
        await client.calendars.put("office", {"week": NO_DAY})
        await await_rest(client)
    await change_untold(tmp_path)
    async with served() as client:
        await await_more(client)
        with pytest.raises(Conflict):
            await client.calendars.delete("office")
