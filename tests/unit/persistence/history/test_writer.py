"""The writer: merging, repetition, confirmation, and what it does when the disk is full."""

import asyncio
import sys
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from scheduler_service.domain.records import (
    AttemptStarted,
    CheckEnded,
    DeliveryRecord,
    FeedbackSeen,
    Noted,
    Record,
    StepEnded,
)
from scheduler_service.persistence.history.queries import ExecutionQuery
from scheduler_service.persistence.history.record_buffer import RECORD_BYTES, Load, weigh
from scheduler_service.persistence.history.writer import (
    BEHIND_BYTES,
    BUSY_BATCHES,
    FLUSH_INTERVAL_SECONDS,
    FULL_BATCHES,
    PAUSES_SECONDS,
    flush_interval_after,
)
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.telemetry.metrics.metric_list import STORE_UP
from tests.unit.persistence.history.conftest import MakeRoom, Room
from tests.unit.persistence.history.reading import count
from tests.unit.persistence.history.samples import START, attempt, batch, exchange, execution

pytestmark = pytest.mark.anyio
EVERYTHING = ExecutionQuery(tenant="default")
LONG_NOTE = "x" * 40_000


class Commits:
    """Counts commits."""

    count = 0

    def before(self, point: str) -> None:
        """Nothing has happened yet."""

    def after(self, point: str) -> None:
        """One more."""
        self.count += 1


class Gate:
    """Commits wait for a permit each."""

    def __init__(self) -> None:
        self.arrivals = threading.Semaphore(0)
        self.permits = threading.Semaphore(0)

    def before(self, point: str) -> None:
        """A commit waits."""
        self.arrivals.release()
        assert self.permits.acquire(timeout=20)

    def after(self, point: str) -> None:
        """It is done."""

    async def wait_for_one(self) -> None:
        """Returns when a commit waits."""
        assert await asyncio.to_thread(self.arrivals.acquire, timeout=20)

    async def pass_one(self) -> None:
        """Lets the first commit that waits go on."""
        await self.wait_for_one()
        self.permits.release()


def append_load(room: Room, ended: int = BUSY_BATCHES) -> None:
    """So many executions that have ended, behind one that has begun, all durable."""
    room.writer.append(batch(1_000, execution(1_000)), durable=True)
    for number in range(ended):
        record = execution(number, "succeeded", ended_at=START)
        room.writer.append(batch(number, record, uid="u2"), durable=True)


def note(number: int, text: str = "a line") -> Noted:
    return Noted(execute_number=number, at=START, kind="note", text=text)


def read_pages(connection: sa.Connection) -> int:
    pages: int = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    return pages


def test_a_busy_writer_gathers_for_longer() -> None:
    """Within a second in any case (SPEC section 10), and soon where there is little to do."""
    assert flush_interval_after(1, FLUSH_INTERVAL_SECONDS) == FLUSH_INTERVAL_SECONDS
    busy = flush_interval_after(BUSY_BATCHES, FLUSH_INTERVAL_SECONDS)
    assert busy > FLUSH_INTERVAL_SECONDS
    assert 2 * busy < 0.9  # an execution that has begun is left for a second load


async def test_the_first_load_of_a_burst_is_gathered_as_the_later_ones(make_room: MakeRoom) -> None:
    """So what begins with it and ends soon after is one row; who asks meanwhile gets it at once."""
    seconds, gate = 0.25, Gate()
    room = make_room(flush_seconds=seconds, faults=gate)
    began = time.monotonic()
    append_load(room)
    await gate.pass_one()
    assert time.monotonic() - began >= flush_interval_after(BUSY_BATCHES, seconds)
    gate.permits.release()


async def test_a_reader_ends_the_gathering_of_a_first_load(make_room: MakeRoom) -> None:
    """Also where it is long: the service was at rest before."""
    room = make_room(flush_seconds=600)
    append_load(room)
    await room.writer.flush()
    assert len(room.confirmed) == BUSY_BATCHES + 1


