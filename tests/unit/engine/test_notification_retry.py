"""What comes next for a notification after a try (SPEC section 7, "Delivery")."""

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import DeliveryState
from scheduler_service.domain.moments import Now
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest
from scheduler_service.engine.notification_retry import (
    TRIES_KEPT,
    after_try,
    is_guaranteed,
    may_be_superseded,
    record_of,
)
from tests.rows import each_row

NOW = Now(50_000, 9_000)
REQUEST = OutboundRequest("POST", "http://caller.test/", (("A", "b"),), b"{}")
REFUSED = Fault(FaultKind.CONNECT, "refused", 4)


def delivery(**values: object) -> Delivery:
    return Delivery("uid-1-0", "uid", 1, 1, 0, "500", REQUEST, **values)  # type: ignore[arg-type]


@each_row(
    ("outbox", "durable", "end"),
    [(False, False, "failed"), (True, True, "outbox"), (False, True, "failed")],
)
def test_three_retries_twenty_seconds_apart(outbox: bool, durable: bool, end: str) -> None:
    """Four tries in all; then it has failed, or stays in the outbox, where it has a guarantee of its own."""
    one = delivery(outbox=outbox, durable=durable)
    assert is_guaranteed(one) is (end == "outbox")
    for _ in range(3):
        one = after_try(one, REFUSED, NOW)
        assert (one.state, one.due) == ("pending", NOW.steady + 20_000)
    one = after_try(one, REFUSED, NOW)
    assert (one.state, one.due, one.tries) == (end, None, 4)


def test_the_record_has_the_moment_of_the_next_try() -> None:
    """By the wall clock; only what waits for one has it."""
    waiting = after_try(delivery(), REFUSED, NOW)
    assert record_of(waiting, REFUSED, NOW).next_try_at == NOW.wall + 20_000
    assert record_of(waiting, None, Now(NOW.wall + 500, NOW.steady + 500)).next_try_at == NOW.wall + 20_000
    dropped = msgspec.structs.replace(waiting, state=DeliveryState.SUPERSEDED)
    for other in (delivery(), dropped, after_try(delivery(), Answer(200), NOW)):
        assert record_of(other, None, NOW).next_try_at is None


@each_row(("status", "state"), [(200, "delivered"), (299, "delivered"), (199, "pending"), (300, "pending")])
def test_only_2xx_is_delivered(status: int, state: str) -> None:
    """A delivery fails unless it is answered 2xx."""
    assert after_try(delivery(), Answer(status), NOW).state == state


def test_the_outbox_sends_again() -> None:
    """One that lies in the outbox stays there when it fails again, and leaves it when it is delivered."""
    lying = delivery(outbox=True, state=DeliveryState.OUTBOX, tries=9)
    assert after_try(lying, REFUSED, NOW).state == "outbox"
    assert after_try(lying, Answer(200), NOW).state == "delivered"
    # The list of tries ends somewhere; their number does not
    one = delivery(outbox=True, state=DeliveryState.OUTBOX)
    for _ in range(TRIES_KEPT + 5):
        one = after_try(one, REFUSED, NOW)
    assert (len(one.past), one.tries) == (TRIES_KEPT, TRIES_KEPT + 5)
    assert (one.past[-1].at, one.past[-1].fault, one.past[-1].duration) == (NOW.wall - 4, "connect", 4)
    # `notification.retries` and `notification.interval_seconds`
    assert after_try(fresh(), CUT_OFF, LATER, retries=0).state == "failed"
    assert after_try(fresh(), CUT_OFF, LATER, retries=1, interval=5).due == 1_005


@each_row(
    ("values", "may"),
    [({}, True), ({"final": True}, False), ({"outbox": True}, False), ({"durable": True}, False)],
)
def test_what_may_be_superseded(values: dict[str, bool], may: bool) -> None:
    """Of too many pending ones the intermediate without a guarantee are dropped."""
    assert may_be_superseded(delivery(**values)) is may


def test_the_record_has_the_exchange() -> None:
    """Deliveries and their attempts are visible: request, answer or fault, times."""
    answer = Answer(404, (("X", "y"),), b"no", truncated=True, elapsed=7)
    record = record_of(after_try(delivery(name="n"), answer, NOW), answer, NOW)
    assert (record.state, record.name, record.tries[0].status, record.url) == (
        "pending",
        "n",
        404,
        REQUEST.url,
    )
    assert record.exchange is not None
    assert (record.exchange.status, record.exchange.response_body) == (404, b"no")
    assert (record.exchange.response_truncated, record.exchange.sent_at) == (True, NOW.wall - 7)
    failed = record_of(delivery(), REFUSED, NOW).exchange
    assert failed is not None
    assert (failed.status, failed.fault) == (None, "refused")
    assert record_of(delivery(), None, NOW).exchange is None


LATER = Now(10_000, 1_000)
CUT_OFF = Fault(FaultKind.CONNECT, "refused", 7)


def fresh(**members: object) -> Delivery:
    """A fresh one, without a guarantee."""
    request = OutboundRequest("POST", "http://a.test/told", (("X-A", "1"),), b"{}")
    values = {
        "delivery_id": "uid-1-0", "uid": "uid", "execute_number": 1, "request_counts": 1, "ordinal": 0,
        "event": "200", "request": request,
    }  # fmt: skip
    return Delivery(**(values | members))  # type: ignore[arg-type]


ROBOT = ("@.errcode == 0", "$.errcode", "$.errmsg")


@each_row(
    ("answer", "fault"),
    [
        (Answer(200, body=b'{"errcode": 0}'), None),
        (Answer(200, body=b'{"errcode": 310000, "errmsg": "sign not match"}'), "310000: sign not match"),
        (Answer(200, body=b"{}"), "unsuccessful: successWhen is not true of the answer: @.errcode == 0"),
        (Answer(200, body=b"ok"), "unsuccessful: ok; the answer is no JSON, as successWhen needs it"),
        (
            Answer(200, body=b'{"errcode": 0', truncated=True),
            'unsuccessful: {"errcode": 0; the response is larger than limits.response_bytes, and successWhen '
            "needs it",
        ),
        (Answer(502, body=b'{"errcode": 9}'), "9: the receiver answered 502"),
    ],
)
def test_a_body_that_is_none_is_no_delivery(answer: Answer, fault: str | None) -> None:
    """A robot that answers 200 with an error code is tried again (SPEC section 4)."""
    after = after_try(fresh(rule=ROBOT, outbox=True), answer, LATER)
    assert after.state == ("delivered" if fault is None else "pending")
    assert (after.past[0].status, after.past[0].fault) == (answer.status, fault)
