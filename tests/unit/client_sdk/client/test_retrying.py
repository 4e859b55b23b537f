"""What is sent again, and when: nothing that could happen twice (SPEC section 10, Idempotency-Key)."""

from typing import Any

import httpx
import pytest

from client_sdk import Client
from client_sdk.client.connection import Connection
from client_sdk.client.jobs import Jobs, write_definition
from client_sdk.client.queues import Queues
from client_sdk.client.retrying import Patience
from client_sdk.errors import Absent, Conflict, Invalid, LimitReached, Unavailable, Unreachable, Unreadable
from tests.unit.client_sdk.lines import LossyLine, Waits, problem
from tests.wire.service import SERVED, World, definition, running

pytestmark = pytest.mark.anyio


class Line:
    """A connection to a real service over a line that loses what `fates` say."""

    def __init__(
        self, world: World | None, *fates: str | httpx.Response | Exception, **patience: Any
    ) -> None:
        async def nobody(scope: Any, receive: Any, send: Any) -> None:
            raise AssertionError("nothing else is asked")

        inner = httpx.ASGITransport(world.service.api if world else nobody)
        self.line = LossyLine(inner, fates)
        self.waits = Waits()
        self.connection = Connection(
            url=SERVED,
            key=None,
            timeout=5,
            patience=Patience(**patience),
            transport=self.line,
            pause=self.waits,
            chance=lambda: 0.0,
        )
        self.jobs = Jobs(self.connection)

    @property
    def keys(self) -> list[str | None]:
        """The Idempotency-Key of each call."""
        return [request.headers.get("idempotency-key") for request in self.line.sent]


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


async def test_each_trigger_has_a_key_of_its_own() -> None:
    """Two calls are two executions; with the caller's own key they are one."""
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


async def test_retry_after_may_be_a_date() -> None:
    """Counted from the answer's own Date, whatever the clock here says (RFC 9110, 10.2.3)."""
    date = {"Date": "Wed, 21 Oct 2015 07:28:00 GMT", "Retry_After": "Wed, 21 Oct 2015 07:28:09 GMT"}
    line = Line(None, problem(503, "unavailable", **date), retries=1)
    line.line.fates.append(httpx.Response(200, json={"resp_code": 200, "data": {}}))
    await line.connection.send("GET", "/jobs")
    assert line.waits.seconds == [9.0]


async def test_enough_is_enough() -> None:
    """After `retries` more tries the error says what was tried."""
    line = Line(None, *["before"] * 9, retries=2)
    with pytest.raises(Unreachable, match=r"refused, 3 tries") as caught:
        await line.jobs.get("one")
    assert isinstance(caught.value.__cause__, httpx.ConnectError)
    assert len(line.line.sent) == 3


@pytest.mark.parametrize(
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


async def test_refusals_are_typed() -> None:
    """Each status is an error of its own, with everything that is wrong in it."""
    async with running() as world:
        jobs = Line(world).jobs
        with pytest.raises(Absent) as absent:
            await jobs.get("nowhere")
        assert absent.value.codes == {"absent"}
        with pytest.raises(Invalid) as invalid:
            await jobs.create(definition(colour="blue"), job_id="one")
        assert [(flaw.pointer, flaw.code) for flaw in invalid.value.errors] == [("/colour", "unknown_field")]
        await jobs.create(definition(), job_id="one")
        with pytest.raises(Conflict):
            await jobs.create(definition(jobName="other"), job_id="one")


async def test_what_is_no_scheduler_is_said_so() -> None:
    """A proxy's page and a stranger's JSON are neither data nor a problem."""
    for answer in (httpx.Response(200, text="<html>"), httpx.Response(200, json=[]), httpx.Response(404)):
        with pytest.raises(Unreadable, match="not as a"):
            await Line(None, answer).jobs.get("one")


@pytest.mark.parametrize("url", ["nowhere", "", "ftp://x", "http://", "http://h:x"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    """A slip of the program, told as Python tells it: ValueError, whatever is wrong with it."""
    with pytest.raises(ValueError, match="no address of a service: write http"):
        Connection(url=url, key=None, timeout=1, patience=Patience(), transport=None)


@pytest.mark.parametrize("given", [5, None, [["jobId", "a"]], "{}"])
def test_a_definition_that_is_none_is_refused_in_words(given: Any) -> None:
    """TypeError, with what to give instead; nothing is sent."""
    with pytest.raises(TypeError, match=f"definition is of type {type(given).__name__}: give a mapping"):
        write_definition(given)


@pytest.mark.parametrize("key", ["", "a\nb", "a\r\n", "schlüssel", "x" * 256])
async def test_a_key_that_cannot_be_sent_is_refused_at_once(key: str) -> None:
    """Nothing is sent, and nothing is tried again."""
    line = Line(None)
    for call in (
        line.jobs.trigger("one", idempotency_key=key),
        line.jobs.create(definition(), job_id="one", idempotency_key=key),
        line.jobs.update("one", definition(), idempotency_key=key),
    ):
        with pytest.raises(ValueError, match="cannot be sent"):
            await call
    assert (line.line.sent, line.waits.seconds) == ([], [])


async def test_what_is_no_http_is_not_tried_again() -> None:
    """It would fail in the same manner every time."""
    line = Line(None, httpx.LocalProtocolError("Illegal header value"), "before")
    with pytest.raises(Unreachable, match="1 tries"):
        await line.jobs.get("one")
    assert line.waits.seconds == []


def test_an_api_key_with_a_line_break_is_refused() -> None:
    """As it is read from a file; it is not shown."""
    with pytest.raises(ValueError, match="line break") as caught:
        Client("http://scheduler.test", key="secret\n")
    assert "secret" not in str(caught.value)
