"""The trace of an execution is whole over crashes, on every host (SPEC section 14)."""

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.records import AttemptEnded
from scheduler_service.domain.replies import Started, Taken
from scheduler_service.domain.turn_events import FeedbackArrived, Triggered
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.telemetry.spans import Span, spans_of
from tests.conformance.hosts.houses import AnyHouse
from tests.otlp_collector import check_tree
from tests.unit.hosts.house import asynchronous

pytestmark = pytest.mark.anyio
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLER = f"{TRACE}-{SPAN}-01"
KEY = b"k" * 32
ONE, TWO, TOLD = (f"http://target.test/{name}" for name in ("one", "two", "told"))


def spans(house: AnyHouse) -> list[Span]:
    """Those of all turns, over all processes; a batch that is shown twice gives the same ones."""
    found = {span.span: span for batch in house.batches("job") for span in spans_of(batch)}
    return sorted(found.values(), key=lambda span: span.start)


async def test_a_trace_is_whole_over_a_crash(house: AnyHouse) -> None:
    """A chain with a retry, a feedback and a notification, in the trace of its caller; qos 1.

    Each request names a span of the tree, and one that is sent again after a crash names the same.
    """
    await house.create(
        qos=1,
        **asynchronous(timeoutSeconds=600),
        request=[{"url": ONE}, {"url": TWO}],
        retry=[{"errorEquals": "500", "intervalSeconds": 2}],
        notification=[{"url": TOLD, "stateEquals": ["finalSucceed"]}],
    )
    house.sender.hold(ONE)
    assert isinstance(await house.deliver(Triggered(trace=CALLER)), Started)
    await house.settle()
    before = house.sender
    await house.crash()
    house.sender.answers(TWO, 500)
    await house.recover()
    await house.advance(5_000)
    token = feedback_token(KEY, "uid1", 2)
    report = FeedbackArrived(2, token, {"status": "succeed"}, trace=f"{'e' * 32}-{SPAN}-01")
    assert await house.deliver(report) == Taken()
    await house.settle()
    assert house.executions() == {1: State.SUCCEEDED}
    found = spans(house)
    check_tree(((span.trace, span.span, span.parent) for span in found), outside=SPAN)
    requests = [*before.requests, *house.sender.requests]
    assert [request.url for request in requests] == [ONE, ONE, TWO, ONE, TWO, TOLD]
    assert {request.trace for request in requests} == {span.trace for span in found} == {TRACE}
    calls = [f"{span.span}-01" for span in found if span.name.startswith(("step", "notification"))]
    assert [request.span for request in requests][1:] == calls
    assert before.requests[0].span == calls[0]
    first, second = (span for span in found if span.name == "attempt")
    assert second.links == ((TRACE, first.span),)
    assert [span.links for span in found if span.name == "feedback"] == [(("e" * 32, SPAN),)]


async def test_an_attempt_lasts_from_its_first_request_to_its_outcome(house: AnyHouse) -> None:
    """Also where its process died in between (qos 1)."""
    await house.create(qos=1, **asynchronous(timeoutSeconds=600))
    await house.trigger()
    await house.settle()
    began = house.clock.now().wall
    await house.crash()
    await house.recover()
    await house.advance(5_000)
    await house.deliver(FeedbackArrived(1, feedback_token(KEY, "uid1", 1), {"status": "succeed"}))
    await house.settle()
    records = [record for batch in house.batches("job") for record in batch.records]
    ended = next(record for record in records if isinstance(record, AttemptEnded))
    assert ended.began_at == began
    assert ended.at >= began + 5_000
