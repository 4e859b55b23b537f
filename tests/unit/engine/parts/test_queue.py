"""Steps in queues: published, ended, reconfigured, withdrawn (SPEC section 13)."""

import json

from msgspec.structs import replace

from scheduler_service.domain.effects import Inform, ReconfigureParts, WithdrawParts
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import AttemptEnded, StepEnded
from scheduler_service.domain.replies import Refusal, Taken, Unchanged
from scheduler_service.domain.step_parts import PartEnd, PartName
from scheduler_service.domain.texts import ERROR_CHARACTERS, MESSAGE_CHARACTERS
from scheduler_service.domain.turn_events import (
    CancelRequested,
    FeedbackArrived,
    PartEnded,
    PartProgressed,
    Resumed,
    Updated,
)
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.engine.program import Surroundings
from tests.unit.engine.parts.queue_rig import NOBODYS, STEP, claimed, end, parts_of, queued
from tests.unit.engine.rig import START, Rig, program

LOST = PartEnd(
    error="disk", failure_type=FailureType.BUSINESS, message="full", body=b'{"left":0}', instance="w"
)

S = ExecutionState
FAILED = PartEnd(error="e1", failure_type=FailureType.BUSINESS, message="no", instance="w")


def test_a_queue_step_is_published() -> None:
    """One part with all that an instance needs, under the step's own key."""
    rig = queued()
    (part,) = parts_of(rig)
    assert part.name == PartName("uid", 1, 1, 0, 0)
    assert (part.queue, part.total, part.tenant) == ("work", 1, "default")
    assert json.loads(part.request.body or b"") == {"n": 1}
    assert dict(part.request.headers)["Idempotency-Key"] == "uid-1-0"
    assert (part.options.lease, part.options.renew, part.options.retries, part.options.delay) == (
        60_000,
        30_000,
        3,
        10_000,
    )
    assert rig.calls() == []


def test_its_end_is_the_steps() -> None:
    """The data that the instance gave is the response, in templates and in history; the part is forgotten."""
    reader = {"url": "http://target.test/", "body": "${A.x}|json"}
    rig = queued(request=[STEP | {"respEnvName": "A"}, reader])
    assert isinstance(end(rig), Taken)
    assert rig.sent_body() == 1
    (step,) = rig.of(StepEnded, rig.records)
    assert (step.instance, step.exchange.status, step.exchange.response_body) == ("w", 200, b'{"x":1}')
    assert rig.of(WithdrawParts, rig.effects) == [WithdrawParts("uid", 1, 1)]


def test_a_failed_part_fails_the_attempt() -> None:
    """With the code that the instance gave; a retry publishes anew."""
    rig = queued(retry=[{"errorEquals": "e1"}], notification=[{"url": "http://caller.test/"}])
    end(rig, said=FAILED)
    assert rig.states() == [S.FAILED]
    assert [event for event, _ in rig.told()] == ["e1"]
    rig.pass_time(1_000)
    assert [part.name.request_counts for part in parts_of(rig)] == [1, 2]
    assert len({dict(part.request.headers)["Idempotency-Key"] for part in parts_of(rig)}) == 1
    end(rig)
    assert rig.states() == [S.SUCCEEDED]
    # It is a timeout, so that policies for one fit
    rig = queued()
    end(rig, said=PartEnd(error="timeout", failure_type=FailureType.TIMEOUT, message="lost"))
    assert (rig.execution(1).error, rig.execution(1).failure_type) == ("timeout", FailureType.TIMEOUT)
    # What an instance says of its failure is cut
    rig = queued()
    end(rig, said=replace(FAILED, error="e" * 10_000, message="m" * 10_000))
    ended = rig.record_of(AttemptEnded)
    assert (len(ended.error or ""), len(ended.message or "")) == (ERROR_CHARACTERS, MESSAGE_CHARACTERS)


