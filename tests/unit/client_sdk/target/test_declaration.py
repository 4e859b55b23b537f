"""Jobs declared in code, as functions and as classes (SPEC sections 11, 16)."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from client_sdk import Client, JobFailed
from client_sdk.errors import DeclarationError
from client_sdk.models import parse_definition
from client_sdk.target import Execution, Service, job
from client_sdk.target.declaration import (
    DELAY_SECONDS,
    LEASE_SECONDS,
    RETRIES,
    USUAL_SECONDS,
)
from scheduler_service.domain.step_parts import QueueOptions
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.program import Surroundings
from tests.rows import each_row
from tests.unit.client_sdk.target.called_service import place
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
    # With its arguments and its result
    assert nightly() is None
    assert nightly.__doc__ is not None


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
    # The scheduler writes it into headers; what routing takes goes into the step

    @job(step={"route": "shard", "tags": ["big"]})
    def scan(execution: Execution) -> None: ...

    [step] = scan.define("files")["request"]
    assert step["headers"] == {
        "Shard-Index": "${schedulingShardIndex}",
        "Shard-Total": "${schedulingShardTotal}",
    }
    assert (step["route"], step["tags"]) == ("shard", ["big"])
    # Then nobody is called, and nothing is signed

    @job(queue="imports")
    def fetch(name: str) -> None: ...

    [step] = fetch.define("files", sign="hooks")["request"]
    assert step == {"url": "queue://imports", "body": "${trigger}|json"}
    with pytest.raises(DeclarationError, match="leave out sign"):
        job(queue="imports", sign="hooks")(fetch.function).define("files")


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
    # Work of a worker can be claimed again, by default; a given limit stays as it is

    @job(queue="work")
    def plain() -> None: ...

    @job(queue="work", timeout_seconds=20)
    def limited() -> None: ...

    definition = plain.define("work")
    assert definition["timeoutSeconds"] == 270
    assert compile_definition(parse_definition(definition), Surroundings()).warnings == ()
    assert limited.define("work")["timeoutSeconds"] == 20


class Shop:
    """What an application injects."""

    def __init__(self) -> None:
        self.sold: list[str] = []
        self.open = 0


class Sale:
    """Sells things."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    async def run(self, thing: str, execution: Execution, count: int = 1) -> int:
        """Sells."""
        self.shop.sold += [f"{execution.execute_number} {thing}"] * count
        return len(self.shop.sold)


def test_a_class_is_declared_like_a_function() -> None:
    """jobId is service.module.qualname, jobName its name; its parameters are those of `run`."""
    declared = job(timer={"period": "1h"}, body={"thing": "tea"})(Sale)
    definition = declared.define("shop")
    assert definition["jobId"] == f"shop.{__name__}.Sale"
    assert (definition["jobName"], definition["jobDescription"]) == ("Sale", "Sells things.")
    schema = job()(Sale).define("shop")["paramsSchema"]
    assert (schema["title"], set(schema["properties"]), schema["required"]) == (
        "Sale",
        {"thing", "count"},
        ["thing"],
    )
    assert isinstance(declared(Shop()), Sale)
    # `__call__` does where there is no `run`; the description is the method's where the class has none

    @dataclass
    class Tidy:
        depth: int = 1

        def __call__(self, folder: str = "/") -> str:
            """Tidies."""
            return folder * self.depth

    assert job()(Tidy).define("files")["jobDescription"] == "Tidies."
    assert job()(Tidy).entry == "__call__"

    class Nothing: ...

    with pytest.raises(DeclarationError, match="Nothing: a class is a job by its method run"):
        job()(Nothing)


