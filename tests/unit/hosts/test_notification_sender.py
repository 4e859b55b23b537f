"""Notifications reach their targets, in order, and delay nobody (SPEC section 7)."""

import itertools
import json
from typing import Any

import pytest

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.records import DeliveryRecord
from scheduler_service.domain.wire import Answer, OutboundRequest
from scheduler_service.hosts.chat_robots import RobotPace
from scheduler_service.hosts.host_dependencies import HostLimits
from scheduler_service.hosts.notification_sender import LOADED_AT_ONCE
from scheduler_service.hosts.pending_notifications import (
    FAILED_BODY_BYTES,
    LARGE_BODY_BYTES,
    PendingNotifications,
    leave_body,
)
from scheduler_service.telemetry.alerts.alert_receivers import RECEIVERS, Limit
from tests.present import present
from tests.rows import each_row
from tests.unit.hosts.house import House

pytestmark = pytest.mark.anyio
TOLD = "http://told.test/"


def notice(**members: Any) -> dict[str, Any]:
    """An entry for every event."""
    return {"name": "all", "url": TOLD} | members


def events(house: House) -> list[str]:
    """The events told so far, in order of sending."""
    bodies = [json.loads(one.body or b"{}") for one in house.sender.requests if one.url == TOLD]
    return [body["response"]["status"] for body in bodies]


def delivery(ordinal: int, **members: Any) -> Delivery:
    """One of many of one execution."""
    values: dict[str, Any] = {
        "delivery_id": f"uid-1-{ordinal}", "uid": "uid", "execute_number": 1, "request_counts": 1,
        "ordinal": ordinal, "event": f"event{ordinal}", "job_id": "acme|job", "tenant": "acme",
        "request": OutboundRequest("POST", TOLD, (), str(ordinal).encode()),
    }  # fmt: skip
    return Delivery(**values | members)


async def test_events_are_told_in_their_order_and_after_their_commit(house: House) -> None:
    """The first try of an event waits for those before it."""
    await house.create(notification=[notice()])
    house.sender.hold(TOLD)
    await house.trigger()
    await house.settle()
    assert events(house) == ["succeed"]
    assert house.executions() == {1: State.SUCCEEDED}, "a slow target delays no execution"
    house.sender.release(TOLD)
    await house.settle()
    assert events(house) == ["succeed", "finalSucceed"]
    assert house.delivery_states() == {"200": "delivered", "finalSucceed": "delivered"}
    assert len(house.host.notifications) == 0


async def test_a_retry_may_be_overtaken(house: House) -> None:
    """Three retries, 20 s apart, under the same key; later events do not wait for them."""
    await house.create(notification=[notice()])
    house.sender.answers(TOLD, 500)
    await house.trigger()
    await house.settle()
    assert events(house) == ["succeed", "finalSucceed"]
    assert house.delivery_states() == {"200": "pending", "finalSucceed": "delivered"}
    await house.advance(19_999)
    assert len(events(house)) == 2
    await house.advance(1)
    assert events(house) == ["succeed", "finalSucceed", "succeed"]
    assert house.sender.requests[1] == house.sender.requests[3]
    assert house.delivery_states()["200"] == "delivered"


async def test_without_a_guarantee_it_fails_in_the_end_and_may_be_sent_again_by_hand(house: House) -> None:
    """Four tries; then only somebody who asks for it sends it again."""
    await house.create(notification=[notice(stateEquals="finalSucceed")])
    house.sender.answers(TOLD, 500, 500, 500, 500)
    await house.trigger()
    await house.advance(120_000)
    assert len(events(house)) == 4
    assert house.delivery_states() == {"finalSucceed": "failed"}
    assert house.disk.deliveries == {}
    assert await house.host.notifications.resend("uid1-1-0")
    assert house.delivery_states() == {"finalSucceed": "delivered"}
    assert not await house.host.notifications.resend("uid1-1-0")
    tries = [one for one in house.history.records() if isinstance(one, DeliveryRecord)][-1].tries
    assert [one.status for one in tries] == [500] * 4 + [200]


async def test_with_a_guarantee_it_stays_in_the_outbox_until_it_is_delivered(house: House) -> None:
    """A system job re-sends what lies in the outbox."""
    await house.create(notification=[notice(stateEquals="finalSucceed", guarantee="outbox")])
    house.sender.answers(TOLD, *[500] * 5)
    await house.trigger()
    await house.settle()
    assert await house.host.notifications.resend_outbox() == 0, "it is pending, and has its own retries"
    assert len(events(house)) == 1
    await house.advance(120_000)
    assert house.delivery_states() == {"finalSucceed": "outbox"}
    assert [one.state for one in house.disk.deliveries.values()] == ["outbox"]
    assert await house.host.notifications.resend_outbox() == 1
    assert house.delivery_states() == {"finalSucceed": "outbox"}
    assert await house.host.notifications.resend_outbox() == 1
    assert house.delivery_states() == {"finalSucceed": "delivered"}
    assert house.disk.deliveries == {}
    assert await house.host.notifications.resend_outbox() == 0


