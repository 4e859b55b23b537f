"""Steps in queues: published, ended, reconfigured, withdrawn (SPEC section 13)."""

import json
from typing import Any

import pytest

from scheduler_service.domain.document import PartsQueued
from scheduler_service.domain.effects import Inform, ReconfigureParts, WithdrawParts
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.domain.events import (
    CancelRequested,
    FeedbackArrived,
    PartEnded,
    PartProgressed,
    Resumed,
    Triggered,
    Updated,
)
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.parts import PartEnd, PartName
from scheduler_service.domain.records import StepEnded
from scheduler_service.domain.replies import Refusal, Taken, Unchanged
from scheduler_service.engine.scope import feedback_token
from scheduler_service.engine.snapshot import decode, encode
from tests.unit.engine.parts.queue_rig import NOBODYS, STEP, end, parts_of, queued
from tests.unit.engine.rig import START, Rig, program

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


def test_a_part_that_was_lost_too_often() -> None:
    """It is a timeout, so that policies for one fit."""
    rig = queued()
    end(rig, said=PartEnd(error="timeout", failure_type=FailureType.TIMEOUT, message="lost"))
    assert (rig.execution(1).error, rig.execution(1).failure_type) == ("timeout", FailureType.TIMEOUT)


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


def test_a_mixed_end_is_partial() -> None:
    """Some of the parallel parts fail."""
    rig = queued(STEP | {"parallelism": 2})
    end(rig, 0)
    end(rig, 1, FAILED)
    assert rig.execution(1).error == "partial"


def test_late_doubled_and_foreign_ends_change_nothing() -> None:
    """A part ends once; what nobody awaits is said so, so that its row can go."""
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


def test_an_attempt_over_its_limit_withdraws_its_parts() -> None:
    """Waiting in the queue counts as well."""
    rig = queued()
    rig.pass_time(60_000)
    assert rig.execution(1).error == "500"
    assert rig.of(WithdrawParts, rig.effects) == [WithdrawParts("uid", 1, 1)]


def test_a_crash_publishes_nothing_again() -> None:
    """At qos 1 the parts are durable by themselves, and so is what is known of their ends."""
    rig = queued(STEP | {"parallelism": 2}, qos=1)
    end(rig, 0)
    rig.restart()
    assert rig.effects == []
    rig.deliver(PartEnded(PartName("uid", 1, 1, 0, 1), PartEnd(instance="w"), NOBODYS))
    assert rig.states() == [S.SUCCEEDED]


def test_a_lost_execution_leaves_no_part() -> None:
    """At qos 0 the execution is lost, and what it had published is withdrawn."""
    rig = queued()
    rig.restart()
    assert rig.execution(1).error == "lost"
    assert rig.of(WithdrawParts, rig.effects) == [WithdrawParts("uid", 1)]


def test_a_host_that_looks_again_changes_nothing() -> None:
    """A failed write in the same process leaves the parts where they are."""
    rig = queued(qos=1)
    rig.effects.clear()
    rig.deliver(Resumed())
    assert rig.effects == []


def test_the_phase_survives_the_snapshot() -> None:
    """With what has ended so far."""
    rig = queued(STEP | {"parallelism": 2}, qos=1)
    end(rig, 1)
    assert rig.document is not None
    phase = decode(encode(rig.document)).contexts[1].phase
    assert isinstance(phase, PartsQueued)
    assert phase == rig.context(1).phase


def test_an_update_reconfigures_running_parts() -> None:
    """The live execution keeps its definition, but its parts follow the new options of the same step."""
    rig = queued()
    rig.programs[2] = program(request=[STEP | {"specificInstances": ["b"], "leaseSeconds": 5}])
    rig.deliver(Updated(2))
    (changed,) = rig.of(ReconfigureParts, rig.effects)
    assert (changed.name.execute_number, changed.name.step) == (1, 0)
    assert (changed.options.specific, changed.options.lease, changed.options.renew) == (("b",), 5_000, 2_500)


def test_an_update_without_that_step_leaves_them() -> None:
    """There is nothing that the parts could follow."""
    rig = queued()
    rig.programs[2] = program(request=[{"url": "http://target.test/"}])
    rig.deliver(Updated(2))
    assert rig.of(ReconfigureParts, rig.effects) == []


