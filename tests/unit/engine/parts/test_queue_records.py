"""What the history is told of steps in queues: what was asked, and what was said (SPEC sections 10, 13)."""

import json

from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.parts import PartEnd
from scheduler_service.domain.records import StepEnded
from tests.unit.engine.parts.queue_rig import STEP, end, parts_of, queued
from tests.unit.engine.rig import Rig

LOST = PartEnd(
    error="disk", failure_type=FailureType.BUSINESS, message="full", body=b'{"left":0}', instance="w"
)


def steps_of(rig: Rig) -> list[StepEnded]:
    """All that was recorded of steps and their parts."""
    return rig.of(StepEnded, rig.records)


def test_the_request_of_a_queue_step_is_recorded() -> None:
    """As those who claimed it were given it, whether it succeeded or failed."""
    for said in (None, LOST):
        rig = queued(STEP | {"headers": {"X-Album": "7"}})
        end(rig, said=said)
        (step,) = steps_of(rig)
        (part,) = parts_of(rig)
        exchange = step.exchange
        assert (exchange.url, exchange.method) == ("queue://work", "POST")
        assert (exchange.request_headers, exchange.request_body) == (part.request.headers, b'{"n":1}')
        assert dict(exchange.request_headers)["X-Album"] == "7"


def test_each_part_has_a_request_of_its_own() -> None:
    """With its index; the step as a whole has none."""
    rig = queued(STEP | {"parallelism": 2, "body": "${schedulingShardIndex}"})
    for index in (1, 0):
        end(rig, index)
    found = {step.part: step.exchange.request_body for step in steps_of(rig)}
    assert found == {0: b'"0"', 1: b'"1"', None: None}


def test_what_a_failed_part_gave_is_kept() -> None:
    """Its data, beside the code and the message."""
    rig = queued()
    end(rig, said=LOST)
    (step,) = steps_of(rig)
    assert (step.error, step.exchange.fault, step.exchange.response_body) == ("disk", "full", b'{"left":0}')


def test_an_attempt_over_its_limit_tells_what_nobody_completed() -> None:
    """The parts that are still in the queue, or in work, each with its request and `timeout`."""
    rig = queued(STEP | {"parallelism": 2, "body": "${schedulingShardIndex}"})
    end(rig, 1)
    rig.pass_time(60_000)
    done, open_one = steps_of(rig)
    assert (done.part, done.error) == (1, None)
    assert (open_one.part, open_one.error, open_one.instance) == (0, "timeout", None)
    assert json.loads(open_one.exchange.request_body or b"") == "0"
    assert open_one.exchange.request_headers == parts_of(rig)[0].request.headers
    assert open_one.exchange.duration == 60_000
    assert "timeoutSeconds" in str(open_one.exchange.fault)


def test_a_single_part_over_the_limit_is_the_step() -> None:
    """Nobody claimed it in time."""
    rig = queued()
    rig.pass_time(60_000)
    (step,) = steps_of(rig)
    assert (step.part, step.error, step.exchange.request_body) == (None, "timeout", b'{"n":1}')
