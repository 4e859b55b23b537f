"""A function's parameters as those of a job; the trace of its call (SPEC sections 11, 16)."""

import asyncio
from datetime import timedelta
from typing import Annotated, Any

import fastapi
import httpx
import pytest
from opentelemetry import trace
from pydantic import Field

from client_sdk import Client
from client_sdk.errors import DeclarationError
from client_sdk.target import Execution
from client_sdk.target.execution import AttemptReport, FeedbackReporter
from client_sdk.target.parameters import Parameters, WrongParameters
from client_sdk.traces import current_traceparent, joined
from scheduler_service.engine.params_schema import check_parameters
from tests.rows import each_row
from tests.unit.client_sdk.target.called_service import place
from tests.unit.client_sdk.target.declared_job import Window, import_files


def test_parameters_are_described_and_read() -> None:
    """The schema that refuses a wrong trigger and the reading of the body say the same."""
    schema = import_files.define("files")["paramsSchema"]
    for wrong in ({"folder": 7}, {"window": {}}, {"other": 1}):
        assert check_parameters(schema, wrong)
        with pytest.raises(WrongParameters):
            import_files.parameters.take(wrong)
    given = {"folder": "out", "window": {"start": 1}}
    assert check_parameters(schema, given) == []
    assert import_files.parameters.take(given) == {"folder": "out", "window": Window(start=1, end=10)}
    assert import_files.parameters.read(b"") == {"folder": "in", "window": None}


def test_parameters_take_what_pydantic_takes() -> None:
    """Constraints, defaults that are made anew, names that pydantic has itself, and the rest in **."""

    def work(
        model_config: Annotated[int, Field(ge=1)],
        json: list[str],
        pause: timedelta = timedelta(seconds=1),
        *,
        execution: Execution,
        **rest: Any,
    ) -> None: ...

    parameters = Parameters(work)
    read = parameters.read(b'{"model_config": 2, "json": ["a"], "pause": 3, "more": [1]}')
    assert read == {"model_config": 2, "json": ["a"], "pause": timedelta(seconds=3), "more": [1]}
    assert parameters.required == ["model_config", "json"]
    assert "execution" not in parameters.schema["properties"]
    execution = Execution(job_id="one")
    assert parameters.fill(read, execution)["execution"] is execution
    with pytest.raises(WrongParameters) as caught:
        parameters.read(b'{"model_config": 0, "json": ["a", 7]}')
    assert [flaw.pointer for flaw in caught.value.flaws] == ["/model_config", "/json/1"]


def make_window() -> Window:
    return Window(start=1)


def test_dependencies_of_other_frameworks_are_refused() -> None:
    """Nobody resolves them here, and a caller could supply the dependency: classes and provide do that."""

    def by_default(window: Window = fastapi.Depends(make_window)) -> None: ...  # noqa: B008

    def by_annotation(window: Annotated[Window, fastapi.Depends(make_window)]) -> None: ...

    def of_request(days: int = fastapi.Query(3)) -> None: ...

    for function, name in ((by_default, "window"), (by_annotation, "window"), (of_request, "days")):
        with pytest.raises(DeclarationError) as caught:
            Parameters(function)
        assert f"{function.__qualname__}: parameter {name} is " in str(caught.value)

    def constrained(days: Annotated[int, fastapi.Query(ge=1)] = 3) -> None: ...

    assert Parameters(constrained).schema["properties"]["days"]["minimum"] == 1
    for function in (by_default, by_annotation):
        with pytest.raises(DeclarationError, match="dependencies come by a class and provide=…"):
            Parameters(function)


@each_row(("count", "shown"), [(50, 50), (51, 51), (1_000, 51), (1_001, 1), (200_000, 1)])
def test_flaws_of_a_hostile_body_are_counted(count: int, shown: int) -> None:
    """Whoever may call a service may send a million wrong values: the answer stays small."""

    def work(one: int = 0) -> None: ...

    body = b"{" + b",".join(b'"%x":1' % name for name in range(count)) + b"}"
    with pytest.raises(WrongParameters) as raised:
        Parameters(work).read(body)
    assert len(raised.value.flaws) == shown
    assert len(str(raised.value)) < 10_000
    if count > 50:
        assert raised.value.flaws[-1].code == "too_many"


TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALL = f"00-{TRACE}-{SPAN}-01"


def current_span() -> tuple[str, str]:
    """Below which a span of OpenTelemetry would be."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


async def test_a_function_is_within_the_trace_of_its_call() -> None:
    """As a coroutine and in a thread; nothing is left of it afterwards."""
    seen: list[tuple[str, str, tuple[str, str]]] = []
    async with place() as at:

        @at.service.job(job_id="async")
        async def work(execution: Execution) -> None:
            await asyncio.sleep(0)
            seen.append((execution.traceparent, current_traceparent(), current_span()))

        @at.service.job(job_id="blocking")
        def block(execution: Execution) -> None:
            seen.append((execution.traceparent, current_traceparent(), current_span()))

        for job_id in ("async", "blocking"):
            assert (await at.call(job_id, traceparent=CALL)).status_code == 200
        assert (await at.call("async", Idempotency_Key="other")).status_code == 200
    nothing = ("", "", ("0" * 32, "0" * 16))
    assert seen == [(CALL, CALL, (TRACE, SPAN)), (CALL, CALL, (TRACE, SPAN)), nothing]
    assert current_traceparent() == ""


async def test_what_is_sent_carries_the_trace() -> None:
    """Reports, also at the end of the work, and other calls of the scheduler; not what is outside."""
    sent: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("traceparent"))
        return httpx.Response(200, json={"resp_code": 200, "resp_msg": None, "data": None, "warnings": []})

    async with Client("http://scheduler.test", transport=httpx.MockTransport(answer)) as client:
        url = "http://scheduler.test/jobs/job/feedback/1?token=t"
        reporter = FeedbackReporter(connection=client.connection, url=url, traceparent=CALL)
        await reporter.report(AttemptReport(status="succeed"))
        with joined(CALL):
            await client.connection.send("POST", "/jobs/other/trigger", body={})
        await client.connection.send("POST", "/jobs/other/trigger", body={})
    assert sent == [CALL, CALL, None]


@each_row("header", ["", "what?", "00-xyz", f"00-{'z' * 32}-{SPAN}-01"])
def test_a_header_that_is_no_context_harms_nothing(header: str) -> None:
    """It is passed on as it came, and OpenTelemetry does not see it."""
    with joined(header):
        assert current_traceparent() == header
        assert current_span() == ("0" * 32, "0" * 16)
