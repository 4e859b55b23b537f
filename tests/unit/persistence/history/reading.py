"""Executions in the history, and their pages."""

from collections.abc import Iterable
from typing import Any

from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.moments import DAY
from scheduler_service.domain.records import (
    AttemptEnded,
    AttemptStarted,
    CheckEnded,
    DeliveryRecord,
    DeliveryTry,
    FeedbackSeen,
    Noted,
    StepEnded,
)
from scheduler_service.persistence.history.day_statistics import DayQuery
from scheduler_service.ports.history import Batch
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.samples import START, batch, exchange, execution


async def write(room: Room, *batches: Any) -> None:
    for one in batches:
        room.writer.append(one, durable=False)
    await room.writer.flush()


async def write_one_of_everything(room: Room) -> None:
    check = CheckEnded(1, 7, 1, START + 1_300, exchange(method="GET"), status="", progress="1/2")
    refused = exchange(status=None, fault="refused", response_headers=(), response_body=None)
    await write(
        room,
        batch(1, execution(attempt_count=1), AttemptStarted(1, 7, START + 1_010)),
        batch(2, StepEnded(1, 7, 0, START + 1_100, exchange(), resp_env_name="first")),
        batch(3, StepEnded(1, 7, 1, START + 1_200, refused, error="500")),
        batch(
            4, check, FeedbackSeen(1, 7, START + 1_400, b'{"status":"failed","progress":"30%"}', stale=True)
        ),
        batch(5, Noted(1, START + 1_500, "recovered", "went on after a crash", 7, 1)),
        batch(
            6,
            AttemptEnded(1, 7, START + 1_600, "500", FailureType.CONNECT, "refused", 2_000),
            execution(state="terminated", ended_at=START + 1_700, error="500", reason="failed"),
        ),
        batch(
            0,
            DeliveryRecord(
                "d1",
                1,
                7,
                "finalFailed",
                "http://127.0.0.1/n",
                "failed",
                name="ops",
                created_at=START + 1_700,
                tries=(
                    DeliveryTry(START + 1_800, fault="timeout", duration=50),
                    DeliveryTry(START + 9_000, 500),
                ),
            ),
        ),
    )


async def count(room: Room, table: str) -> int:
    return await room.writer.perform(
        lambda connection: connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()
    )


def plans(room: Room, statements: Iterable[tuple[str, Any]], table: str) -> list[list[str]]:
    """How each of these statements that reads a table of SQLite reads it."""
    asked = [one for one in statements if f"FROM {table}" in one[0]]
    with room.database.reading() as connection:
        return [
            [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)]
            for text, values in asked
        ]


TODAY = START // DAY


def ended(number: int, state: str = "succeeded", *, sequence: int | None = None, **changes: Any) -> Batch:
    """The turn that ended an execution: 20 ms late, after 100 ms, one attempt."""
    life = {name: changes.pop(name) for name in ("uid", "job_id", "tenant") if name in changes}
    planned = changes.pop("planned_at", START + number)
    times = {"planned_at": planned, "started_at": planned + 20, "ended_at": planned + 120, "attempt_count": 1}
    return batch(
        number if sequence is None else sequence, execution(number, state, **times | changes), **life
    )


async def days_of(room: Room, *job_ids: str, first: int = TODAY - 500, last: int = TODAY + 500) -> Any:
    """The statistics of these jobs, or the sum over all."""
    jobs = frozenset(job_ids) or None
    return await room.reads.days(DayQuery(tenant="default", first=first, last=last, job_ids=jobs))


async def counted(room: Room, *job_ids: str) -> int:
    """How many executions are in them."""
    number: int = (await days_of(room, *job_ids))["total"]["executions"]
    return number