async def test_what_is_dismissed_is_never_sent_again(house: House) -> None:
    """From the outbox, and while it is pending."""
    await house.create(qos=1, notification=[notice()])
    house.sender.answers(TOLD, *[500] * 4)
    await house.trigger()
    await house.advance(10_000)
    notifications = house.host.notifications
    for command in (notifications.resend, notifications.dismiss):
        assert not await command("acme|uid1-1-0"), "it is none of another tenant"
    assert await notifications.dismiss("uid1-1-0")
    assert not await notifications.dismiss("uid1-1-0")
    await house.advance(120_000)
    assert house.delivery_states() == {"200": "dismissed", "finalSucceed": "delivered"}
    assert house.disk.deliveries == {}
    assert not await notifications.dismiss("nobody")


async def test_what_became_of_a_delivery_outlives_the_process(house: House) -> None:
    """Its line waits in the store, settled together, until the history has it: it is sent no second time."""
    await house.create(qos=1, notification=[notice(stateEquals="finalSucceed")])
    house.sender.answers(TOLD, 500)
    await house.trigger()
    await house.advance(20_000)
    assert house.disk.deliveries == {}
    await house.crash()
    await house.start()
    lines = [one for one in house.history.records() if isinstance(one, DeliveryRecord)]
    assert [(one.state, len(one.tries)) for one in lines] == [("delivered", 2), ("pending", 1)]
    await house.history.flush()
    assert house.disk.unwritten == {}


async def test_a_retry_that_comes_due_while_the_store_is_away_is_not_lost(house: House) -> None:
    """It is planned once the first try is settled: else nobody would try again before the next start."""
    await house.create(qos=1, notification=[notice(stateEquals="finalSucceed")])
    house.sender.answers(TOLD, 500)
    house.sender.hold(TOLD)
    await house.trigger()
    await house.settle()
    house.store.is_down = True
    house.sender.release(TOLD)
    await house.advance(40_000)
    assert events(house) == ["finalSucceed"]
    house.store.is_down = False
    await house.advance(1_000)
    await house.advance(1)
    assert events(house) == ["finalSucceed", "finalSucceed"]
    assert house.disk.deliveries == {}


async def test_a_retry_keeps_its_moment_over_a_crash(house: House) -> None:
    """`due` lies in the store, on the steady line."""
    await house.create(qos=1, notification=[notice(stateEquals="finalSucceed")])
    house.sender.answers(TOLD, 500)
    await house.trigger()
    await house.advance(5_000)
    await house.crash()
    await house.start()
    await house.advance(14_000)
    assert events(house) == []
    await house.advance(1_000)
    assert events(house) == ["finalSucceed"]


async def test_of_more_than_100_pending_the_oldest_intermediate_are_dropped(house: House) -> None:
    """Never a final or a guaranteed one (SPEC section 7)."""
    house.sender.hold(TOLD)
    notifications = house.host.notifications
    notifications.take(delivery(0))
    await house.settle()
    notifications.take(delivery(1, final=True))
    notifications.take(delivery(2, outbox=True))
    for ordinal in range(3, 120):
        notifications.take(delivery(ordinal))
    assert len(notifications) == 100
    house.sender.release(TOLD)
    await house.settle()
    await house.settle()
    sent = [int(request.body or b"") for request in house.sender.requests]
    assert sent == [0, 1, 2, *range(23, 120)]
    states = [one.state for one in house.history.records() if isinstance(one, DeliveryRecord)]
    assert states.count("superseded") == 20
    assert {batch.tenant for batch, _ in house.history.batches} == {"acme"}


LONG = b'"%s"' % (b"x" * 20_000)


async def notified_at_length(house: House, count: int) -> None:
    """So many jobs of qos 0 whose answers are 20 KB, each with a notification of it and of its end."""
    house.sender.answers(TOLD, *[503] * 8 * count)
    for number in range(count):
        url = f"http://large.test/{number}"
        house.sender.answers(url, Answer(200, body=LONG))
        await house.create(f"job-{number}", request=[{"url": url}], notification=[notice()])
        await house.trigger(f"job-{number}")
    await house.settle()


