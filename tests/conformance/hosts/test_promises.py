"""What every host promises of a job, run on each of them (SPEC section 15)."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.audit_acts import Act
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.execution import FiringOutcome
from scheduler_service.domain.moments import HOUR
from scheduler_service.domain.records import (
    AttemptEnded,
    Audited,
    DeliveryRecord,
    ExecutionRecord,
    FeedbackSeen,
    FiringRecord,
    ResultKept,
)
from scheduler_service.domain.replies import (
    Reactivated,
    Recalled,
    Refusal,
    RefusalCode,
    Started,
    StartedMany,
    Taken,
    Unchanged,
)
from scheduler_service.domain.turn_events import (
    Activated,
    Backfilled,
    CancelRequested,
    Created,
    Destroyed,
    FeedbackArrived,
    Paused,
    Triggered,
    Updated,
)
from scheduler_service.domain.wire import Answer, Fault, FaultKind
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.state import Remembered
from tests.conformance.hosts.houses import AnyHouse, DaprHouse, DaprNode
from tests.unit.hosts.house import asynchronous, describe

pytestmark = pytest.mark.anyio
URL = "http://target.test/run"
SECONDLY = {"dueTime": "1s", "period": "1s"}
KEY = b"k" * 32


def ended(house: AnyHouse, job_id: str = "job") -> dict[int, ExecutionRecord]:
    """The last record of each execution that has ended."""
    found = [record for batch in house.batches(job_id) for record in batch.records]
    return {one.execute_number: one for one in found if isinstance(one, ExecutionRecord) and one.ended_at}


async def test_a_trigger_is_sent_answered_and_recorded(house: AnyHouse) -> None:
    """An event arrives, a turn is taken, effects leave."""
    await house.create()
    assert isinstance(await house.trigger(), Started)
    await house.settle()
    assert house.sender.urls() == [URL]
    assert house.executions() == {1: State.SUCCEEDED}


async def test_who_declares_a_job_is_its_owner(house: AnyHouse) -> None:
    """From its creation on, over a restart and an update (SPEC sections 9 and 11)."""
    declared = describe(jobId="job", request=[{"url": "service:/run"}])
    born = Created(uid="", key=b"", owner="billing")
    assert await house.host("job", Command(born, definition=declared)) == Taken()
    await house.crash()
    await house.recover()
    assert await owner_of(house) == "billing"
    changed = describe(jobId="job", request=[{"url": "service:/another"}])
    assert await house.host("job", Command(Updated(0), definition=changed)) == Taken()
    assert await owner_of(house) == "billing"


async def owner_of(house: AnyHouse, job_id: str = "job") -> str:
    """Which service the job belongs to."""
    job = await house.host.read(job_id)
    assert job is not None
    assert job.document is not None
    return job.document.head.owner


async def test_a_timer_fires_on_time_each_moment_once(house: AnyHouse) -> None:
    """Each planned firing starts one execution, less than a second late (SPEC section 3)."""
    await house.create(timer=SECONDLY)
    await house.advance(5_000)
    assert house.executions() == dict.fromkeys(range(1, 6), State.SUCCEEDED)
    planned = [one.planned_at for one in ended(house).values()]
    assert len(set(planned)) == 5
    assert all(
        one.started_at is not None and one.started_at - one.planned_at < 5 for one in ended(house).values()
    )


async def test_a_far_firing_comes_too(house: AnyHouse) -> None:
    """An alarm that is beyond the near future rings as one that is near."""
    await house.create(timer={"dueTime": "100s", "period": "0s"})
    await house.advance(99_000)
    assert house.sender.urls() == []
    await house.advance(2_000)
    assert house.executions() == {1: State.SUCCEEDED}


async def test_turns_of_a_job_never_run_together(house: AnyHouse) -> None:
    """Twenty triggers at once get twenty numbers."""
    await house.create(maxConcurrency=100)
    house.sender.hold(URL)
    replies = await asyncio.gather(*(house.trigger() for _ in range(20)))
    numbers = [reply.execute_number for reply in replies if isinstance(reply, Started)]
    assert sorted(numbers) == list(range(1, 21))
    house.sender.release(URL)
    await house.settle()
    assert set(house.executions().values()) == {State.SUCCEEDED}


async def test_a_step_in_flight_is_sent_again_byte_for_byte(house: AnyHouse) -> None:
    """qos 1: after a crash, with the same Idempotency-Key (SPEC section 8)."""
    await house.create(qos=1, request=[{"url": URL, "body": {"at": "${schedulingFireTime}"}}])
    house.sender.hold(URL)
    await house.trigger()
    await house.settle()
    first = house.sender.requests[0]
    await house.crash()
    await house.recover()
    (again,) = house.sender.requests
    assert (again.url, again.headers, again.body) == (first.url, first.headers, first.body)
    assert house.executions() == {1: State.SUCCEEDED}


@pytest.mark.parametrize(("is_asynchronous", "least"), [(False, 30_000), (True, 60_000)])
async def test_a_call_that_is_sent_again_is_awaited_anew(
    house: AnyHouse, is_asynchronous: bool, least: int
) -> None:
    """Its deadline is that of the new sending: downtime is not held against the target (SPEC section 8)."""
    members = asynchronous(timeoutSeconds=600) if is_asynchronous else {"timeoutSeconds": 30}
    await house.create(qos=1, **members)
    house.sender.hold(URL)
    await house.trigger()
    await house.settle()
    awaited = house.sender.requests[0].awaited
    assert awaited == (600_000 if is_asynchronous else 30_000)
    await house.crash()
    await house.recover()
    assert least <= house.sender.requests[0].awaited <= awaited


async def test_a_recorded_step_is_never_sent_again(house: AnyHouse) -> None:
    """qos 1: the execution goes on from where it stood (SPEC section 8)."""
    second = "http://target.test/second"
    await house.create(qos=1, request=[{"url": URL}, {"url": second}])
    house.sender.hold(second)
    await house.trigger()
    await house.settle()
    assert house.sender.urls() == [URL, second]
    await house.crash()
    await house.recover()
    assert house.sender.urls() == [second]
    assert house.executions() == {1: State.SUCCEEDED}


async def test_a_cut_off_execution_of_qos_0_is_lost(house: AnyHouse) -> None:
    """Processing, failed, terminated with error `lost`; the timer goes on (SPEC section 8)."""
    await house.create(timer={"dueTime": "100s", "period": "1h"})
    house.sender.hold(URL)
    await house.trigger()
    await house.settle()
    await house.crash()
    await house.recover()
    record = ended(house)[1]
    assert (record.state, record.error) == (State.TERMINATED, "lost")
    await house.advance(100_000)
    assert house.executions()[2] == State.SUCCEEDED


async def test_a_waiting_retry_survives(house: AnyHouse) -> None:
    """qos 1: every wait is durable (SPEC section 8)."""
    house.sender.answers(URL, 500)
    await house.create(qos=1, retry=[{"errorEquals": "500", "intervalSeconds": 60}])
    await house.trigger()
    await house.settle()
    assert house.executions() == {1: State.FAILED}
    await house.crash()
    await house.recover()
    await house.advance(61_000)
    assert house.executions() == {1: State.SUCCEEDED}


async def test_feedback_decides_after_a_crash(house: AnyHouse) -> None:
    """qos 1: an asynchronous execution waits on, and its feedback counts (SPEC sections 5 and 8)."""
    await house.create(qos=1, **asynchronous(timeoutSeconds=600))
    await house.trigger()
    await house.settle()
    await house.crash()
    await house.recover()
    token = feedback_token(KEY, "uid1", 1)
    reply = await house.deliver(FeedbackArrived(1, token, {"status": "succeed"}))
    assert reply == Taken()
    await house.settle()
    assert house.executions() == {1: State.SUCCEEDED}


async def test_feedback_is_taken_while_the_request_is_open(house: AnyHouse) -> None:
    """A turn never waits for HTTP."""
    house.sender.hold(URL)
    await house.create(**asynchronous())
    await house.trigger()
    await house.settle()
    token = feedback_token(KEY, "uid1", 1)
    reply = await house.deliver(FeedbackArrived(1, token, {"status": "", "progress": "1/2"}))
    assert reply == Taken()
    house.sender.release(URL)
    await house.settle()
    assert any(isinstance(one, FeedbackSeen) and not one.stale for one in house.records())


async def test_a_verdict_waits_for_the_answer_of_its_request(house: AnyHouse) -> None:
    """Feedback that is faster than the answer is taken at once, and counts after it (SPEC section 5)."""
    house.sender.hold(URL)
    await house.create(**asynchronous())
    await house.trigger()
    await house.settle()
    token = feedback_token(KEY, "uid1", 1)
    assert await house.deliver(FeedbackArrived(1, token, {"status": "succeed"})) == Taken()
    await house.settle()
    assert house.executions() == {1: State.PROCESSING}
    house.sender.release(URL)
    await house.settle()
    assert house.executions() == {1: State.SUCCEEDED}


LATER = "http://target.test/later"


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("lost", ["a", "b"])
@pytest.mark.parametrize("is_open", [False, True])
async def test_each_instance_that_has_work_in_hand_is_watched(
    house: AnyHouse, qos: int, lost: str, is_open: bool
) -> None:
    """Of an earlier step too, and while a later one is open: its loss ends the attempt (SPEC section 13)."""
    house.announce("a", service="first")
    house.announce("b", service="second")
    accepted = Answer(202, (), b"")
    for url in ("http://a.test", "http://b.test", LATER):
        house.sender.answers(url, accepted)
    if is_open:
        house.sender.hold(LATER)
    steps = [{"url": "service://first/run"}, {"url": "service://second/run"}, {"url": LATER}]
    await house.create(request=steps, qos=qos, timeoutSeconds=600, **{"async": True})
    await house.trigger()
    await house.settle()
    for _ in range(7):
        await house.advance(3_000)
        house.announce(*{"a"} - {lost}, service="first")
        house.announce(*{"b"} - {lost}, service="second")
    await house.settle()
    (record,) = ended(house).values()
    assert (record.state, record.error) == (State.TERMINATED, "instance_lost")
    (end,) = [one for one in house.records() if isinstance(one, AttemptEnded)]
    assert f"instance {lost} of service" in str(end.message)


async def test_checks_poll_until_the_end(house: AnyHouse) -> None:
    """The first check comes `checkRateSeconds` after the chain's end (SPEC section 5)."""
    check = "http://target.test/check"
    house.sender.answers(
        check, Answer(200, body=b'{"status": ""}'), Answer(200, body=b'{"status": "succeed"}')
    )
    await house.create(**asynchronous(checkUrl=check, checkRateSeconds=2))
    await house.trigger()
    await house.advance(5_000)
    assert house.sender.urls() == [URL, check, check]
    assert house.executions() == {1: State.SUCCEEDED}


