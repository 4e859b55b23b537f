"""The same definitions leave the same history on every host, record by record (SPEC section 15)."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from scheduler_service.demo.demo_jobs import demo_jobs
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.records import (
    AttemptEnded,
    CheckEnded,
    DeliveryRecord,
    ExecutionRecord,
    FiringRecord,
    Record,
    StepEnded,
)
from scheduler_service.domain.wire import Answer
from tests.conformance.hosts.houses import HOUSES, AnyHouse, DaprHouse
from tests.wire.source_example import CHECK, FIVE_MINUTES, STRINGS, WORK, example

pytestmark = pytest.mark.anyio
TARGET = "http://target.test"
KINDS = {ExecutionRecord, FiringRecord, AttemptEnded, StepEnded, CheckEnded, DeliveryRecord}
ENDS = {
    "demo-chain": {State.SUCCEEDED},
    "demo-report": {State.SUCCEEDED},
    "demo-flaky": {State.SUCCEEDED},
    "20220125": {State.SUCCEEDED, State.TERMINATED},
}


def said(**body: object) -> Answer:
    """200 with a JSON body."""
    return Answer(200, (("content-type", "application/json"),), json.dumps(body).encode())


def the_example() -> dict[str, Any]:
    """The source's example job, its services by their address, its first request without a query."""
    text = json.dumps(example()).replace("?feedbackUrl=${schedulingFeedbackUrl}", "")
    for service in ("jobswork", "jobsclient"):
        text = text.replace(f"service://{service}", TARGET)
    definition: dict[str, Any] = json.loads(text)
    return definition


def script(house: AnyHouse) -> None:
    """Answers that retry, that keep checks waiting, and that fail for good at the example's second firing."""
    answers = house.sender.answers
    answers(f"{TARGET}{WORK}", 500, said(student=[{"number": 1}]), 500, 500, 500)
    answers(f"{TARGET}{STRINGS}", said())
    waits, done = said(status="processing", progress="30%"), said(status="succeed", progress="100%")
    answers(f"{TARGET}{CHECK}/20220125?executeNumber=1", waits, done, waits, done)
    answers(f"{TARGET}/price", *[said(article="a", price=3)] * 200)
    answers(f"{TARGET}/flaky/1", 503, 503, 200)
    for number in range(1, 80):
        answers(f"{TARGET}/report/{number}", waits, done)


# Which process had a delivery, that is what hosts differ in.
HOLDER = re.compile(r", holder='[^']*'")


async def live_through(house: AnyHouse) -> Mapping[str, list[tuple[type[Record], str]]]:
    """What the history was given of each job in eleven minutes, in the order of the turns, without uids."""
    script(house)
    for definition in (*demo_jobs(TARGET), the_example()):
        job_id = definition.pop("jobId")
        await house.create(job_id, **definition)
    await house.advance(FIVE_MINUTES * 2 + 60_000)
    histories = {}
    for job_id in ENDS:
        batches = {batch.sequence: batch for batch in house.batches(job_id)}
        histories[job_id] = [
            (type(record), HOLDER.sub("", repr(record).replace(batch.uid, "UID")))
            for _, batch in sorted(batches.items())
            for record in batch.records
        ]
        assert {*house.executions(job_id).values()} - {State.PROCESSING} == ENDS[job_id]
    await house.close()
    return histories


async def test_every_host_leaves_the_same_history() -> None:
    """The demo's jobs and the source's example: every record is equal, with its moments and bodies."""
    reference, *others = [await live_through(await make().start()) for make in HOUSES.values()]
    assert {kind for records in reference.values() for kind, _ in records} >= KINDS
    for other in others:
        for job_id, records in reference.items():
            assert other[job_id] == records


FIRST, SECOND, HOOK = (f"http://target.test/{name}" for name in ("first", "second", "hook"))


async def test_an_execution_outlives_its_node_on_each_server(served: DaprHouse) -> None:
    """It goes on with the step that was in flight, and its notification is delivered once."""
    told = {"url": HOOK, "stateEquals": ["finalSucceed"], "guarantee": "outbox"}
    await served.create(qos=1, request=[{"url": FIRST}, {"url": SECOND}], notification=[told])
    served.sender.hold(SECOND)
    await served.trigger()
    await served.settle()
    assert served.sender.urls() == [FIRST, SECOND]
    await served.crash()
    await served.recover()
    assert served.sender.urls() == [SECOND, HOOK]
    assert served.executions() == {1: State.SUCCEEDED}
