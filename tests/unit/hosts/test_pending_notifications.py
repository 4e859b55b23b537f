"""Of large bodies that the store has, too, few are in memory."""

from typing import Any

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.hosts.pending_notifications import LARGE_BODY_BYTES, PendingNotifications, leave_body
from tests.present import present

SIZE = LARGE_BODY_BYTES + 1


def delivery(number: int, size: int = SIZE, **members: Any) -> Delivery:
    """A durable one with a body of that size."""
    values: dict[str, Any] = {
        "delivery_id": f"uid-1-{number}", "uid": "uid", "execute_number": 1, "request_counts": 1,
        "ordinal": number, "event": "200", "durable": True,
        "request": OutboundRequest("POST", "http://told.test/", (), b"x" * size),
    }  # fmt: skip
    return Delivery(**values | members)


def in_memory(pending: PendingNotifications) -> list[int]:
    """The numbers of those whose body is in memory, of the first ten."""
    found = [pending.get(f"uid-1-{number}") for number in range(10)]
    return [one.ordinal for one in found if one is not None and one.request.body is not None]


def test_those_of_an_earlier_process_are_the_older_ones() -> None:
    """Where more than 100 are pending one of them is dropped first."""
    pending = PendingNotifications(most_body_bytes=None)
    for number in range(60, 120):
        pending.put(delivery(number, 1, durable=False))
    pending.put_first([delivery(number, 1, durable=False) for number in range(45)])
    found = present(pending.superfluous("uid"))
    assert found.ordinal == 0


def test_only_so_many_large_bodies_are_in_memory() -> None:
    """Room comes back with those that are settled, or got smaller; without a bound all are."""
    pending = PendingNotifications(most_body_bytes=2 * SIZE)
    for number in range(4):
        pending.put(delivery(number))
    assert in_memory(pending) == [0, 1]
    pending.put(delivery(1))
    pending.drop("uid-1-0")
    pending.drop("uid-1-3")
    pending.put(delivery(2))
    pending.put(delivery(4))
    assert in_memory(pending) == [1, 2]
    left = present(pending.get("uid-1-4"))
    assert left.is_body_stored
    unbounded = PendingNotifications(most_body_bytes=None)
    for number in range(4):
        unbounded.put(delivery(number))
    assert in_memory(unbounded) == [0, 1, 2, 3]


def test_what_only_memory_has_stays_there() -> None:
    """And what is small takes no room."""
    pending = PendingNotifications(most_body_bytes=0)
    pending.put(delivery(0, durable=False))
    pending.put(delivery(1, LARGE_BODY_BYTES))
    pending.put(delivery(2))
    assert in_memory(pending) == [0, 1]
    assert leave_body(delivery(0, durable=False)).request.body is not None
    assert leave_body(delivery(2)) == pending.get("uid-1-2")
