"""Records of many turns become the fewest rows."""

import sys
import threading

import pytest
from msgspec.structs import replace

from scheduler_service.domain.execution import DeliveryState, FiringOutcome
from scheduler_service.domain.records import DeliveryRecord, DeliveryTry, FiringRecord
from scheduler_service.persistence.history.queries import DeliveryQuery, FiringQuery
from scheduler_service.persistence.history.row_merging import PIECE, with_breaks
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.samples import START, batch

pytestmark = pytest.mark.anyio


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
        url = "http://127.0.0.1/n"
        return DeliveryRecord("d1", 1, 1, "finalFailed", url, state, "n", START, made, tried=tries)

    for at, record in ((1, delivery("pending", 0)), (5, delivery("outbox", 4)), (3, delivery("pending", 2))):
        room.writer.append(batch(0, record, at=START + at), durable=False)
        await room.writer.flush()
    room.writer.append(batch(0, delivery("dismissed", 4), at=START + 9), durable=False)
    await room.writer.flush()
    (item,) = (await room.reads.deliveries(DeliveryQuery(tenant="default"))).items
    assert item["state"] == "dismissed"
    assert len(item["attempts"]) == 4  # type: ignore[arg-type]


async def test_a_delivery_that_nobody_has_is_given_up(room: Room) -> None:
    """After what was recorded of it; not one that somebody has, is over, or is another tenant's."""
    tries = (DeliveryTry(at=START, status=500, duration=3),)
    pending = DeliveryRecord(
        "d1", 1, 1, "finalFailed", "http://127.0.0.1/n", DeliveryState.PENDING, "n", START, tries, tried=1
    )
    held = replace(pending, next_try_at=START + 9, holder="two 7")
    room.writer.append(batch(0, held, at=START + 5), durable=False)
    for name, holders in (("d1", {"two 7"}), ("acme|d1", set[str]()), ("d2", set[str]())):
        assert not await room.writer.dismiss_lost(name, holders, START + 8)
    (before,) = (await room.reads.deliveries(DeliveryQuery(tenant="default"))).items
    assert await room.writer.dismiss_lost("d1", {"two 8", ""}, START + 2)
    (after,) = (await room.reads.deliveries(DeliveryQuery(tenant="default"))).items
    assert after == before | {"state": "dismissed", "nextTryAt": None}
    assert not await room.writer.dismiss_lost("d1", (), START + 9)
    room.writer.append(batch(0, held, at=START + 4), durable=False)
    await room.writer.flush()
    assert (await room.reads.deliveries(DeliveryQuery(tenant="default"))).items == [after], "it came late"


@pytest.mark.parametrize("count", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_every_item_comes_once_and_in_order(count: int) -> None:
    """Whatever their number."""
    assert list(with_breaks(range(count))) == list(range(count))


def test_other_threads_run_in_between() -> None:
    """One that waits for the first item runs in a break: nothing else takes the interpreter here."""
    went_on, has_run = threading.Event(), threading.Event()
    usual = sys.getswitchinterval()

    def run() -> None:
        went_on.wait()
        has_run.set()

    other = threading.Thread(target=run)
    other.start()
    sys.setswitchinterval(60)
    try:
        for number in with_breaks(range(10_000 * PIECE)):
            went_on.set()
            if number % PIECE == 0 and has_run.is_set():
                break
    finally:
        sys.setswitchinterval(usual)
    other.join()
    assert 0 < number < 9_999 * PIECE
