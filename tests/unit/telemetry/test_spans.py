"""The spans of recorded turns: their tree, links, attributes and errors."""

from typing import Any

from scheduler_service.domain.execution import DeliveryState, ExecutionState, FailureType, TriggeredBy
from scheduler_service.domain.records import (
    AttemptEnded,
    CheckEnded,
    DeliveryRecord,
    DeliveryTry,
    Exchange,
    ExecutionRecord,
    FeedbackSeen,
    Record,
    StepEnded,
)
from scheduler_service.domain.tracing import ATTEMPT, CHECK, STEP, execution_span, span_of, trace_of
from scheduler_service.ports.history import Batch
from scheduler_service.telemetry.spans import Span, spans_of
from tests.otlp_collector import check_tree
from tests.rows import each_row

TRACE = trace_of("uid", 1)
CALLER = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
SECRET = "hush-hush"


def exchange(status: int | None = 200, **members: Any) -> Exchange:
    """One call, with a secret wherever there may be one."""
    given: dict[str, Any] = {
        "method": "PUT",
        "url": f"https://user:{SECRET}@target.test:8443/{SECRET}?key={SECRET}",
        "request_headers": (("Authorization", SECRET),),
        "request_body": SECRET.encode(),
        "status": status,
        "fault": f"{SECRET} did not answer",
        "response_headers": (("Set-Cookie", SECRET),),
        "response_body": SECRET.encode(),
        "sent_at": 1_000,
        "duration": 50,
    }
    return Exchange(**given | members)


def execution(state: ExecutionState = ExecutionState.SUCCEEDED, **members: Any) -> ExecutionRecord:
    """An execution that has ended."""
    given: dict[str, Any] = {
        "execute_number": 1, "revision": 1, "state": state, "triggered_by": TriggeredBy.TIMER,
        "planned_at": 900, "created_at": 950, "started_at": 960, "ended_at": 3_000, "attempt_count": 2,
    }  # fmt: skip
    return ExecutionRecord(**given | members)


def made(*records: Record) -> list[Span]:
    """The spans of one turn."""
    batch = Batch(uid="uid", job_id="job", tenant="default", sequence=1, at=5_000, records=records)
    return list(spans_of(batch))


def story(trace: str = "") -> list[Record]:
    """A chain that fails once, is checked, reports, and is told of."""
    delivery = DeliveryRecord(
        "uid-1-0", 1, 5, "finalSucceed", "http://caller.test/told", DeliveryState.PENDING,
        tries=(DeliveryTry(3_000, 500, None, 5),), tried=1, trace=trace,
    )  # fmt: skip
    again = DeliveryRecord(
        "uid-1-0", 1, 5, "finalSucceed", "http://caller.test/told", DeliveryState.DELIVERED,
        tries=(*delivery.tries, DeliveryTry(3_100, 204, None, 5)), tried=2, trace=trace,
    )  # fmt: skip
    return [
        StepEnded(1, 4, 0, 1_050, exchange(503), error="503", trace=trace),
        AttemptEnded(1, 4, 1_050, "503", FailureType.HTTP, SECRET, 400, 960, 0, trace),
        StepEnded(1, 5, 0, 1_500, exchange(), trace=trace),
        StepEnded(1, 5, 1, 1_600, exchange(), part=0, instance="a", trace=trace),
        StepEnded(1, 5, 1, 1_600, exchange(), part=1, instance="b", trace=trace),
        StepEnded(1, 5, 1, 1_600, exchange(), trace=trace),
        CheckEnded(1, 5, 1, 1_700, exchange(), "", trace=trace),
        FeedbackSeen(1, 5, 1_800, b'{"status":"succeed"}', trace=trace),
        AttemptEnded(1, 5, 2_900, began_at=1_450, after=4, trace=trace),
        execution(trace=trace),
        delivery,
        again,
    ]


@each_row(("caller", "outside"), [("", ""), (CALLER, "b7ad6b7169203331")])
def test_the_tree_of_an_execution(caller: str, outside: str) -> None:
    """One root, below the span of a caller if there is one; every parent exists, and ids are unique."""
    found = made(*story(caller))
    assert [span.name for span in found] == [
        "step 0", "attempt", "step 0", "step 1", "step 1", "step 1", "check", "feedback", "attempt",
        "execution", "notification", "notification",
    ]  # fmt: skip
    assert len({span.span for span in found}) == len(found)
    check_tree(((span.trace, span.span, span.parent) for span in found), outside=outside)
    assert {span.trace for span in found} == {caller[:32] or TRACE}