async def test_an_attempt_runs_out_of_time(house: AnyHouse) -> None:
    """The limit of an attempt holds whatever the target does (SPEC section 2)."""
    house.sender.hold(URL)
    await house.create(timeoutSeconds=5)
    await house.trigger()
    await house.advance(5_100)
    assert ended(house)[1].error == "500"
    house.sender.release(URL)


async def test_cancelling_is_immediate(house: AnyHouse) -> None:
    """A live execution ends at once (SPEC section 10)."""
    house.sender.hold(URL)
    await house.create()
    await house.trigger()
    await house.settle()
    assert await house.deliver(CancelRequested(1, "enough")) == Taken()
    assert house.executions() == {1: State.CANCELLED}
    house.sender.release(URL)


async def test_a_job_that_is_there_answers_creation(house: AnyHouse) -> None:
    """The same definition: unchanged; another one: a conflict (SPEC section 10)."""
    assert await house.create() == Taken()
    assert await house.create() == Unchanged()
    reply = await house.create(jobName="another")
    assert isinstance(reply, Refusal)
    assert reply.code is RefusalCode.CONFLICT


async def test_a_destroyed_job_leaves_its_counters(house: AnyHouse) -> None:
    """A later life goes on counting under a new uid (SPEC section 10)."""
    await house.create()
    await house.trigger()
    await house.settle()
    assert await house.deliver(Destroyed()) == Taken()
    assert await house.host.read("job") is None
    assert isinstance(await house.trigger(), Refusal)
    await house.crash()
    await house.recover()
    assert await house.create() == Taken()
    started = await house.trigger()
    assert isinstance(started, Started)
    assert started.execute_number == 2
    assert started.uid != "uid1"