async def test_each_execution_has_its_object() -> None:
    """Made by `provide`, whichever way the application injects: the object, an awaitable, a context."""
    shop = Shop()

    async def later(declared: type[Any]) -> Any:
        return declared(shop)

    @asynccontextmanager
    async def opened(declared: type[Any]) -> AsyncIterator[Any]:
        shop.open += 1
        yield declared(shop)
        shop.open -= 1

    @contextmanager
    def entered(declared: type[Any]) -> Iterator[Any]:
        yield declared(shop)

    for number, provide in enumerate((lambda declared: declared(shop), later, opened, entered), 1):
        async with place(provide=provide) as at:
            at.service.job(job_id="sale")(Sale)
            answer = await at.call("sale", {"thing": "tea"})
            assert (answer.status_code, answer.json()) == (200, number)
    assert shop.sold == ["7 tea"] * 4
    assert shop.open == 0


async def test_a_context_sees_how_the_work_ends() -> None:
    """An intended failure too: so a transaction that it opens is rolled back."""
    seen: list[str] = []

    class Payment:
        def run(self) -> None:
            raise JobFailed("no money", error="E_MONEY", status=409)

    @contextmanager
    def transaction(declared: type[Any]) -> Iterator[Any]:
        try:
            yield declared()
        except JobFailed as failure:
            seen.append(failure.error)
            raise

    async with place(provide=transaction) as at:
        at.service.job(job_id="pay")(Payment)
        assert (await at.call("pay")).status_code == 409
    assert seen == ["E_MONEY"]


@each_row(
    ("raised", "status", "message"),
    [
        (JobFailed("no money", error="E_MONEY", status=409), 409, "no money"),
        (RuntimeError("oops"), 500, "RuntimeError: oops"),
    ],
)
async def test_a_context_that_suppresses_makes_no_success(
    raised: Exception, status: int, message: str
) -> None:
    """The exception is the end of the work all the same."""

    class Payment:
        def run(self) -> None:
            raise raised

    @asynccontextmanager
    async def logged(declared: type[Any]) -> AsyncIterator[Any]:
        with suppress(Exception):
            yield declared()

    async with place(provide=logged) as at:
        at.service.job(job_id="pay")(Payment)
        answer = await at.call("pay")
        assert (answer.status_code, answer.json()["message"]) == (status, message)


async def test_a_class_without_needs_is_made_by_the_service(caplog: pytest.LogCaptureFixture) -> None:
    """A new object each time; a method that is not async runs in a thread."""

    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def run(self) -> int:
            self.count += 1
            return self.count

    async with place() as at:
        at.service.job(job_id="count")(Counter)
        assert [(await at.call("count")).json() for _ in range(2)] == [1, 1]
    # As any exception that nobody meant, with its text; so does an object of another class

    def broken(declared: type[Any]) -> Any:
        raise LookupError("no Shop is bound")

    for provide, said in ((broken, "LookupError: no Shop is bound"), (lambda _: 5, "provide returned int")):
        async with place(provide=provide) as at:
            at.service.job(job_id="sale")(Sale)
            answer = await at.call("sale", {"thing": "tea"})
            assert (answer.status_code, said in answer.json()["message"]) == (500, True)


def test_what_is_no_function_is_no_job() -> None:
    """Whatever else can be called has no name, no parameters and no docstring of its own."""
    with pytest.raises(DeclarationError, match="of type partial: a job is a function or a class"):
        job()(partial(print, 1))


async def test_an_address_that_nobody_reaches_is_refused_at_once() -> None:
    """When the service is made, and not when it registers."""
    async with Client("http://scheduler.test") as client:
        with pytest.raises(ValueError, match="url 'foo' is not the address of a service"):
            Service("shop", client=client, address="foo", signals=())


async def test_what_nothing_provides_is_refused_at_once() -> None:
    """When it is declared, and not when it is called for the first time."""
    async with Client("http://scheduler.test") as client:
        service = Service("shop", client=client, address="http://127.0.0.1:9", signals=())
        with pytest.raises(DeclarationError, match="Sale: its constructor takes shop, and nothing provides"):
            service.job()(Sale)
        assert service.definitions() == []