async def test_readers_at_the_same_time_share_one_write(make_room: MakeRoom) -> None:
    """A flush is not a write: those who ask together wait for the same one, and one of nothing for none."""
    commits = Commits()
    room = make_room(faults=commits)
    for number in range(1, 4):
        room.writer.append(batch(number, execution(number)), durable=True)
    await asyncio.gather(*(room.writer.flush() for _ in range(50)))
    await asyncio.gather(*(room.writer.flush() for _ in range(50)))
    assert commits.count == 1
    assert await count(room, "executions") == 3


async def test_a_reader_hurries_a_writer_at_rest_alone(make_room: MakeRoom) -> None:
    """Under load its records wait for the usual interval: each execution is not written twice for readers."""
    room = make_room(flush_seconds=600)
    for number in range(1, BUSY_BATCHES + 1):
        room.writer.append(batch(number, execution(number)), durable=False)
    await room.writer.flush()
    room.writer.append(batch(1_000, execution(1_000)), durable=False)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await room.writer.flush()
    newest = ExecutionQuery(tenant="default", limit=1)
    assert [one["executeNumber"] for one in (await room.reads.executions(newest)).items] == [BUSY_BATCHES]
    await room.writer.close()
    assert [one["executeNumber"] for one in (await room.reads.executions(newest)).items] == [1_000]


async def test_a_reader_under_load_waits_for_no_long_gathering(make_room: MakeRoom) -> None:
    """Of two busy writers the one that is asked writes first, and need not wait for the interpreter."""
    usual = sys.getswitchinterval()
    asked, other = (make_room(flush_seconds=1) for _ in range(2))
    for room in (other, asked):
        append_load(room)
        await room.writer.flush()
        room.writer.append(batch(2_000, execution(2_000)), durable=True)
    flushing = asyncio.create_task(asked.writer.flush())
    await asyncio.sleep(0)
    assert sys.getswitchinterval() < usual
    await flushing
    assert ("u1", 2_000) in asked.confirmed
    assert ("u1", 2_000) not in other.confirmed
    assert sys.getswitchinterval() == usual


async def test_under_load_an_execution_waits_for_its_end(make_room: MakeRoom) -> None:
    """It is confirmed with the row that says how it ended, and waits for one load, not longer."""
    gate = Gate()
    room = make_room(faults=gate)
    append_load(room)
    room.writer.append(batch(1_001, execution(1_001)), durable=True)
    await gate.pass_one()
    await gate.wait_for_one()
    assert {("u1", 1_000), ("u1", 1_001)}.isdisjoint(room.confirmed)
    assert len(room.confirmed) == BUSY_BATCHES
    for _ in range(2):  # the commit that waits, and that of `perform`
        gate.permits.release()
    await room.writer.perform(lambda _connection: None)
    assert room.confirmed[BUSY_BATCHES:] == [("u1", 1_000), ("u1", 1_001)]


async def test_who_asks_while_a_load_is_written_gets_what_waits_for_its_end(make_room: MakeRoom) -> None:
    """What was carried over when the reader came is written before it reads."""
    gate = Gate()
    room = make_room(faults=gate)
    append_load(room)
    await gate.wait_for_one()
    reading = asyncio.create_task(room.writer.flush())
    await asyncio.sleep(0)
    gate.permits.release()
    await gate.wait_for_one()
    assert not reading.done()
    gate.permits.release()
    await reading
    assert ("u1", 1_000) in room.confirmed


async def test_a_close_writes_what_was_left(make_room: MakeRoom) -> None:
    """An execution that has begun waits no longer than for the end of the service."""
    gate = Gate()
    room = make_room(flush_seconds=600, faults=gate)
    append_load(room, FULL_BATCHES)
    await gate.pass_one()
    gate.permits.release()
    await room.writer.close()
    assert len(room.confirmed) == FULL_BATCHES + 1