async def test_an_update_brings_a_new_revision(house: AnyHouse) -> None:
    """Readers see the definition that is in force (SPEC section 10)."""
    await house.create(timer={"dueTime": "1h", "period": "1h"})
    definition = describe(timer={"dueTime": "2s", "period": "0s"})
    assert await house.host("job", Command(Updated(0), definition=definition)) == Taken()
    job = await house.host.read("job")
    assert job is not None
    assert job.document is not None
    assert job.document.head.revision == 2
    await house.advance(3_000)
    assert house.executions() == {1: State.SUCCEEDED}


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("crashes", [(), ("before",), ("after",), ("before", "after")])
async def test_an_update_of_a_one_time_job_waits_for_what_runs(
    house: AnyHouse, qos: int, crashes: tuple[str, ...]
) -> None:
    """Whatever `overlapPolicy` says, the new one starts with the end of the old one (SPEC section 10)."""
    first, second = "http://target.test/first", "http://target.test/second"
    house.sender.hold(first)
    await house.create(timer=None, qos=qos, request=[{"url": first}])
    await house.settle()
    if "before" in crashes:
        await house.crash()
        house.sender.hold(first)
        await house.recover()
    definition = describe(timer=None, qos=qos, request=[{"url": second}])
    assert await house.host("job", Command(Updated(0), definition=definition)) == Taken()
    if qos == 1 or not crashes:
        assert house.executions() == {1: State.PROCESSING, 2: State.ENQUEUED}
    if "after" in crashes:
        await house.crash()
        await house.recover()
    else:
        house.sender.release(first)
    await house.settle()
    is_lost = qos == 0 and bool(crashes)
    assert house.executions() == {1: State.TERMINATED if is_lost else State.SUCCEEDED, 2: State.SUCCEEDED}
    assert house.sender.urls().count(second) <= 1