def test_parallel_parts() -> None:
    """As many parts as `parallelism`, each with its index; the step succeeds when all have."""
    step = STEP | {"parallelism": 3, "body": "${schedulingShardIndex}/${schedulingShardTotal}"}
    rig = queued(step)
    assert [part.request.body for part in parts_of(rig)] == [b'"0/3"', b'"1/3"', b'"2/3"']
    assert len({dict(part.request.headers)["Idempotency-Key"] for part in parts_of(rig)}) == 3
    for index in (1, 2, 0):
        assert rig.states() == [S.PROCESSING]
        end(rig, index, PartEnd(body=str(index).encode(), instance="w"))
    assert rig.states() == [S.SUCCEEDED]
    records = rig.of(StepEnded, rig.records)
    assert [record.part for record in records] == [1, 2, 0, None]
    assert records[-1].exchange.response_body == b"[0,1,2]"
    # Parallel parts report each for itself: in an asynchronous job, whose outcome comes from feedback
    rig = queued(STEP | {"parallelism": 2, "body": "${schedulingFeedbackUrl}"}, **{"async": True})
    assert json.loads(parts_of(rig)[1].request.body or b"").endswith("&shard=1")
    end(rig, 0)
    end(rig, 1)
    token = feedback_token(b"key", "uid", 1)
    assert isinstance(rig.deliver(FeedbackArrived(1, token, {"status": "succeed"})).reply, Refusal)
    for shard in (0, 1):
        assert rig.states() == [S.PROCESSING]
        rig.deliver(FeedbackArrived(1, token, {"status": "succeed"}, shard))
    assert rig.states() == [S.SUCCEEDED]


def test_late_doubled_and_foreign_ends_change_nothing() -> None:
    """A part ends once; a part that is not awaited is `Unchanged`, so that its row is removed."""
    rig = queued(STEP | {"parallelism": 2})
    assert isinstance(end(rig, 0), Taken)
    before = rig.document
    assert isinstance(end(rig, 0, FAILED), Taken)
    assert rig.document == before
    for foreign in ({"index": 2}, {"index": -1}, {"counts": 9, "index": 1}, {"step": 1, "index": 1}):
        assert isinstance(end(rig, foreign.pop("index"), **foreign), Unchanged)
    other = PartName("else", 1, 1, 0, 1)
    assert isinstance(rig.deliver(PartEnded(other, PartEnd(), NOBODYS)).reply, Unchanged)
    end(rig, 1)
    assert isinstance(end(rig, 1), Unchanged)


def test_cancelling_withdraws_the_parts() -> None:
    """Nobody claims them any more, and `cancelUrl` is called."""
    rig = queued(cancelUrl={"url": "http://target.test/stop"})
    rig.deliver(CancelRequested(1))
    assert rig.states() == [S.CANCELLED]
    assert rig.of(WithdrawParts, rig.effects) == [WithdrawParts("uid", 1, 1)]
    assert len(rig.of(Inform, rig.effects)) == 1
    # The limit counts from the first claim
    rig = queued()
    claimed(rig)
    rig.pass_time(60_000)
    assert rig.execution(1).error == "500"
    assert rig.of(WithdrawParts, rig.effects) == [WithdrawParts("uid", 1, 1)]
    # At qos 0 the execution is lost, and what it had published is withdrawn
    rig = queued()
    rig.restart()
    assert rig.execution(1).error == "lost"
    assert rig.of(WithdrawParts, rig.effects) == [WithdrawParts("uid", 1)]


def test_a_crash_publishes_nothing_again() -> None:
    """At qos 1 the parts are durable by themselves, and so is what is known of their ends."""
    rig = queued(STEP | {"parallelism": 2}, qos=1)
    end(rig, 0)
    rig.restart()
    assert rig.effects == []
    rig.deliver(PartEnded(PartName("uid", 1, 1, 0, 1), PartEnd(instance="w"), NOBODYS))
    assert rig.states() == [S.SUCCEEDED]
    # A failed write in the same process leaves the parts where they are
    rig = queued(qos=1)
    rig.effects.clear()
    rig.deliver(Resumed())
    assert rig.effects == []


def test_an_update_reconfigures_running_parts() -> None:
    """The live execution keeps its definition, but its parts follow the new options of the same step."""
    rig = queued()
    rig.programs[2] = program(request=[STEP | {"specificInstances": ["b"], "leaseSeconds": 5}])
    rig.deliver(Updated(2))
    (changed,) = rig.of(ReconfigureParts, rig.effects)
    assert (changed.name.execute_number, changed.name.step) == (1, 0)
    assert (changed.options.specific, changed.options.lease, changed.options.renew) == (("b",), 5_000, 2_500)
    # There is nothing that the parts could follow
    rig = queued()
    rig.programs[2] = program(request=[{"url": "http://target.test/"}])
    rig.deliver(Updated(2))
    assert rig.of(ReconfigureParts, rig.effects) == []


