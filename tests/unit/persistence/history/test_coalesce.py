"""Records of many turns become the fewest rows."""

import pytest

from scheduler_service.domain.execution import FiringOutcome
from scheduler_service.domain.records import DeliveryRecord, DeliveryTry, FiringRecord
from scheduler_service.persistence.history.coalesce import coalesce
from scheduler_service.persistence.history.queries import DeliveryQuery, FiringQuery
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.samples import START, attempt, batch, execution

pytestmark = pytest.mark.anyio


def test_a_short_execution_is_one_row_of_each_table() -> None:
    """Short executions become one insert, not three updates."""
    started, step, ended = attempt(1, 1)
    rows = coalesce([batch(2, execution(), started), batch(3, execution(state="succeeded"), step, ended)])
    assert len(rows.executions) == len(rows.entries) == 1
    assert "succeeded" in rows.executions[0]
    assert rows.entries[0][2:4] == (2, 3)


def test_merging_takes_the_highest_sequence_whatever_the_order() -> None:
    """The execution's record with the highest sequence counts."""
    rows = coalesce([batch(5, execution(state="succeeded")), batch(4, execution(state="processing"))])
    assert rows.executions[0][6] == "succeeded"


async def test_a_run_of_missed_firings_gets_its_count_later(room: Room) -> None:
    """A later record of the same run replaces the count, in one flush and over two; the reason stays."""
    for uid, between in (("u1", False), ("u2", True)):
        run = FiringRecord(START, FiringOutcome.SKIPPED, until=START + 900, count=None, reason="misfire")
        counted = FiringRecord(START, FiringOutcome.SKIPPED, until=START + 900, count=10)
        room.writer.append(batch(1, run, uid=uid), durable=True)
        if between:
            await room.writer.flush()
        room.writer.append(batch(2, counted, uid=uid), durable=True)
        room.writer.append(batch(1, run, uid=uid), durable=True)
        await room.writer.flush()
        (item,) = (await room.reads.firings(FiringQuery(uid=uid))).items
        assert (item["count"], item["outcome"], item["reason"]) == (10, "skipped", "misfire")


async def test_the_delivery_with_more_tries_wins(room: Room) -> None:
    """Of a delivery the record with more tries counts, of two with as many the later one."""

    def delivery(state: str, tries: int) -> DeliveryRecord:
        made = tuple(DeliveryTry(at=START + n, status=500, duration=3) for n in range(tries))
        return DeliveryRecord("d1", 1, 1, "finalFailed", "http://127.0.0.1/n", state, tries=made)

    for at, record in ((1, delivery("pending", 0)), (5, delivery("outbox", 4)), (3, delivery("pending", 2))):
        room.writer.append(batch(0, record, at=START + at), durable=False)
        await room.writer.flush()
    room.writer.append(batch(0, delivery("dismissed", 4), at=START + 9), durable=False)
    await room.writer.flush()
    (item,) = (await room.reads.deliveries(DeliveryQuery(tenant="default"))).items
    assert item["state"] == "dismissed"
    assert len(item["attempts"]) == 4  # type: ignore[arg-type]