async def test_a_pause_keeps_the_run_that_an_update_owes(house: AnyHouse) -> None:
    """It never started, so it does when the job is resumed, over a crash in between (SPEC section 10)."""
    first, second = "http://target.test/first", "http://target.test/second"
    house.sender.hold(first)
    await house.create(timer=None, qos=1, request=[{"url": first}])
    await house.settle()
    definition = describe(timer=None, qos=1, request=[{"url": second}])
    assert await house.host("job", Command(Updated(0), definition=definition)) == Taken()
    assert await house.deliver(Paused()) == Taken()
    await house.crash()
    await house.recover()
    await house.settle()
    assert second not in house.sender.urls()
    assert isinstance(await house.deliver(Activated()), Reactivated)
    await house.settle()
    assert house.executions() == {1: State.CANCELLED, 2: State.CANCELLED, 3: State.SUCCEEDED}
    assert house.sender.urls().count(second) == 1


async def test_fire_all_runs_late_firings_in_order(house: AnyHouse) -> None:
    """Found together within the grace, none of them is an overlap (SPEC section 3)."""
    await house.create(timer={**SECONDLY, "misfire": {"policy": "fire_all"}})
    await house.crash()
    house.clock.advance(5_000)
    await house.recover()
    await house.settle()
    firings = [one for one in house.records() if isinstance(one, FiringRecord)]
    assert {one.reason for one in firings} == {None}
    assert len(firings) >= 5
    moments = [one.planned_at for one in firings]
    assert moments == sorted(moments)


