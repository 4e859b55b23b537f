"""Jobs declared in code (SPEC sections 11, 16)."""

from typing import Any

import pytest

from client_sdk import Client
from client_sdk.errors import DeclarationError
from client_sdk.models import parse_definition
from client_sdk.models.step import RequestStep
from client_sdk.target import Execution, Service, job
from client_sdk.target.declaration import (
    DELAY_SECONDS,
    LEASE_SECONDS,
    RETRIES,
    USUAL_SECONDS,
    time_for_retries,
)
from scheduler_service.domain.parts import QueueOptions
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.program import Surroundings
from tests.rows import each_row
from tests.unit.client_sdk.target.declared_job import import_files


@job()
def nightly() -> None:
    """Cleans up.

    In depth.
    """


def compiled(definition: dict[str, Any]) -> Any:
    return compile_definition(parse_definition(definition), Surroundings()).program


def test_defaults() -> None:
    """jobId is service.module.qualname, jobName the function's name, jobDescription its docstring."""
    definition = nightly.define("reports", prefix="/punctual")
    job_id = f"reports.{__name__}.nightly"
    assert definition == {
        "jobId": job_id,
        "jobName": "nightly",
        "jobDescription": "Cleans up.\n\nIn depth.",
        "creator": "reports",
        "creatorName": "reports",
        "timer": {"period": "external"},
        "paramsSchema": {
            "title": "nightly",
            "type": "object",
            "properties": {},
            "additionalProperties": False,
        },
        "request": [{"url": f"service://reports/punctual/jobs/{job_id}", "body": "${trigger}|json"}],
    }
    assert compiled(definition).timer.kind == "external"


def test_every_member_can_be_given() -> None:
    """As it is named in a definition; an asynchronous job is given its feedback URL, and can be cancelled."""
    definition = import_files.define("files")
    assert definition["jobId"] == "import"
    assert (definition["jobName"], definition["jobDescription"]) == ("Import", "Imports files")
    assert (definition["creator"], definition["async"], definition["timeoutSeconds"]) == ("ops", True, 600)
    assert definition["retry"] == [{"errorEquals": "E1"}, {"errorEquals": ["500"], "maxAttempts": 1}]
    [step] = definition["request"]
    assert step["headers"] == {"X-Mine": "1", "Feedback-Url": "${schedulingFeedbackUrl}"}
    assert step["timeoutSeconds"] == 5
    assert definition["cancelUrl"]["url"] == "service://files/jobs/import/cancel"
    assert compiled(definition).asynchronous


def test_a_declared_function_is_still_a_function() -> None:
    """With its arguments and its result."""
    assert nightly() is None
    assert nightly.__doc__ is not None


def test_a_shard_knows_its_place() -> None:
    """The scheduler writes it into headers; what routing takes goes into the step."""

    @job(step={"route": "shard", "tags": ["big"]})
    def scan(execution: Execution) -> None: ...

    [step] = scan.define("files")["request"]
    assert step["headers"] == {
        "Shard-Index": "${schedulingShardIndex}",
        "Shard-Total": "${schedulingShardTotal}",
    }
    assert (step["route"], step["tags"]) == ("shard", ["big"])


def test_work_may_go_to_a_queue_and_be_signed() -> None:
    """Then nobody is called."""

    @job(queue="imports")
    def fetch(name: str) -> None: ...

    [step] = fetch.define("files", sign="hooks")["request"]
    assert step == {"url": "queue://imports", "body": "${trigger}|json", "sign": "hooks"}


async def test_work_of_a_queue_is_no_services() -> None:
    """A service is called and claims nothing: such a job would wait for ever."""

    @job(job_id="fetch", queue="imports")
    def fetch() -> None: ...

    async with Client("http://scheduler.test") as client:
        service = Service("files", client=client, address="http://127.0.0.1:9", signals=())
        with pytest.raises(DeclarationError, match="give it to a Worker"):
            service.add(fetch)
        with pytest.raises(DeclarationError, match="fetch goes to queue imports"):
            Service("files", client=client, address="http://127.0.0.1:9", jobs=[fetch], signals=())
    assert service.definitions() == []


@each_row(
    ("given", "declared"),
    [
        ({}, None),
        ({"cancel_url": True}, {"url": "service://files/jobs/stop/cancel"}),
        ({"cancel_url": "service:/stop"}, {"url": "service:/stop"}),
        (
            {"cancel_url": {"method": "DELETE", "url": "service:/x"}},
            {"method": "DELETE", "url": "service:/x"},
        ),
        ({"asynchronous": True}, {"url": "service://files/jobs/stop/cancel"}),
        ({"asynchronous": True, "cancel_url": False}, None),
    ],
)
def test_a_cancel_url_is_declared(given: Any, declared: Any) -> None:
    """The SDK's own or another one; an asynchronous job has the former unless it says otherwise."""
    definition = job(job_id="stop", **given)(nightly.function).define("files")
    assert definition.get("cancelUrl") == declared


def test_the_defaults_are_those_of_the_scheduler() -> None:
    """An SDK that counted with others would give retries no time."""
    options = QueueOptions()
    assert options.lease == LEASE_SECONDS * 1_000
    assert options.retries == RETRIES
    assert options.delay == DELAY_SECONDS * 1_000
    plain = parse_definition({"jobName": "n", "request": [{"url": "queue://q"}]})
    assert plain.timeout_seconds == USUAL_SECONDS


@each_row(
    ("step", "expected"),
    [
        ({}, {"timeoutSeconds": 270}),
        ({"lease_seconds": 30, "unexpected_retry_delay_seconds": 0}, {"timeoutSeconds": 120}),
        ({"lease_seconds": 5, "unexpected_retry_delay_seconds": 1}, {}),
        ({"max_unexpected_retries": 0}, {}),
    ],
)
def test_every_claim_has_a_whole_lease(step: dict[str, Any], expected: dict[str, float]) -> None:
    """Never less than the usual limit, which is not written."""
    assert time_for_retries(RequestStep(url="queue://work", **step)) == expected


def test_work_of_a_worker_can_be_claimed_again() -> None:
    """By default; a given limit stays as it is."""

    @job(queue="work")
    def plain() -> None: ...

    @job(queue="work", timeout_seconds=20)
    def limited() -> None: ...

    definition = plain.define("work")
    assert definition["timeoutSeconds"] == 270
    assert compile_definition(parse_definition(definition), Surroundings()).warnings == ()
    assert limited.define("work")["timeoutSeconds"] == 20
