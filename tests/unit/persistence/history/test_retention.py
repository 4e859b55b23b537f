"""Retention: by age, by count, by outcome, by size, and on request (SPEC sections 10 and 12)."""

import asyncio
import secrets
from typing import Any

import pytest
import sqlalchemy as sa

from scheduler_service.domain.execution import FiringOutcome
from scheduler_service.domain.moments import DAY, HOUR
from scheduler_service.domain.records import DeliveryRecord, FiringRecord, Noted, ResultKept
from scheduler_service.persistence.history.queries import DeliveryQuery, ExecutionQuery, FiringQuery
from scheduler_service.persistence.history.retention import WINDOW_ROWS, Removal, RemovedRows, Retention
from scheduler_service.persistence.history.row_merging import EXECUTIONS
from scheduler_service.persistence.history.schema import executions
from scheduler_service.ports.history import Batch
from tests.manual_clock import ManualClock
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.samples import START, attempt, batch, execution

pytestmark = pytest.mark.anyio


def ended(number: int, state: str = "succeeded", *, ended_at: int = START, **where: Any) -> Batch:
    """An execution with everything that belongs to it."""
    uid = where.get("uid", "u1")
    record = execution(number, state, ended_at=ended_at)
    firing = FiringRecord(record.planned_at, FiringOutcome.FIRED, execute_number=number)
    delivery = DeliveryRecord(f"{uid}-{number}", number, number, "succeed", "http://h/", "delivered")
    return batch(number, record, *attempt(number, number), firing, delivery, **where)


async def write(room: Room, *batches: Batch) -> None:
    for one in batches:
        room.writer.append(one, durable=False)
    await room.writer.flush()


async def numbers(room: Room, **filters: Any) -> list[object]:
    page = await room.reads.executions(ExecutionQuery(tenant="default", limit=500, **filters))
    return [item["executeNumber"] for item in page.items]


async def test_the_newest_executions_stay_whatever_their_age(room: Room) -> None:
    """SPEC section 12: by age, default five days, and by count per job, default ten."""
    await write(
        room,
        *(ended(n) for n in range(1, 15)),
        *(ended(n, uid="u2", job_id="other") for n in range(1, 4)),
    )
    removed = await Retention(writer=room.writer).run(START + 5 * DAY + 1)
    assert await numbers(room, job_id="job") == list(range(14, 4, -1))
    assert await numbers(room, job_id="other") == [3, 2, 1]
    assert removed == RemovedRows(executions=4, notifications=4, firings=4)
    assert await room.reads.execution("default", "u1-4") is None
    assert len((await room.reads.firings(FiringQuery(uid="u1"))).items) == 10
    assert len((await room.reads.deliveries(DeliveryQuery(tenant="default"))).items) == 13
    assert await Retention(writer=room.writer).run(START + 5 * DAY + 1) == RemovedRows()


async def test_what_is_young_or_has_not_ended_stays(room: Room) -> None:
    """Neither an execution within its age nor one that is still under way is removed."""
    await write(
        room,
        ended(1, ended_at=START + DAY),
        batch(2, execution(2, "processing")),
        batch(3, execution(3, "failed")),
        ended(4),
    )
    await Retention(writer=room.writer, count=0).run(START + 5 * DAY + 1)
    assert await numbers(room) == [3, 2, 1]


async def test_an_outcome_may_have_an_age_of_its_own(room: Room) -> None:
    """SPEC section 12: retention by outcome."""
    await write(room, ended(1), ended(2, "terminated"), ended(3))
    retention = Retention(writer=room.writer, count=0, age=DAY, ages={"terminated": 30 * DAY})
    await retention.run(START + 2 * DAY)
    assert await numbers(room) == [2]


async def test_missed_firings_go_by_age(room: Room) -> None:
    """The ledger's entries without an execution follow the age; those of kept executions stay."""
    missed = FiringRecord(START, FiringOutcome.SKIPPED, START + 9, 3, "misfire")
    await write(room, batch(1, missed), batch(9, missed, uid="u2", at=START + 4 * DAY), ended(5))
    await Retention(writer=room.writer).run(START + 5 * DAY + 100)
    assert [item["executionId"] for item in (await room.reads.firings(FiringQuery(uid="u1"))).items] == [
        "u1-5"
    ]
    assert len((await room.reads.firings(FiringQuery(uid="u2"))).items) == 1