async def test_a_backfill_outlives_a_crash(house: AnyHouse) -> None:
    """What waits of it is durable at qos 0 too, as an accepted trigger is (SPEC sections 3 and 8)."""
    url = "http://target.test/run"
    await house.create(timer={"period": "external"}, request=[{"url": url}])
    house.sender.hold(url)
    past = tuple(house.clock.now().wall - HOUR * ago for ago in (3, 2, 1))
    assert isinstance(await house.deliver(Backfilled(past)), StartedMany)
    await house.settle()
    await house.crash()
    await house.recover()
    await house.settle()
    assert house.executions() == {1: State.TERMINATED, 2: State.SUCCEEDED, 3: State.SUCCEEDED}


@pytest.mark.parametrize("policy", ["allow", "cancel_running"])
async def test_a_backlog_runs_one_after_another(house: AnyHouse, policy: str) -> None:
    """Under every policy, over a crash in its middle, and firings on time wait (SPEC section 3)."""
    url = "http://target.test/run"
    misfire = {"policy": "fire_all", "graceSeconds": 1, "limit": 3}
    timer = {"dueTime": "10s", "period": "10s", "misfire": misfire}
    await house.create(timer=timer, overlapPolicy=policy, qos=1, timeoutSeconds=100, request=[{"url": url}])
    await house.crash()
    house.clock.advance(35_000)
    house.sender.hold(url)
    await house.recover()
    await house.settle()
    assert set(house.executions().values()) == {State.PROCESSING, State.ENQUEUED}
    await house.crash()
    house.sender.hold(url)
    await house.recover()
    await house.advance(11_000)
    waiting = house.executions()
    assert len(waiting) >= 4
    assert waiting == dict.fromkeys(waiting, State.ENQUEUED) | {1: State.PROCESSING}
    house.sender.release(url)
    await house.settle()
    assert house.executions() == dict.fromkeys(waiting, State.SUCCEEDED)


async def test_a_pause_holds_over_a_crash(house: AnyHouse) -> None:
    """Paused jobs do not fire; what fell into the pause is counted (SPEC section 10)."""
    await house.create(timer=SECONDLY)
    assert await house.deliver(Paused()) == Taken()
    await house.crash()
    await house.recover()
    await house.advance(6_000)
    assert house.sender.urls() == []
    reply = await house.deliver(Activated())
    assert isinstance(reply, Reactivated)
    assert reply.missed >= 5


async def test_a_caught_up_one_shot_fires_once(house: AnyHouse) -> None:
    """Once, at `dueTime`, and in a pause at its end, over a crash after it (SPEC section 3)."""
    await house.create(timer={"dueTime": "2s", "period": "0s"}, qos=1)
    assert await house.deliver(Paused()) == Taken()
    await house.advance(5_000)
    assert await house.deliver(Activated("fire_once")) == Reactivated(1)
    await house.settle()
    await house.crash()
    await house.recover()
    await house.advance(5_000)
    assert house.executions() == {1: State.SUCCEEDED}


async def test_nothing_of_a_disabled_job_runs(house: AnyHouse) -> None:
    """Over a crash too; what runs already ends. Enabled, it goes on with its plan (SPEC section 2)."""
    house.sender.hold(URL)
    await house.create(timer=SECONDLY)
    await house.advance(1_000)
    await disable(house, disabled=True)
    house.sender.release(URL)
    await house.advance(2_000)
    assert house.executions() == {1: State.SUCCEEDED}
    await house.crash()
    await house.recover()
    reply = await house.trigger()
    assert isinstance(reply, Refusal)
    assert reply.code is RefusalCode.DISABLED
    await house.advance(2_000)
    assert house.executions() == {1: State.SUCCEEDED}
    await disable(house, disabled=False)
    await house.advance(2_000)
    assert house.executions() == dict.fromkeys((1, 2, 3), State.SUCCEEDED)
    ledger = [one for batch in house.batches() for one in batch.records if isinstance(one, FiringRecord)]
    moments = {one.planned_at: one.reason for one in ledger}
    assert list(moments.values()).count("disabled") >= 4


async def disable(house: AnyHouse, *, disabled: bool) -> None:
    """As PUT does it."""
    changed = describe(timer=SECONDLY, disabled=disabled)
    assert await house.host("job", Command(Updated(0, keeps_schedule=True), definition=changed)) == Taken()


