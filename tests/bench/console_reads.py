"""What a console asks: `python -m tests.bench.console_reads [executions] [jobs]`. Milliseconds of each read.

Fills a data folder of its own with a day of executions (of 5 % that failed) and so many jobs, on the way that
the service takes, and reads each thing 15 times, through the code below the API. Nothing else runs beside it.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from scheduler_service.domain.document import Latest
from scheduler_service.domain.execution import ExecutionState, JobState
from scheduler_service.domain.moments import DAY, MINUTE, Due
from scheduler_service.persistence.history.coalesce import Rows
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.queries import ExecutionQuery, SeriesQuery
from scheduler_service.persistence.history.reads import HistoryReads
from scheduler_service.persistence.history.statements import insert_rows, write_together
from scheduler_service.persistence.sql.expressions import Row
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.catalogue import CatalogueEntry, JobQuery, LastOutcome
from scheduler_service.ports.state import Commit
from tests.bench.stage import show

BEGIN = 20_700 * DAY
TIMES = 15
GROUP = 2_000
TENANT = "default"

Read = Callable[[], Awaitable[object]]


def main(executions: int = 1_000_000, jobs: int = 10_000) -> None:
    """Prints of each read the least CPU, the median and the longest time, in ms."""
    with tempfile.TemporaryDirectory(prefix="punctual-reads-") as folder:
        asyncio.run(_measure(Path(folder), executions, jobs))


async def _measure(folder: Path, executions: int, jobs: int) -> None:
    began = time.monotonic()
    database = HistoryDatabase(url=f"sqlite:///{folder}/history.db", durability="process")
    fill_history(database, executions, jobs)
    store = await SqliteStateStore.open(folder=folder / "data")
    await fill_jobs(store, jobs)
    show("filled", {"executions": executions, "jobs": jobs, "seconds": round(time.monotonic() - began)})
    reads = HistoryReads(database=database)
    for name, read in {**_history_reads(reads, jobs), **_job_reads(store)}.items():
        show(name, await _time(read))
    await reads.close()
    await store.close()
    database.close()


def fill_history(database: HistoryDatabase, executions: int, jobs: int) -> None:
    """A day of executions, evenly spread over the day and the jobs."""
    dice = random.Random(1)
    for start in range(0, executions, GROUP):
        numbers = range(start, min(start + GROUP, executions))
        rows = [_execution(n, BEGIN + n * DAY // executions, n % jobs, n // jobs + 1, dice) for n in numbers]
        with database.writing() as connection:
            insert_rows(database.dialect, connection, Rows(rows, [], [], []), write_executions=write_together)


def _execution(sequence: int, planned: int, job: int, number: int, dice: random.Random) -> Row:
    error = dice.choice(("500", "timeout", "refused")) if dice.random() < 0.05 else None
    failure = None if error is None else "http"
    state = "succeeded" if error is None else "terminated"
    started = planned + dice.randrange(30)
    ended = started + dice.randrange(5, 30) * dice.randrange(1, 60)
    times = (planned, planned, started, ended)
    life = (f"{job:032x}", number, f"job-{job}", TENANT, sequence, 1)
    return (*life, state, "timer", *times, None, error, failure, 1, None, bytearray(b"{}"), 1)


async def fill_jobs(store: SqliteStateStore, jobs: int) -> None:
    """Jobs with labels, one in a hundred of which failed last, one in twenty paused."""
    for start in range(0, jobs, GROUP):
        await asyncio.gather(*(store.commit(_job(n)) for n in range(start, min(start + GROUP, jobs))))


def _job(number: int) -> Commit:
    state = ExecutionState.TERMINATED if number % 100 == 0 else ExecutionState.SUCCEEDED
    entry = CatalogueEntry(
        job_id=f"job-{number}",
        uid=f"{number:032x}",
        tenant=TENANT,
        job_name=f"Report {number} of the night",
        object_id=None,
        creator=f"person-{number % 50}",
        kind="cron",
        state=JobState.PAUSED if number % 20 == 0 else JobState.ACTIVE,
        revision=1,
        labels={"team": f"team-{number % 40}", "stage": "live"},
        parent_job=None,
        parent_execution=None,
        next_fire=BEGIN + DAY + number,
        execute_number=100,
        request_counts=100,
        missed=0,
        latest=msgspec.json.encode(Latest(100, state, None)),
        created_at=BEGIN,
        updated_at=BEGIN,
    )
    return Commit(entry=entry, expected=0, sequence=1, document=b"d" * 900, due=Due(), definition=b"x" * 400)


def _history_reads(reads: HistoryReads, jobs: int) -> dict[str, Read]:
    day = {"planned_from": BEGIN, "planned_to": BEGIN + DAY}
    some = frozenset(f"job-{n}" for n in range(100))
    page = [f"job-{n * 7 % jobs}" for n in range(100)]

    def count(**filters: object) -> Read:
        return lambda: reads.counts(ExecutionQuery(tenant=TENANT, **filters))  # type: ignore[arg-type]

    def series(**filters: object) -> Read:
        executions = ExecutionQuery(tenant=TENANT, **filters)  # type: ignore[arg-type]
        query = SeriesQuery(executions=executions, first=BEGIN, last=BEGIN + DAY - 1, width=15 * MINUTE)
        return lambda: reads.series(query)

    return {
        "outcomes, 100 jobs, 20 each": lambda: reads.outcomes(TENANT, page, 20),
        "executions counted, a day": count(**day),
        "executions counted, all": count(),
        "executions counted, one job": count(job_id="job-7"),
        "executions counted, one error": count(error="500", **day),
        "executions counted, 100 jobs": count(job_ids=some, **day),
        "series, a day": series(),
        "series, a day, one job": series(job_id="job-7"),
        "series, a day, 100 jobs": series(job_ids=some),
        "series, a day, one error": series(error="500"),
    }


def _job_reads(store: SqliteStateStore) -> dict[str, Read]:
    def count(**filters: object) -> Read:
        return lambda: store.catalogue.tally(JobQuery(tenant=TENANT, **filters))  # type: ignore[arg-type]

    def page(**filters: object) -> Read:
        return lambda: store.catalogue.list(JobQuery(tenant=TENANT, limit=100, **filters))  # type: ignore[arg-type]

    return {
        "jobs counted, all": count(),
        "jobs counted, text": count(text="person-7"),
        "jobs counted, label": count(labels=(("team", "team-7"),)),
        "jobs listed, failed last": page(last_outcome=LastOutcome.TERMINATED),
        "jobs listed, none such": page(last_outcome=LastOutcome.CANCELLED),
        "jobs listed, text of a label": page(text="team-39"),
    }


async def _time(read: Read) -> dict[str, float]:
    spent, cpu = [], []
    for _ in range(TIMES):
        began, worked = time.perf_counter(), time.process_time()
        await read()
        spent.append((time.perf_counter() - began) * 1_000)
        cpu.append((time.process_time() - worked) * 1_000)
    spent.sort()
    return {"cpu": round(min(cpu), 1), "median": round(spent[TIMES // 2], 1), "longest": round(spent[-1], 1)}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