def test_retries_are_linked_to_what_they_repeat() -> None:
    """An attempt to the attempt before, a try of a notification to the try before."""
    found = made(*story())
    attempts = [span for span in found if span.name == "attempt"]
    tries = [span for span in found if span.name == "notification"]
    assert [span.links for span in attempts] == [(), ((TRACE, attempts[0].span),)]
    assert [span.links for span in tries] == [(), ((TRACE, tries[0].span),)]
    assert [span.error for span in (*attempts, *tries)] == ["503", None, "500", None]
    assert [(span.start, span.end) for span in attempts] == [(960, 1_050), (1_450, 2_900)]


def test_spans_are_those_that_requests_name() -> None:
    """By the place of a call in its execution."""
    step, part, check, attempt = made(
        StepEnded(1, 5, 3, 1_500, exchange()),
        StepEnded(1, 5, 3, 1_500, exchange(), part=7),
        CheckEnded(1, 5, 2, 1_500, exchange()),
        AttemptEnded(1, 5, 1_500),
    )
    assert step.span == span_of(TRACE, 5, (STEP, 3))
    assert part.span == span_of(TRACE, 5, (STEP, 3, 8))
    assert check.span == span_of(TRACE, 5, (CHECK, 2))
    assert attempt.span == span_of(TRACE, 5, (ATTEMPT,)) == step.parent
    assert attempt.parent == execution_span(TRACE)


def test_attributes_of_a_call() -> None:
    """Method, host, status and what it belongs to; nothing of its address, headers and bodies."""
    (step,) = made(StepEnded(1, 5, 2, 1_500, exchange(404), error="404", part=1, instance="a"))
    assert dict(step.attributes) == {
        "punctual.job_id": "job", "punctual.tenant": "default", "punctual.execute_number": 1,
        "http.request.method": "PUT", "server.address": "target.test", "http.response.status_code": 404,
        "punctual.request_counts": 5, "punctual.step": 2, "punctual.part": 1, "punctual.instance": "a",
        "error.type": "404",
    }  # fmt: skip
    assert (step.start, step.end, step.error) == (1_000, 1_050, "404")
    # Its outcome, and how late it was
    (root,) = made(
        execution(ExecutionState.TERMINATED, error="503", reason="retries_exhausted", ended_at=2_000)
    )
    assert dict(root.attributes) | {"punctual.state": "terminated", "punctual.lateness_ms": 60} == dict(
        root.attributes
    )
    assert (root.start, root.end, root.error) == (960, 2_000, "503")


def test_no_secret_gets_into_a_span() -> None:
    """Neither of addresses and headers, nor of bodies and messages."""
    failed = [
        CheckEnded(1, 5, 1, 1_700, exchange(None), None, error=f"{SECRET} did not answer"),
        CheckEnded(1, 5, 2, 1_700, exchange(200), None, error=f"{SECRET} is no report"),
        CheckEnded(1, 5, 3, 1_700, exchange(500), None, error=f"the check at {SECRET} was answered 500"),
        DeliveryRecord(
            "uid-1-1", 1, 5, "failed", f"http://x.test/{SECRET}", DeliveryState.FAILED,
            tries=(DeliveryTry(1, None, f"template: {SECRET}"),), tried=1,
        ),
        FeedbackSeen(1, 5, 1_800, SECRET.encode()),
    ]  # fmt: skip
    found = made(*story(), *failed)
    assert SECRET not in repr(found)
    assert [span.error for span in found[-5:]] == ["no_answer", "no_report", "500", "template", None]


def test_what_is_no_span() -> None:
    """Executions that go on, stale feedback, deliveries that were not tried."""
    untried = DeliveryRecord("uid-1-1", 1, 5, "failed", "http://x.test", DeliveryState.PENDING)
    dismissed = DeliveryRecord(
        "uid-1-1",
        1,
        5,
        "failed",
        "http://x.test",
        DeliveryState.DISMISSED,
        tries=(DeliveryTry(1, 500),),
        tried=1,
    )
    going = execution(ExecutionState.PROCESSING, ended_at=None)
    assert made(untried, dismissed, going, FeedbackSeen(1, 5, 1_800, b"{}", stale=True)) == []
    # A feedback from within another trace names it
    (span,) = made(FeedbackSeen(1, 5, 1_800, b"{}", reporter=CALLER))
    assert span.links == (("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"),)
    # As one that was masked
    (span,) = made(StepEnded(1, 5, 0, 1_500, exchange(url="http://[***/x")))
    assert "server.address" not in dict(span.attributes)