async def test_missed_firings_become_one(house: AnyHouse) -> None:
    """`fire_once` after downtime: one late firing and the run before it (SPEC section 3)."""
    await house.create(timer={"dueTime": "10s", "period": "10s", "misfire": {"graceSeconds": 5}})
    await house.crash()
    house.clock.advance(100_000)
    await house.recover()
    await house.settle()
    ledger = [one for one in house.records() if isinstance(one, FiringRecord)]
    runs = [one for one in ledger if one.reason == "misfire"]
    assert len(runs) == 1
    assert [one.outcome for one in ledger].count(FiringOutcome.LATE) == 1


async def test_a_known_key_is_recalled_over_a_crash(house: AnyHouse) -> None:
    """`Idempotency-Key` is committed with the turn that it guards (SPEC section 10)."""
    await house.create()
    now = house.clock.now().wall

    async def trigger(digest: bytes) -> Any:
        remembered = Remembered("trigger/job", "key", digest, b"", now)
        return await house.host("job", Command(Triggered(), remembered=remembered, answer=write))

    first = await trigger(b"one")
    assert isinstance(first, Started)
    await house.crash()
    await house.recover()
    again = await trigger(b"one")
    assert isinstance(again, Recalled)
    assert again.same_digest
    assert json.loads(again.answer)["execute_number"] == 1
    assert (await trigger(b"two")).same_digest is False


async def test_a_promised_notification_survives(house: AnyHouse) -> None:
    """An outbox delivery goes on after a crash until it is delivered (SPEC section 7)."""
    hook = "http://target.test/hook"
    notification = [{"url": hook, "stateEquals": ["finalSucceed"], "guarantee": "outbox"}]
    house.sender.hold(hook)
    await house.create(notification=notification)
    await house.trigger()
    await house.settle()
    assert hook in house.sender.urls()
    await house.crash()
    await house.recover()
    assert house.sender.urls() == [hook]
    assert house.delivery_states()["finalSucceed"] == "delivered"


async def test_a_notification_that_was_lost_is_given_up(house: AnyHouse) -> None:
    """Without a guarantee it was in memory alone, and is pending in the history (SPEC section 7)."""
    hook = "http://target.test/hook"
    await house.create(notification=[{"url": hook, "stateEquals": ["finalSucceed"]}])
    house.sender.answers(hook, *[500] * 9)
    await house.trigger()
    await house.settle()
    assert house.delivery_states() == {"finalSucceed": "pending"}
    (name,) = {one.delivery_id for one in house.records() if isinstance(one, DeliveryRecord)}
    await house.crash()
    await house.recover()
    house.sender.requests.clear()
    assert not await house.host.resend(name)
    assert not await house.host.dismiss(f"acme|{name}"), "it is none of another tenant"
    assert await house.host.dismiss(name)
    assert house.delivery_states() == {"finalSucceed": "dismissed"}
    assert not await house.host.dismiss(name)
    await house.advance(120_000)
    assert house.sender.urls() == []


async def test_of_two_nodes_a_living_one_keeps_its_notification(cluster: DaprHouse) -> None:
    """It is not lost while the node lives that has it; that one can give it up, and another one after it."""
    hook, two = "http://target.test/hook", await cluster.add("two")
    cluster.sender.answers(hook, *[500] * 9)
    for job_id in map(str, range(8)):
        await cluster.create(job_id, notification=[{"url": hook, "stateEquals": ["finalSucceed"]}])
        await cluster.trigger(job_id)
    await cluster.settle()
    here = [f"{uid}-1-0" for uid in uids_of(cluster.nodes["one"])]
    there = [f"{uid}-1-0" for uid in uids_of(two)]
    assert here
    assert there
    for name in there[1:]:
        assert not await cluster.host.dismiss(name)
        assert await two.host.dismiss(name)
    await cluster.crash("two")
    assert not await cluster.host.dismiss(there[0]), "nobody knows yet that it is gone"
    await cluster.recover()
    assert await cluster.host.dismiss(there[0])
    assert await cluster.host.dismiss(here[0])


