"""Jobs as classes, whose constructors take what the application injects (SPEC section 16)."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from client_sdk import Client, JobFailed
from client_sdk.errors import DeclarationError
from client_sdk.target import Execution, Service, job
from tests.rows import each_row
from tests.unit.client_sdk.target.called_service import place


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


def test_a_class_that_only_calls() -> None:
    """`__call__` does where there is no `run`; the description is the method's where the class has none."""

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


async def test_a_class_without_needs_is_made_by_the_service() -> None:
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


async def test_what_nothing_provides_is_refused_at_once() -> None:
    """When it is declared, and not when it is called for the first time."""
    async with Client("http://scheduler.test") as client:
        service = Service("shop", client=client, address="http://127.0.0.1:9", signals=())
        with pytest.raises(DeclarationError, match="Sale: its constructor takes shop, and nothing provides"):
            service.job()(Sale)
        assert service.definitions() == []


async def test_what_cannot_be_made_fails_the_job(caplog: pytest.LogCaptureFixture) -> None:
    """As any exception that nobody meant, with its text; so does an object of another class."""

    def broken(declared: type[Any]) -> Any:
        raise LookupError("no Shop is bound")

    for provide, said in ((broken, "LookupError: no Shop is bound"), (lambda _: 5, "provide returned int")):
        async with place(provide=provide) as at:
            at.service.job(job_id="sale")(Sale)
            answer = await at.call("sale", {"thing": "tea"})
            assert (answer.status_code, said in answer.json()["message"]) == (500, True)