async def test_a_repetition_does_nothing(room: Room) -> None:
    """Inserted by (uid, sequence): the same batches again, alone or together, change nothing."""
    started, step, ended = attempt(1, 1)
    first = batch(1, execution(), started)
    second = batch(2, execution(state="succeeded"), step, ended, note(1))
    room.writer.append(first, durable=True)
    await room.writer.flush()
    before = None
    for batches in ([first, second], [second], [second, first], [first]):
        for one in batches:
            room.writer.append(one, durable=True)
        await room.writer.flush()
        found = await room.reads.execution("default", "u1-1")
        log = await room.reads.log("default", "u1-1")
        assert before in (None, (found, log))
        before = (found, log)
    assert found is not None
    assert [len(one["steps"]) for one in found["attempts"]] == [1]  # type: ignore[attr-defined]


async def test_a_full_disk_keeps_everything_and_recovers(file_room: Room) -> None:
    """Nothing durable is lost: what cannot be written is said, kept and written later."""
    writer = file_room.writer
    pages = await writer.perform(
        lambda connection: connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    )
    await writer.perform(lambda connection: connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 2}"))
    for number in range(1, 11):
        writer.append(batch(number, execution(number), note(number, LONG_NOTE)), durable=True)
    with pytest.raises(StoreUnavailable, match="full"):
        await writer.flush()
    assert file_room.confirmed == []
    await writer.perform(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count=100000"))
    writer.append(batch(11, execution(11)), durable=True)
    await writer.flush()
    assert file_room.troubles[-1] is None
    assert file_room.troubles[0] is not None
    assert sorted(file_room.confirmed) == [("u1", number) for number in range(1, 12)]
    assert await count(file_room, "executions") == 11
    assert await count(file_room, "entries") == 10


async def test_it_is_down_while_the_last_write_failed(file_room: Room) -> None:
    """Be it of records or of clean-up: on a full disk there may be no records, as no job can begin."""

    def is_up() -> float:
        return next(one.value for one in writer.samples() if one.family == STORE_UP.name)

    def refuse(connection: object) -> None:
        raise StoreUnavailable("the disk is full")

    writer = file_room.writer
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await writer.perform(refuse)
        assert is_up() == 0
    await writer.perform(lambda connection: None)
    assert is_up() == 1
    with pytest.raises(StoreUnavailable):
        await writer.perform(refuse)
    writer.append(batch(1, execution(1)), durable=True)
    await writer.flush()
    assert is_up() == 1
    assert max(PAUSES_SECONDS) <= 2  # so soon it goes on when the disk has room


@pytest.mark.parametrize("is_full", [False, True])
async def test_it_is_behind_while_much_waits_that_can_be_written(file_room: Room, is_full: bool) -> None:
    """On a full disk nothing can: nobody waits for it."""
    writer, gate = file_room.writer, threading.Event()
    if is_full:
        pages = await writer.perform(
            lambda connection: connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        )
        limit = f"PRAGMA max_page_count={pages}"
        await writer.perform(lambda connection: connection.exec_driver_sql(limit))
        writer.append(batch(1, execution(1), note(1, LONG_NOTE * 100)), durable=True)
        with pytest.raises(StoreUnavailable):
            await writer.flush()
    held = asyncio.ensure_future(writer.perform(lambda _: gate.wait(60)))
    before = writer.is_behind()
    params = b'"%s"' % (b"x" * (BEHIND_BYTES // 4))
    for number in range(2, 7):
        writer.append(batch(number, execution(number, params=params)), durable=True)
    after = writer.is_behind()
    gate.set()
    await held
    assert (before, after) == (False, not is_full)
    await writer.perform(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count=100000"))
    await writer.flush()
    assert not writer.is_behind()


async def test_a_full_queue_drops_detail_and_marks_it(make_room: MakeRoom) -> None:
    """SPEC section 12: under pressure detail goes first and is marked, the execution's own row never; durable
    batches keep everything."""
    room = make_room(pending_bytes=0)
    started = AttemptStarted(execute_number=1, request_counts=1, at=START)
    params = b'{"n":1}'
    room.writer.append(batch(1, execution(1, params=params), started), durable=False)
    room.writer.append(batch(2, execution(2, params=params), note(2)), durable=True)
    await room.writer.flush()
    dropped = await room.reads.execution("default", "u1-1")
    kept = await room.reads.execution("default", "u1-2")
    assert dropped is not None
    assert kept is not None
    assert (dropped["detail"], dropped["attempts"], kept["detail"]) == ("dropped", [], "kept")
    assert (dropped["params"], dropped["paramsComplete"]) == (None, False)
    assert (kept["params"], kept["paramsComplete"]) == ({"n": 1}, True)


async def test_close_writes_what_was_handed_over(make_room: MakeRoom) -> None:
    """After `close` everything lies in the file, and nothing more is taken.

    What is in the store as well is left there: its turn is done, and must not be said to have failed.
    """
    room = make_room()
    room.writer.append(batch(1, execution(1)), durable=True)
    await room.writer.close()
    assert len((await room.reads.executions(EVERYTHING)).items) == 1
    with pytest.raises(StoreUnavailable, match="closed"):
        room.writer.append(batch(2, execution(2)), durable=False)
    room.writer.append(batch(3, execution(3)), durable=True)
    assert len((await room.reads.executions(EVERYTHING)).items) == 1


async def test_close_on_a_full_disk_says_what_is_left(tmp_path: object) -> None:
    """`close` gives up after a try and says so: what was durable is still in the store's `unwritten`."""
    room = Room(f"sqlite:///{tmp_path}/history.db")
    await room.writer.perform(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count=1"))
    room.writer.append(batch(1, execution(1), note(1, LONG_NOTE)), durable=True)
    with pytest.raises(StoreUnavailable, match="1 batches"):
        await room.writer.close()
    assert room.confirmed == []
    await room.reads.close()
    room.database.close()


def test_the_process_ends_while_the_database_hangs(tmp_path: Path) -> None:
    """A close that is cancelled waits for the thread nowhere; a later one ends it as usual."""
    may_go_on = threading.Event()

    async def leave_it_hanging() -> Room:
        room = Room(f"sqlite:///{tmp_path}/history.db")
        loop, is_held = asyncio.get_running_loop(), asyncio.Event()

        def hang(_: sa.Connection) -> None:
            loop.call_soon_threadsafe(is_held.set)
            may_go_on.wait()

        tasks = [asyncio.create_task(room.writer.perform(hang))]
        await is_held.wait()
        tasks.append(asyncio.create_task(room.writer.close()))
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert tasks[1].cancelled()
        return room

    room = asyncio.run(leave_it_hanging())  # returns when no thread of the loop is at work any more
    may_go_on.set()
    asyncio.run(room.close())


async def test_work_that_fails_changes_nothing_and_raises(room: Room) -> None:
    """`perform` is all or nothing, and the writer goes on."""
    room.writer.append(batch(1, execution(1)), durable=True)
    await room.writer.flush()

    def fail(connection: sa.Connection) -> None:
        connection.exec_driver_sql("DELETE FROM executions")
        raise LookupError

    with pytest.raises(LookupError):
        await room.writer.perform(fail)
    assert await count(room, "executions") == 1


async def test_the_exchange_of_a_delivery_is_kept(room: Room) -> None:
    """SPEC section 10: every notification with masked headers and bodies."""
    record = DeliveryRecord("d1", 1, 1, "succeed", "http://127.0.0.1/n", "delivered", exchange=exchange())
    room.writer.append(batch(0, record), durable=False)
    await room.writer.flush()
    found = await room.reads.delivery("default", "d1")
    assert found is not None
    assert found["request"] == {
        "headers": {"X-One": "1", "X-Two": "a, b"},
        "body": '{"n":1}',
        "truncated": False,
    }
    assert await room.reads.delivery("other", "d1") is None


async def test_one_bad_record_stops_nobody(room: Room) -> None:
    """What no database can hold is named and changed, or left out; everything else is written."""
    half = "half a pair: \ud800"
    too_large = execution(4, planned_at=1 << 70)
    room.writer.append(batch(1, execution(1, error=half), note(1, half)), durable=True)
    room.writer.append(batch(2, execution(2), note(2)), durable=True)
    room.writer.append(batch(3, execution(3), Noted(3, 1 << 70, "note", "no such moment")), durable=True)
    room.writer.append(batch(4, too_large), durable=True)
    await room.writer.flush()
    found = await room.reads.execution("default", "u1-1")
    log = await room.reads.log("default", "u1-1")
    assert found is not None
    assert log is not None
    assert (found["error"], log.items[0]["text"]) == ("half a pair: ?",) * 2
    page = await room.reads.executions(EVERYTHING)
    assert [item["executeNumber"] for item in page.items] == [3, 2, 1]
    assert (len(room.changed), room.troubles) == (3, [])
    assert sorted(room.confirmed) == [("u1", number) for number in (1, 2, 3, 4)]


async def test_a_flush_that_is_cancelled_does_not_stop_the_writer(room: Room) -> None:
    """Who waited no longer matters to what is written."""
    for number in range(1, 4):
        room.writer.append(batch(number, execution(number)), durable=True)
        waiting = asyncio.ensure_future(room.writer.flush())
        await asyncio.sleep(0)
        waiting.cancel()
    await room.writer.flush()
    assert await count(room, "executions") == 3


CALL = exchange(request_body=b"12345", response_body=b"1234567")
DELIVERY = {"delivery_id": "d", "execute_number": 1, "request_counts": 1, "event": "e", "url": "u"}


@pytest.mark.parametrize(
    ("record", "bodies"),
    [
        (StepEnded(execute_number=1, request_counts=1, index=0, at=START, exchange=CALL), RECORD_BYTES + 12),
        (
            CheckEnded(execute_number=1, request_counts=1, serial=1, at=START, exchange=CALL),
            RECORD_BYTES + 12,
        ),
        (StepEnded(1, 1, 0, START, exchange(request_body=None, response_body=None)), RECORD_BYTES),
        (FeedbackSeen(execute_number=1, request_counts=1, at=START, body=b"123"), 3),
        (execution(params=b'{"n":1}'), 7),
        (execution(params=None), 0),
        (DeliveryRecord(**DELIVERY, state="pending"), 0),
        (DeliveryRecord(**DELIVERY, state="pending", exchange=CALL), RECORD_BYTES + 12),
        (AttemptStarted(execute_number=1, request_counts=1, at=START), 0),
        (Noted(execute_number=1, at=START, kind="note", text="a line"), 0),
    ],
)
def test_a_record_weighs_its_bodies_too(record: Record, bodies: int) -> None:
    """Each record as much as the next one, and with it the bodies that it brings; an exchange is one more."""
    assert weigh(batch(1, record)) == RECORD_BYTES + bodies
    assert weigh(batch(1, record, record)) == 2 * (RECORD_BYTES + bodies)


def test_a_load_weighs_what_is_durable_too() -> None:
    """Both kinds fill the memory; beyond the limit only what is not durable gives its detail away."""
    load = Load()
    note = Noted(execute_number=1, at=START, kind="note", text="a line")
    load.add(batch(1, note, execution()), durable=True, limit=1)
    load.add(batch(2, note, execution()), durable=False, limit=1)
    assert load.weight == 3 * RECORD_BYTES + 2 * len(b"{}")
    assert [len(one.records) for one in load.batches] == [2, 1]
    assert load.dropped == {("u1", 1)}
    assert [one.sequence for one in load.confirmed] == [1]


def test_nothing_is_left_where_detail_was_dropped() -> None:
    """The mark at an execution is written with its row."""
    load = Load()
    load.add(batch(1, Noted(execute_number=1, at=START, kind="note", text="a line")), durable=True, limit=1)
    load.add(batch(2, *attempt(1, 1), execution(1)), durable=False, limit=1)
    left = load.carry_over_open()
    assert left.batches == []
    assert load.complete_to == load.ticket == left.ticket == 2
