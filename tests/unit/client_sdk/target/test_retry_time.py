"""How long work from a queue may take so that its retries fit (SPEC section 13)."""

from typing import Any

from client_sdk.models import parse_definition
from client_sdk.models.step import RequestStep
from client_sdk.target import job
from client_sdk.target.retry_time import (
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