def uids_of(node: DaprNode) -> list[str]:
    """The jobs of which it has notifications in memory."""
    records = [one for batch, _ in node.history.batches for one in batch.records]
    return sorted(
        {
            one.delivery_id.rsplit("-", 2)[0]
            for one in records
            if isinstance(one, DeliveryRecord) and one.holder.startswith(f"{node.name} ")
        }
    )


async def test_history_hears_of_what_a_dead_process_recorded(house: AnyHouse) -> None:
    """What became of every execution reaches the history (SPEC section 8)."""
    await house.create(qos=1)
    await house.trigger()
    await house.settle()
    await house.crash()
    await house.recover()
    await house.settle()
    given = [batch for batch, durable in house.history_of_now().batches if durable]
    states = [one.state for batch in given for one in batch.records if isinstance(one, ExecutionRecord)]
    assert State.SUCCEEDED in states


async def test_a_ring_for_nobody_leaves_nothing(house: AnyHouse) -> None:
    """Events for absent jobs are refused and cost no memory."""
    assert isinstance(await house.trigger("nobody"), Refusal)
    assert house.host.jobs_held == 0


async def test_a_connection_that_fails_is_retried(house: AnyHouse) -> None:
    """No answer is error 500 (SPEC section 5), and a policy retries it (SPEC section 6)."""
    house.sender.answers(URL, Fault(FaultKind.CONNECT, "refused"), 200)
    await house.create(retry=[{"errorEquals": "500", "intervalSeconds": 2}])
    await house.trigger()
    await house.advance(3_000)
    assert house.sender.urls() == [URL, URL]
    assert house.executions() == {1: State.SUCCEEDED}


async def test_creation_of_one_id_by_many_has_one_winner(house: AnyHouse) -> None:
    """One life begins, the others see it (SPEC section 10)."""
    replies = await asyncio.gather(*(house.create() for _ in range(10)))
    assert replies.count(Taken()) == 1
    assert replies.count(Unchanged()) == 9


def write(reply: object) -> bytes:
    """A reply as the API keeps it."""
    return msgspec.json.encode(reply)


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_result_is_kept_over_a_crash(house: AnyHouse, qos: int) -> None:
    """With the turn that ended the execution: the next process still has it for the history."""
    house.sender.answers(URL, Answer(200, (("content-type", "text/plain"),), b"seven"))
    await house.create(keepResult=True, qos=qos)
    await house.trigger()
    await house.settle()
    assert house.executions() == {1: State.SUCCEEDED}
    await house.crash()
    await house.recover()
    await house.settle()
    found = {
        (batch.sequence, one) for batch in house.batches() for one in batch.records if type(one) is ResultKept
    }
    assert [one for _, one in found] == [ResultKept(1, b"seven", 200, "text/plain")]


async def test_who_changed_a_job_is_written_down_once_whatever_dies(house: AnyHouse) -> None:
    """With the change, on each placement and at qos 0: the next process still has it for the history."""
    act = Act("triggerJob", "Anna", key_id="k1", address="192.0.2.1")
    await house.create(timer={"dueTime": "1h", "period": "1h"})
    await house.host("job", Command(Triggered(), act=act))
    await house.host("job", Command(Paused(), act=msgspec.structs.replace(act, operation="switchJob")))
    await house.settle()
    await house.crash()
    await house.recover()
    await house.settle()
    found = [(batch.sequence, one) for batch in house.batches() for one in batch.records]
    lines = {(at, one.act.operation, one.act.who) for at, one in found if isinstance(one, Audited)}
    assert sorted((operation, who) for _, operation, who in lines) == [
        ("switchJob", "Anna"),
        ("triggerJob", "Anna"),
    ]
    # By this moment the history's lists find who triggered.
    batches = [(batch.at, one) for batch in house.batches() for one in batch.records]
    triggered = {(at, one.execute_number) for at, one in batches if isinstance(one, Audited)}
    made = {(one.created_at, one.execute_number) for _, one in batches if isinstance(one, ExecutionRecord)}
    assert made < triggered