async def test_many_are_removed_in_several_steps(file_room: Room) -> None:
    """Windows of all rows, one after the other, leave the newest of each job."""
    await write(file_room, ended(1))
    many = 2 * WINDOW_ROWS + 100

    def fill(connection: sa.Connection) -> None:
        columns = (executions.c[name] for name in EXECUTIONS.columns)
        row = connection.execute(sa.select(*columns)).one()._asdict()
        rows = ({**row, "execute_number": one, "created_at": START + one} for one in range(2, many + 1))
        dialect = file_room.database.dialect
        dialect.insert_many(connection, EXECUTIONS, [tuple(one.values()) for one in rows])

    await file_room.writer.perform(fill)
    removed = await Retention(writer=file_room.writer, count=3).run(START + 6 * DAY)
    assert removed.executions == many - 3
    assert await numbers(file_room) == [many, many - 1, many - 2]


async def test_under_pressure_detail_goes_first_and_is_marked(room: Room) -> None:
    """SPEC section 12: `history.max_bytes`: detail goes first and is marked `dropped`, the row never."""
    for number in range(1, 1_501):
        note = Noted(number, START, "note", "x" * 1_000)
        params = b"{}" if number == 1 else b'{"n":1}'
        row = execution(number, "succeeded", params=params)
        room.writer.append(batch(number, row, note, ResultKept(number, b"{}")), durable=False)
    await room.writer.flush()
    limit = await measured(room) * 2 // 3
    removed = await Retention(writer=room.writer, count=2_000, max_bytes=limit).run(START)
    assert 0 < removed.entries < 1_500
    assert await measured(room) <= limit
    oldest = await room.reads.execution("default", "u1-1")
    newest = await room.reads.execution("default", "u1-1500")
    assert oldest is not None
    assert newest is not None
    assert (oldest["detail"], newest["detail"]) == ("dropped", "kept")
    results = [await room.reads.result("default", f"u1-{number}") for number in (1, 1500)]
    assert [one and (one.dropped, one.result) for one in results] == [
        (True, None),
        (False, ResultKept(1500, b"{}")),
    ]
    recalled = [await room.reads.params("default", f"u1-{number}") for number in (1, 2, 1500)]
    assert recalled == [b"{}", None, b'{"n":1}']
    nothing = await Retention(writer=room.writer, max_bytes=1).run(START)
    assert nothing.executions == 0
    assert len(await numbers(room)) == 500


async def test_after_a_flood_the_file_is_short_again(file_room: Room) -> None:
    """All that nothing uses any more goes back to the disk in one pass; the next flood is held to it, too."""
    writer = file_room.writer
    for flood in range(2):
        for number in range(flood * 500 + 1, flood * 500 + 501):
            note = Noted(number, START, "note", secrets.token_hex(30_000))
            writer.append(batch(number, execution(number, "succeeded"), note), durable=False)
        await writer.flush()
        assert await measured(file_room) > 10 * LIMIT
        await Retention(writer=writer, count=2_000, max_bytes=LIMIT).run(START)
        assert await measured(file_room) <= LIMIT
        assert await writer.perform(size_of_file) <= LIMIT


