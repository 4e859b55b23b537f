"""What is sent again, and when: nothing that could happen twice (SPEC section 10, Idempotency-Key)."""

from typing import Any

import httpx
import pytest

from client_sdk.client.jobs import write_definition
from client_sdk.client.queues import Queues
from client_sdk.errors import Absent, LimitReached, Unavailable, Unreachable, Unreadable
from tests.rows import each_row
from tests.unit.client_sdk.lines import Line, problem
from tests.wire.service import definition, running


async def test_a_trigger_whose_answer_is_lost_fires_once() -> None:
    """It is sent again with the key that it had, and gets the execution that it made."""
    async with running() as world:
        await Line(world).jobs.create(definition(), job_id="one")
        line = Line(world, "after", "after")
        fired = await line.jobs.trigger("one", {"size": 3})
        assert fired.execute_number == 1
        assert len(line.keys) == 3
        assert len(set(line.keys)) == 1
        assert (await line.jobs.get("one")).execute_number == 1
    # Two calls are two executions; with the caller's own key they are one
    async with running() as world:
        line = Line(world)
        await line.jobs.create(definition(overlapPolicy="allow"), job_id="one")
        first, second = await line.jobs.trigger("one"), await line.jobs.trigger("one")
        assert first.execution_id != second.execution_id
        own = [await line.jobs.trigger("one", idempotency_key="monday") for _ in range(2)]
        assert own[0].execution_id == own[1].execution_id


async def test_a_job_is_created_over_a_bad_line() -> None:
    """And what is destroyed is destroyed, though the answer that said so was lost."""
    async with running() as world:
        line = Line(world, "before", "after", problem(503, "unavailable", Retry_After="1"))
        created = await line.jobs.create(definition(), job_id="one")
        assert (created.job_id, created.revision) == ("one", 1)
        lossy = Line(world, "after")
        assert (await lossy.jobs.destroy("one")).state == "destroyed"
        with pytest.raises(Absent):
            await line.jobs.destroy("one")
        after_refusal = Line(world, problem(503, "unavailable"))
        with pytest.raises(Absent):
            await after_refusal.jobs.destroy("one")


async def test_waits_grow_and_retry_after_lengthens_them() -> None:
    """0.2, 0.4, 0.8 s; what the service asks for is kept to, up to the longest wait."""
    busy = [problem(429, "limit", Retry_After=seconds) for seconds in ("0", "0", "7")]
    line = Line(None, *busy, httpx.Response(200, json={"resp_code": 200, "data": {}}))
    await line.connection.send("GET", "/jobs")
    assert line.waits.seconds == [0.2, 0.4, 7.0]
    late = Line(None, problem(429, "limit", Retry_After="31"))
    with pytest.raises(LimitReached) as caught:
        await late.connection.send("GET", "/jobs")
    assert (caught.value.retry_after, late.waits.seconds) == (31.0, [])
    # Counted from the answer's own Date, whatever the clock here says (RFC 9110, 10.2.3)
    date = {"Date": "Wed, 21 Oct 2015 07:28:00 GMT", "Retry_After": "Wed, 21 Oct 2015 07:28:09 GMT"}
    line = Line(None, problem(503, "unavailable", **date), retries=1)
    line.line.fates.append(httpx.Response(200, json={"resp_code": 200, "data": {}}))
    await line.connection.send("GET", "/jobs")
    assert line.waits.seconds == [9.0]


@each_row(
    ("fate", "tries"),
    [
        ("before", 2),
        ("after", 1),
        (problem(429), 2),
        (problem(503, "unavailable"), 2),
        (problem(503, "unknown"), 1),
        (httpx.Response(502), 1),
        (httpx.Response(503), 1),
    ],
)
async def test_a_claim_is_sent_again_only_where_nothing_was_done(
    fate: str | httpx.Response, tries: int
) -> None:
    """A claim whose answer is lost may have been given work: that comes back when its leases end."""
    answer = httpx.Response(200, json={"resp_code": 200, "data": {"items": []}})
    line = Line(None, fate, answer)
    if fate == "after":

        async def answering(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})

        line.line.inner = httpx.ASGITransport(answering)
    try:
        assert await Queues(line.connection).claim("work", instance_id="one") == []
    except (Unreachable, Unavailable, Unreadable):
        assert tries == 1
    assert len(line.line.sent) == tries


@each_row("given", [5, None, [["jobId", "a"]], "{}"])
def test_a_definition_that_is_none_is_refused_in_words(given: Any) -> None:
    """TypeError, with what to give instead; nothing is sent."""
    with pytest.raises(TypeError, match=f"definition is of type {type(given).__name__}: give a mapping"):
        write_definition(given)
