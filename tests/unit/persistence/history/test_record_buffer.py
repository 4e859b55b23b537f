"""What waits for the history's writer is bounded by what it weighs (SPEC section 12)."""

import pytest

from scheduler_service.domain.records import (
    AttemptStarted,
    CheckEnded,
    DeliveryRecord,
    FeedbackSeen,
    Noted,
    Record,
    StepEnded,
)
from scheduler_service.persistence.history.record_buffer import RECORD_BYTES, Load, weigh
from tests.unit.persistence.history.samples import START, attempt, batch, exchange, execution

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
