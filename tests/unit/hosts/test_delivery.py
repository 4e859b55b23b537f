"""What comes next for a delivery after a try (SPEC section 7, "Delivery")."""

import pytest

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.moments import Now
from scheduler_service.domain.records import DeliveryTry
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.engine.notification_retry import after_try, may_be_superseded, record_of

NOW = Now(10_000, 1_000)
REFUSED = Fault(FaultKind.CONNECT, "refused", 7)


def delivery(**members: object) -> Delivery:
    """A fresh one, without a guarantee."""
    request = OutboundRequest("POST", "http://a.test/told", (("X-A", "1"),), b"{}")
    values = {
        "delivery_id": "uid-1-0", "uid": "uid", "execute_number": 1, "request_counts": 1, "ordinal": 0,
        "event": "200", "request": request,
    }  # fmt: skip
    return Delivery(**(values | members))  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [200, 202, 204, 299])
def test_only_2xx_is_delivered(status: int) -> None:
    """Whatever the try before was."""
    after = after_try(delivery(), Answer(status, elapsed=3), NOW)
    assert (after.state, after.tries, after.due) == ("delivered", 1, None)
    assert after.past == (DeliveryTry(9_997, status, None, 3),)


@pytest.mark.parametrize("outcome", [Answer(199), Answer(302), Answer(404), Answer(500), REFUSED])
def test_a_failed_delivery_is_retried_three_times_20_seconds_apart(outcome: Outcome) -> None:
    """Four tries in all; then it has failed."""
    one, states = delivery(), []
    for _ in range(4):
        one = after_try(one, outcome, NOW)
        states.append((one.state, one.due))
    assert states == [("pending", 21_000)] * 3 + [("failed", None)]
    assert [known.status for known in one.past] == [getattr(outcome, "status", None)] * 4


@pytest.mark.parametrize("guarantee", [{"durable": True}, {"outbox": True}])
def test_what_has_a_guarantee_stays_in_the_outbox(guarantee: dict[str, bool]) -> None:
    """With qos 1 or outbox it is never given up; a later try may deliver it."""
    one = delivery(**guarantee)
    for _ in range(4):
        one = after_try(one, REFUSED, NOW)
    assert one.state == "outbox"
    one = after_try(one, REFUSED, NOW)
    assert (one.state, one.tries) == ("outbox", 5)
    assert after_try(one, Answer(200), NOW).state == "delivered"


def test_settings_may_ask_for_other_numbers() -> None:
    """`notification.retries` and `notification.interval_seconds`."""
    assert after_try(delivery(), REFUSED, NOW, retries=0).state == "failed"
    assert after_try(delivery(), REFUSED, NOW, retries=1, interval=5).due == 1_005


def test_only_the_intermediate_without_a_guarantee_may_be_superseded() -> None:
    """Final events and guaranteed ones are never dropped."""
    assert may_be_superseded(delivery())
    assert not may_be_superseded(delivery(final=True))
    assert not may_be_superseded(delivery(outbox=True))
    assert not may_be_superseded(delivery(durable=True))


def test_its_record_tells_of_every_try_and_of_the_latest_exchange() -> None:
    """Deliveries and their attempts are visible."""
    after = after_try(delivery(), REFUSED, NOW)
    record = record_of(after, REFUSED, NOW)
    assert (record.state, record.url, record.tries) == ("pending", "http://a.test/told", after.past)
    assert record.tries[0].fault == "connect"
    assert record.exchange is not None
    assert (record.exchange.status, record.exchange.fault) == (None, "refused")
    answered = record_of(after, Answer(500, body=b"no"), NOW).exchange
    assert answered is not None
    assert (answered.status, answered.response_body, answered.request_body) == (500, b"no", b"{}")