async def test_under_steady_writers_the_bound_is_held(file_room: Room) -> None:
    """Pass after pass, an hour apart, while others write: beyond it is at most what came meanwhile."""
    writer, clock = file_room.writer, ManualClock(wall=START)
    retention = Retention(writer=writer, count=100_000, max_bytes=BOUND)
    written, enough = 0, asyncio.Event()

    async def write_on(end: asyncio.Event) -> None:
        # The rows of executions stay, so that the bound has to leave room for those of this test.
        nonlocal written
        while not end.is_set():
            written += 1
            note = Noted(written, clock.now().wall, "note", secrets.token_hex(5_000))
            writer.append(batch(written, execution(written, "succeeded"), note), durable=False)
            await writer.flush()
            await asyncio.sleep(0)
            if written % 200 == 0:
                enough.set()

    for _ in range(8):
        end = asyncio.Event()
        writing = asyncio.gather(write_on(end), write_on(end))
        await enough.wait()
        enough.clear()
        before = written
        await retention.run(clock.now().wall)
        end.set()
        await writing
        await writer.flush()
        meanwhile = (written - before) * 12_000
        assert await measured(file_room) <= BOUND + meanwhile
        clock.advance(HOUR)
    await retention.run(clock.now().wall)
    assert await measured(file_room) <= BOUND
    counted = await writer.perform(lambda connection: connection.exec_driver_sql(COUNT).scalar_one())
    assert counted == written


BOUND = 4 << 20
COUNT = "SELECT count(*) FROM executions"
LIMIT = 1 << 20


async def measured(room: Room) -> int:
    """The bytes that the history uses."""
    return await room.writer.perform(Removal(room.database.dialect).measure)


def size_of_file(connection: sa.Connection) -> int:
    """The bytes of the file, used or not."""
    names = ("page_count", "page_size")
    count, size = (int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()) for name in names)
    return count * size


async def test_clean_removes_destroyed_lives_and_trims_the_living(room: Room) -> None:
    """SPEC section 10: `DELETE /main/schedule/clean` answers what it removed."""
    missed = FiringRecord(START, FiringOutcome.SKIPPED, START + 9, 3, "misfire")
    await write(
        room,
        *(ended(n) for n in range(1, 6)),
        *(ended(n, uid="gone", job_id="old") for n in range(1, 4)),
        batch(9, missed, uid="gone", job_id="old"),
        batch(4, execution(4, "cancelled"), uid="gone", job_id="old"),
        *(ended(n, uid="u3", tenant="elsewhere") for n in range(1, 4)),
    )
    retention = Retention(writer=room.writer)
    removed = await retention.clean(retain=2, destroyed=["gone", "never"], tenant="default")
    assert removed == {"jobs": 1, "executions": 3 + 4, "notifications": 3 + 3}
    assert await numbers(room) == [5, 4]
    assert (await room.reads.firings(FiringQuery(uid="gone"))).items == []
    elsewhere = await room.reads.executions(ExecutionQuery(tenant="elsewhere"))
    assert len(elsewhere.items) == 3
    spared = await retention.clean(retain=2, spared=["job"])
    assert spared == {"jobs": 0, "executions": 0, "notifications": 0}
    assert await retention.clean(retain=2) == {"jobs": 0, "executions": 1, "notifications": 1}


async def test_executions_of_the_system_are_none_of_the_tenant_s(room: Room) -> None:
    """They neither count for the most that `default` keeps nor go by it; those of other tenants do."""
    await write(
        room,
        *(ended(n) for n in range(1, 5)),
        *(ended(n, uid="u2", job_id="outbox") for n in range(11, 31)),
        *(ended(n, uid="u3", job_id="outbox", tenant="elsewhere") for n in range(1, 5)),
    )
    retention = Retention(writer=room.writer, count=50, most_of=lambda _: 3, system_jobs={"outbox"})
    assert (await retention.run(START)).executions == 2
    assert await numbers(room, job_id="job") == [4, 3, 2]
    assert await numbers(room, job_id="outbox") == list(range(30, 10, -1))


async def test_lives_are_found_up_to_the_last_number(room: Room) -> None:
    """Numbers go on from life to life: those before count, one that began since then does not
    (SPEC section 10)."""
    await write(
        room,
        *(ended(n, uid="first") for n in range(1, 4)),
        *(ended(n, uid="second") for n in range(4, 6)),
        *(ended(n, uid="since") for n in range(6, 8)),
        *(ended(n, uid="other", job_id="other") for n in range(1, 4)),
        *(ended(n, uid="elsewhere", tenant="elsewhere") for n in range(1, 4)),
    )
    lives = await Retention(writer=room.writer).lives("default", {"job": 5, "never": 9})
    assert sorted(lives) == ["first", "second"]