async def test_large_bodies_without_a_guarantee_are_written_where_memory_has_no_room() -> None:
    """Their targets are away: they are tried again, from the store, and given up like others then."""
    house = await House(limits=HostLimits(body_bytes=50_000)).start()
    await notified_at_length(house, 3)
    assert len(house.host.notifications) == 6
    stored = list(house.disk.deliveries.values())
    assert len(stored) == 4
    assert all(one.durable and not one.outbox for one in stored)
    for _ in range(3):
        await house.advance(20_000)
    assert (len(house.host.notifications), house.disk.deliveries) == (0, {})
    ended = [one for one in house.history.records() if isinstance(one, DeliveryRecord) and one.tried == 4]
    assert {one.delivery_id: one.state for one in ended} == dict.fromkeys(
        {one.delivery_id for one in ended}, "failed"
    )
    assert len({one.delivery_id for one in ended}) == 6


async def test_of_failed_ones_few_large_bodies_are_kept(house: House) -> None:
    """To be sent again by hand; those that failed first are forgotten first."""
    house.sender.answers(TOLD, *[503] * 5)
    body = b"x" * (FAILED_BODY_BYTES // 3)
    for ordinal in range(5):
        request = OutboundRequest("POST", TOLD, (), body)
        house.host.notifications.take(delivery(ordinal, request=request, tries=3))
    await house.settle()
    found = [await house.host.notifications.resend(f"acme|uid-1-{ordinal}") for ordinal in range(5)]
    assert found == [False, False, True, True, True]


async def test_a_dead_target_of_one_execution_does_not_delay_another_one(house: House) -> None:
    """Lanes are per execution."""
    await house.create("slow", notification=[{"name": "n", "url": "http://dead.test/"}])
    await house.create("quick", notification=[notice(stateEquals="finalSucceed")])
    house.sender.hold("http://dead.test/")
    await house.trigger("slow")
    await house.trigger("quick")
    await house.settle()
    assert events(house) == ["finalSucceed"]


async def test_a_record_follows_the_detail_of_its_job() -> None:
    """With `historyDetail` `none` it has neither headers nor bodies, whatever the setting says."""
    for detail, is_kept in (("none", False), ("all", True)):
        house = await House().start()
        await house.create(notification=[notice(stateEquals="finalSucceed")], historyDetail=detail)
        await house.trigger()
        await house.settle()
        (*_, last) = (one for one in house.history.records() if isinstance(one, DeliveryRecord))
        assert (last.state, last.exchange is not None) == ("delivered", is_kept)


LARGE = {"size": "x" * 20_000}
FEW_BODIES = HostLimits(body_bytes=25_000)


async def large(house: House, jobs: int, **members: Any) -> None:
    """So many jobs whose every event is told with a large body, and each runs once."""
    told = notice(guarantee="outbox", body={"told": LARGE, "job": "${jobId}"}, **members)
    for number in range(jobs):
        await house.create(f"job{number}", notification=[told])
        await house.trigger(f"job{number}")
        await house.settle()


def told_of(house: House) -> list[str]:
    """The jobs of which whole bodies were told, in order of sending."""
    bodies = [json.loads(one.body or b"{}") for one in house.sender.requests if one.url == TOLD]
    assert all(body["told"] == LARGE for body in bodies)
    return [body["job"] for body in bodies]


async def test_after_a_crash_large_bodies_stay_in_the_store_until_they_are_tried() -> None:
    """In the order of the events of each execution; one that is dismissed meanwhile is not sent."""
    house = await House(limits=FEW_BODIES).start()
    house.sender.hold(TOLD)
    await large(house, 20)
    await house.crash()
    house.sender.requests.clear()
    house.sender.hold(TOLD)
    await house.start()
    await house.settle()
    assert len(told_of(house)) == LOADED_AT_ONCE
    assert "job8" not in told_of(house)
    assert await house.host.notifications.dismiss("uid9-1-0")
    house.sender.release(TOLD)
    await house.settle()
    assert len(told_of(house)) == 2 * 20 - 1
    assert house.disk.deliveries == {}


async def test_a_body_that_cannot_be_read_is_read_later() -> None:
    """One line says so, and the delivery is not lost."""
    house = await House(limits=HostLimits(body_bytes=0)).start()
    house.sender.answers(TOLD, 500)
    await large(house, 1, stateEquals="finalSucceed")
    house.store.is_down = True
    await house.advance(20_000)
    assert "delivery_not_read" in [event for event, _ in house.log]
    house.store.is_down = False
    await house.advance(20_000)
    assert told_of(house) == ["job0", "job0"]
    assert house.disk.deliveries == {}
    # Also for retries: what is sent is what was stored, and all is settled in the end
    house = await House(limits=FEW_BODIES).start()
    house.sender.answers(TOLD, *[500] * 3)
    await large(house, 3, stateEquals="finalSucceed")
    assert sorted(told_of(house)) == ["job0", "job1", "job2"]
    await house.advance(60_000)
    assert sorted(told_of(house)[3:]) == ["job0", "job1", "job2"]
    assert house.disk.deliveries == {}
    assert len(house.host.notifications) == 0


async def test_what_was_handed_over_is_not_taken_again(house: House) -> None:
    """A turn whose commit is durable tells of its notifications late, where its answer was uncertain."""
    sender = house.host.notifications
    sender.hold()
    one = delivery(0, durable=True, created_at=house.clock.now().wall)
    house.disk.deliveries[one.delivery_id] = one
    sender.adopt([one])
    await house.settle()
    sender.take(one)
    await house.settle()
    assert len(house.sender.requests) == 1
    sender.take(delivery(1, created_at=house.clock.now().wall))
    await house.settle()
    assert len(house.sender.requests) == 2


async def test_one_is_found_among_others_of_its_beginning(house: House) -> None:
    """Many have the same beginning and come before it; nobody else is read or tried."""
    for number in range(30):
        one = delivery(number, durable=True, outbox=True, state="outbox")
        house.disk.deliveries[one.delivery_id] = one
    assert await house.host.notifications.resend("acme|uid-1-2")
    assert [request.body for request in house.sender.requests] == [b"2"]
    for unknown in ("uid-1-30", "uid-1-", "uid-1-2 ", "", "\0", "\ue000", "~", "é"):
        assert not await house.host.notifications.resend(f"acme|{unknown}")


SIZE = LARGE_BODY_BYTES + 1


def one_pending(number: int, size: int = SIZE, **members: Any) -> Delivery:
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
        pending.put(one_pending(number, 1, durable=False))
    pending.put_first([one_pending(number, 1, durable=False) for number in range(45)])
    found = present(pending.superfluous("uid"))
    assert found.ordinal == 0


def test_only_so_many_large_bodies_are_in_memory() -> None:
    """Room comes back with those that are settled, or got smaller; without a bound all are."""
    pending = PendingNotifications(most_body_bytes=2 * SIZE)
    for number in range(4):
        pending.put(one_pending(number))
    assert in_memory(pending) == [0, 1]
    pending.put(one_pending(1))
    pending.drop("uid-1-0")
    pending.drop("uid-1-3")
    pending.put(one_pending(2))
    pending.put(one_pending(4))
    assert in_memory(pending) == [1, 2]
    left = present(pending.get("uid-1-4"))
    assert left.is_body_stored
    unbounded = PendingNotifications(most_body_bytes=None)
    for number in range(4):
        unbounded.put(one_pending(number))
    assert in_memory(unbounded) == [0, 1, 2, 3]


def test_what_only_memory_has_stays_there() -> None:
    """And what is small takes no room."""
    pending = PendingNotifications(most_body_bytes=0)
    pending.put(one_pending(0, durable=False))
    pending.put(one_pending(1, LARGE_BODY_BYTES))
    pending.put(one_pending(2))
    assert in_memory(pending) == [0, 1]
    assert leave_body(one_pending(0, durable=False)).request.body is not None
    assert leave_body(one_pending(2)) == pending.get("uid-1-2")


def send_all(pace: RobotPace, count: int) -> list[int]:
    """The moments at which so many messages go, that are there from the begin on."""
    now, moments = 0, []
    for _ in range(count):
        now += pace.wait(now)
        assert pace.wait(now) == 0
        pace.note(now)
        moments.append(now)
    return moments


@each_row("limits", [one.limits for one in RECEIVERS.values()])
def test_no_limit_is_passed(limits: tuple[Limit, ...]) -> None:
    """In no stretch of time as long as a limit's are more messages than it allows; fewer nowhere."""
    moments = send_all(RobotPace(limits), 150)
    for most, within in limits:
        stretches = [last - first for first, last in zip(moments, moments[most:], strict=False)]
        assert min(stretches) >= within
    assert any(
        min(b - a for a, b in zip(moments, moments[most:], strict=False)) == within for most, within in limits
    )


def test_two_limits_hold_together() -> None:
    """Five a second until the hundredth, and then a minute after the first."""
    moments = send_all(RobotPace((Limit(5, 1_000), Limit(100, 60_000))), 101)
    assert moments[:6] == [0, 0, 0, 0, 0, 1_000]
    assert moments[99:] == [19_000, 60_000]
    assert all(a <= b for a, b in itertools.pairwise(moments))