def test_progress_of_a_part_is_the_jobs() -> None:
    """Said while the lease is renewed: shown, and told as `inprogress`."""
    rig = queued(notification=[{"url": "http://caller.test/"}])
    name = parts_of(rig)[0].name
    assert isinstance(rig.deliver(PartProgressed(name, "1/4", "so far")).reply, Taken)
    assert rig.execution(1).progress == "1/4"
    assert [event for event, _ in rig.told()] == ["inprogress"]
    end(rig)
    assert isinstance(rig.deliver(PartProgressed(name, "4/4")).reply, Unchanged)


def test_parallel_parts_report_each_for_itself() -> None:
    """In an asynchronous job, whose outcome comes from feedback."""
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


@pytest.mark.parametrize(
    ("step", "pointer", "code"),
    [
        ({"url": "queue://"}, "/request/0/url", "invalid"),
        ({"url": "queue://a b"}, "/request/0/url", "invalid"),
        ({"url": "queue://work", "serviceName": "s"}, "/request/0/serviceName", "misplaced"),
        ({"url": "queue://work", "route": "hash"}, "/request/0/route", "misplaced"),
        ({"url": "queue://work", "timeoutSeconds": 1}, "/request/0/timeoutSeconds", "misplaced"),
        ({"url": "queue://work", "successCodes": [204]}, "/request/0/successCodes", "misplaced"),
        ({"url": "queue://work", "followRedirects": 3}, "/request/0/followRedirects", "misplaced"),
        ({"url": "queue://work", "parallelism": 1_001}, "/request/0/parallelism", "range"),
        (
            {"url": "queue://work", "parallelism": 3, "specificInstances": ["a", "b"]},
            "/request/0/parallelism",
            "range",
        ),
        (
            {"url": "queue://work", "specificInstances": ["a", "b", "a"]},
            "/request/0/specificInstances/2",
            "duplicate",
        ),
        (
            {"url": "queue://work", "leaseSeconds": 5, "renewSeconds": 5},
            "/request/0/renewSeconds",
            "range",
        ),
        ({"url": "http://target.test/", "route": "hash"}, "/request/0/route", "misplaced"),
        ({"url": "http://target.test/", "tags": ["a"]}, "/request/0/tags", "misplaced"),
        ({"url": "service://s/", "priority": 1}, "/request/0/priority", "misplaced"),
    ],
)
def test_fields_that_do_not_fit_are_refused(step: dict[str, Any], pointer: str, code: str) -> None:
    """Each by its pointer, so that none is silently ignored."""
    with pytest.raises(DefinitionError) as refused:
        program(request=[step])
    assert (pointer, code) in [(one.pointer, one.code) for one in refused.value.problems]


@pytest.mark.parametrize(
    ("parallelism", "named"), [(2, ["a", "b"]), (2, ["a", "b", "c"]), (2, []), (1, ["a"])]
)
def test_as_many_parts_as_instances_are_taken(parallelism: int, named: list[str]) -> None:
    """Each part goes to another instance; nobody named: to anybody (SPEC section 13)."""
    assert program(request=[STEP | {"parallelism": parallelism, "specificInstances": named}]).steps


def test_what_says_nothing_else_than_the_default_is_taken() -> None:
    """A step that is written out in full is none the worse for it."""
    assert program(
        request=[STEP | {"followRedirects": 0, "successCodes": ["2xx"], "timeoutSeconds": None}]
    ).steps


@pytest.mark.parametrize("place", ["cancelUrl", "checkUrl", "notification"])
def test_only_steps_go_to_queues(place: str) -> None:
    """Checks, notifications and cancelUrl are sent."""
    entry = {"url": "queue://work"}
    with pytest.raises(DefinitionError) as refused:
        program(**{place: [entry] if place == "notification" else entry, "async": True})
    assert any(one.code == "misplaced" for one in refused.value.problems)


def test_a_part_that_cannot_be_written_is_not_published() -> None:
    """Its body names what no answer gave: the error is that of any step."""
    rig = Rig(
        request=[{"url": "http://t.test/first"}, {"url": "queue://work", "body": "${$.missing}"}]
    ).create()
    rig.deliver(Triggered())
    rig.answer(200, {})
    assert parts_of(rig) == []
    assert rig.execution(1).failure_type is FailureType.TEMPLATE