def test_progress_of_a_part_is_the_jobs() -> None:
    """Progress with a renewal is shown and notified as `inprogress`."""
    rig = queued(notification=[{"url": "http://caller.test/"}])
    name = parts_of(rig)[0].name
    assert isinstance(rig.deliver(PartProgressed(name, "1/4", "so far")).reply, Taken)
    assert rig.execution(1).progress == "1/4"
    assert [event for event, _ in rig.told()] == ["inprogress"]
    end(rig)
    assert isinstance(rig.deliver(PartProgressed(name, "4/4")).reply, Unchanged)


def test_work_for_a_queue_is_handed_out_three_seconds_early() -> None:
    """`leadSeconds` is 3 where a step goes to a queue, unless the job says otherwise."""
    rig = Rig(request=[STEP], timer={"dueTime": "10s", "period": "0s"}).create()
    rig.pass_time(6_999)
    assert parts_of(rig) == []
    rig.pass_time(1)
    (part,) = parts_of(rig)
    assert part.scheduled_at == START + 10_000
    assert dict(part.request.headers)["X-Scheduled-At"] == "2023-11-14T22:13:30.000Z"
    late = Rig(request=[STEP], leadSeconds=0, timer={"dueTime": "10s", "period": "0s"}).create()
    late.pass_time(9_999)
    assert parts_of(late) == []


def test_a_part_that_cannot_be_written_is_not_published() -> None:
    """Its body names what no answer gave: the error is that of any step."""
    rig = Rig(
        request=[{"url": "http://t.test/first"}, {"url": "queue://work", "body": "${$.missing}"}]
    ).triggered()
    rig.answer(200, {})
    assert parts_of(rig) == []
    assert rig.execution(1).failure_type is FailureType.TEMPLATE


def steps_of(rig: Rig) -> list[StepEnded]:
    """All that was recorded of steps and their parts."""
    return rig.of(StepEnded, rig.records)


def test_the_request_of_a_queue_step_is_recorded() -> None:
    """As the instances got it, whether it succeeded or failed."""
    for said in (None, LOST):
        rig = queued(STEP | {"headers": {"X-Album": "7"}})
        end(rig, said=said)
        (step,) = steps_of(rig)
        (part,) = parts_of(rig)
        exchange = step.exchange
        assert (exchange.url, exchange.method) == ("queue://work", "POST")
        assert (exchange.request_headers, exchange.request_body) == (part.request.headers, b'{"n":1}')
        assert dict(exchange.request_headers)["X-Album"] == "7"
    # With its index; the step as a whole has none
    rig = queued(STEP | {"parallelism": 2, "body": "${schedulingShardIndex}"})
    for index in (1, 0):
        end(rig, index)
    found = {step.part: step.exchange.request_body for step in steps_of(rig)}
    assert found == {0: b'"0"', 1: b'"1"', None: None}
    # Its data, beside the code and the message
    rig = queued()
    end(rig, said=LOST)
    (step,) = steps_of(rig)
    assert (step.error, step.exchange.fault, step.exchange.response_body) == ("disk", "full", b'{"left":0}')


def test_an_attempt_over_its_limit_tells_what_nobody_completed() -> None:
    """The parts that are still in the queue, or in work, each with its request and `timeout`."""
    rig = queued(STEP | {"parallelism": 2, "body": "${schedulingShardIndex}"})
    claimed(rig, 0)
    end(rig, 1)
    rig.pass_time(60_000)
    done, open_one = steps_of(rig)
    assert (done.part, done.error) == (1, None)
    assert (open_one.part, open_one.error, open_one.instance) == (0, "timeout", "w")
    assert json.loads(open_one.exchange.request_body or b"") == "0"
    assert open_one.exchange.request_headers == parts_of(rig)[0].request.headers
    assert open_one.exchange.duration == 60_000
    assert "timeoutSeconds" in str(open_one.exchange.fault)


def test_what_a_part_leaves_for_later_steps_counts_with_the_rest() -> None:
    """All responses of an execution are limited together, that of a part as well (SPEC section 4)."""
    names = [{"url": "http://target.test/", "respEnvName": f"r{n}"} for n in range(4)]
    reader = {"url": "http://target.test/", "body": [*(f"${{r{n}}}|json" for n in range(4)), "${A}|json"]}
    steps = [*names, STEP | {"respEnvName": "A"}, reader]
    rig = Rig(Surroundings(response_bytes=100), request=steps).triggered()
    for _ in names:
        rig.answer(200, "x" * 90)
    end(rig, said=PartEnd(body=b'"' + b"y" * 60 + b'"', instance="w"), step=4)
    assert rig.execution(1).error == "response_too_large"
