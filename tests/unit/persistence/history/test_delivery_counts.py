"""How many notifications there are by state (SPEC section 10)."""

from typing import Any

import pytest

from scheduler_service.domain.execution import DeliveryState
from scheduler_service.domain.records import DeliveryRecord
from scheduler_service.persistence.history.examination import MOST_EXAMINED
from scheduler_service.persistence.history.queries import DeliveryQuery
from tests.unit.persistence.hearing import heard
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.reading import write
from tests.unit.persistence.history.samples import START, batch

pytestmark = pytest.mark.anyio


def delivery(number: int, state: str, event: str = "succeed") -> DeliveryRecord:
    return DeliveryRecord(f"d{number}", 1, 1, event, "http://127.0.0.1/n", state, created_at=START + number)


async def counts(room: Room, *, tenant: str = "default", **filters: Any) -> Any:
    return await room.reads.delivery_counts(DeliveryQuery(tenant=tenant, **filters))


def states(found: Any) -> dict[str, int]:
    """Those that there are."""
    return {state: number for state, number in found["byState"].items() if number}


async def test_deliveries_are_counted_by_state(room: Room) -> None:
    """Each state has its number, with the filters of the list; those of another tenant are not counted."""
    await write(
        room,
        batch(0, delivery(1, "delivered"), delivery(2, "outbox"), delivery(3, "pending")),
        batch(0, delivery(4, "failed", "finalFailed"), uid="u2", job_id="other"),
        batch(0, delivery(5, "outbox"), uid="u3", job_id="far", tenant="far"),
    )
    found = await counts(room)
    assert found["total"] == {"value": 4, "isCapped": False}
    assert list(found["byState"]) == [state.value for state in DeliveryState]
    assert states(found) == {"delivered": 1, "outbox": 1, "pending": 1, "failed": 1}
    assert states(await counts(room, job_id="other")) == {"failed": 1}
    assert states(await counts(room, event="succeed")) == {"delivered": 1, "outbox": 1, "pending": 1}
    assert states(await counts(room, state="outbox")) == {"outbox": 1}
    assert states(await counts(room, tenant="far")) == {"outbox": 1}
    assert (await counts(room, tenant="nobody"))["total"]["value"] == 0


async def test_one_that_was_delivered_after_all_is_counted_once(room: Room) -> None:
    """It was in the outbox before, and both looks meet it."""
    await write(room, batch(0, delivery(1, "outbox")), batch(1, delivery(1, "delivered")))
    assert states(await counts(room)) == {"delivered": 1}


async def test_the_outbox_is_found_however_many_were_delivered(room: Room) -> None:
    """So many are looked at; more are said."""
    await write(room, batch(0, delivery(0, "outbox")))
    await write(room, batch(1, *(delivery(one, "delivered") for one in range(1, MOST_EXAMINED + 2))))
    found = await counts(room)
    assert found["total"] == {"value": MOST_EXAMINED + 2, "isCapped": True}
    assert found["byState"]["outbox"] == 1


async def test_no_count_reads_a_table_from_end_to_end(file_room: Room) -> None:
    """Both looks follow an index."""
    await write(file_room, batch(0, delivery(1, "outbox"), delivery(2, "delivered")))
    engine = file_room.database.dialect.engine
    with heard(engine) as statements:
        await counts(file_room, job_id="job")
    ((statement, values),) = [one for one in statements if "FROM deliveries" in one[0]]
    with file_room.database.reading() as connection:
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        plan = [row[3] for row in rows]
    assert len([step for step in plan if "deliveries USING INDEX" in step]) == 2, plan
