"""The trace of a call is joined by the function, and passed on with what the function sends."""

import asyncio

import httpx
from opentelemetry import trace

from client_sdk import Client
from client_sdk.target import Execution
from client_sdk.target.execution import AttemptReport, FeedbackReporter
from client_sdk.traces import current_traceparent, joined
from tests.rows import each_row
from tests.unit.client_sdk.target.called_service import place

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
