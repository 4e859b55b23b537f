"""Calls of declared jobs, in any ASGI application, and the work under way (SPEC sections 13, 16)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from client_sdk import Client
from client_sdk.signing import Verifier
from client_sdk.target import Execution, Service
from client_sdk.target.inbound import Admission, InboundCalls
from client_sdk.target.messages import InboundCall
from tests.rows import each_row
from tests.unit.client_sdk.lines import Waits, serving
from tests.unit.client_sdk.registry import Registry
from tests.unit.client_sdk.signed import NEW, NOW, OLD, headers, sign
from tests.unit.client_sdk.target.called_service import Held, place


async def test_a_body_that_does_not_fit_is_refused() -> None:
    """422 with everything that is wrong, and the function is not called."""
    async with place() as at:

        @at.service.job(job_id="add")
        async def add(left: int, right: int) -> None:
            raise AssertionError("not called")

        answer = await at.call("add", {"left": "x", "middle": 1})
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        assert {flaw["pointer"] for flaw in answer.json()["errors"]} == {"/left", "/right", "/middle"}
        assert (await at.http.post("/punctual/jobs/add", content=b"{")).status_code == 422
        assert (await at.call("add", X_Scheduling_Request_Counts="many")).status_code == 422
        for moment in ("2030-01-01", "soon", "2030-13-01T00:00:00Z"):
            answer = await at.call("add", {"left": 1, "right": 2}, X_Scheduled_At=moment)
            form = "RFC 3339 with a time zone, as in 2026-01-01T00:00:00.000Z"
            said = f"X-Scheduled-At {moment!r} is not a moment; write {form}"
            assert (answer.status_code, answer.json()["detail"]) == (422, said)
    # A job that is not there is gone: 410 with X-Job-State, and the scheduler pauses it
    async with place() as at:
        answer = await at.call("old")
        assert (answer.status_code, answer.headers["x-job-state"]) == (410, "gone")


async def test_a_draining_instance_sends_all_away() -> None:
    """503 with X-Instance-State; what runs comes to its end, and is answered."""
    async with place() as at:
        slow = Held()
        at.service.job(job_id="slow")(slow.run)
        await at.service.start()
        first = asyncio.create_task(at.call("slow"))
        await slow.begun.wait()
        stopping = asyncio.create_task(at.service.stop())
        await at.registry.until(lambda: "draining" in at.registry.told)
        for job_id in ("slow", "unknown"):
            away = await at.call(job_id, Idempotency_Key="other")
            assert (away.status_code, away.headers["x-instance-state"]) == (503, "draining")
        assert "deregistered" not in at.registry.told
        slow.go.set()
        assert (await first).json() == "done"
        await stopping
        assert at.registry.told[-1] == "deregistered"


async def test_early_work_is_held_until_its_moment() -> None:
    """X-Scheduled-At is the moment; what is late is not held, nothing is held longer than an hour."""
    now, waits = datetime(2026, 1, 1, tzinfo=UTC), Waits()
    registry, seen = Registry(), []
    async with Client("http://scheduler.test", transport=registry.transport) as client:
        service = Service("reports", client=client, address="http://127.0.0.1:9", signals=())

        @service.job(job_id="punctual")
        async def punctual(execution: Execution) -> None:
            seen.append(execution.scheduled_at)

        reception = InboundCalls(
            declarations=lambda: {"punctual": punctual},
            connection=client.connection,
            admission=Admission(verifier=None, allow_unsigned=True),
            clock=now.timestamp,
            pause=waits,
        )
        for early in (2.5, -1, 7200):
            moment = now + timedelta(seconds=early)
            called = InboundCall("POST", {"x-scheduled-at": moment.isoformat()}, b"")
            assert (await reception.take("punctual", called)).status == 200
        assert waits.seconds == [2.5, 3600.0]
        assert seen[0] == now + timedelta(seconds=2.5)


async def test_only_signed_calls_are_taken() -> None:
    """Where secrets are given; cancelling is no exception, and nothing is told of the jobs."""
    verifier = Verifier(NEW, clock=lambda: NOW)
    async with place(verifier=verifier) as at:

        @at.service.job(job_id="one")
        async def one() -> str:
            return "done"

        for path in ("one", "unknown", "one/cancel"):
            assert (await at.call(path)).status_code == 401
        signed = headers(sign(NEW, body=b"{}"))
        assert (await at.call("one", **signed)).json() == "done"
        assert (await at.call("one", {"more": 1}, **signed)).status_code == 401


async def test_a_signed_call_is_taken_once() -> None:
    """A replay is refused, whatever of its headers is changed; a genuine repetition has a time of its own."""
    keys = []
    async with place(verifier=Verifier(OLD, NEW, clock=lambda: NOW)) as at:

        @at.service.job(job_id="one")
        async def one(execution: Execution) -> None:
            keys.append(execution.idempotency_key)

        both = f"{sign(NEW, body=b'{}')} {sign(OLD, body=b'{}')}"
        assert (await at.call("one", **headers(both))).status_code == 200
        for replayed in (headers(both), headers(sign(NEW, body=b"{}")), headers(sign(OLD, body=b"{}"))):
            answer = await at.call(
                "one", **replayed, Idempotency_Key="another", X_Scheduling_Request_Counts="8"
            )
            assert (answer.status_code, "replayed" in answer.json()["detail"]) == (401, True)
        assert (await at.call("one/cancel", **headers(both))).status_code == 401
        later = sign(NEW, moment=NOW + 1, body=b"{}")
        again = headers(later, **{"Webhook-Timestamp": str(NOW + 1), "Idempotency-Key": "another"})
        assert (await at.call("one", **again)).status_code == 200
    assert keys == ["life-1-0", "life-1-0"]  # what was signed, not what was written beside it


@each_row(
    ("peer", "headers", "taken"),
    [
        (("127.0.0.1", 5), {}, True),
        (("127.9.9.9", 5), {}, True),
        (("::1", 5), {}, True),
        (("::ffff:127.0.0.1", 5), {}, True),
        (("10.0.0.7", 5), {}, False),
        (("::ffff:10.0.0.7", 5), {}, False),
        (("testclient", 5), {}, False),
        (None, {}, False),
        (("127.0.0.1", 5), {"Forwarded": "for=192.0.2.1"}, False),
        (("127.0.0.1", 5), {"X-Forwarded-For": "127.0.0.1"}, False),
        (("127.0.0.1", 5), {"Origin": "http://127.0.0.1:9"}, False),
        (("127.0.0.1", 5), {"Via": "1.1 gate"}, False),
        (("127.0.0.1", 5), {"X-Forwarded-Host": "tasks.example"}, False),
        (("127.0.0.1", 5), {"CF-Connecting-IP": "192.0.2.1"}, False),
        (("127.0.0.1", 5), {"Sec-Fetch-Site": "cross-site"}, False),
    ],
)
async def test_without_a_verifier_this_machine_alone_may_call(
    peer: Any, headers: dict[str, str], taken: bool
) -> None:
    """Directly: a proxy, a sidecar or a web page comes from this machine for somebody else."""
    for options in ({}, {"allow_unsigned": True}):
        async with place(**options, wrap=lambda service: come_from(peer, service)) as at:
            at.service.job(job_id="one")(Held().run)
            for path in ("other", "one/cancel"):
                answer = await at.call(path, **headers)
                assert (answer.status_code != 401) is (taken or bool(options)), (peer, headers)


def come_from(peer: Any, service: Service) -> Any:
    """The service, called from this address."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        await service(scope | {"client": peer}, receive, send)

    return serve


async def test_calls_from_elsewhere_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """The line says what to do."""
    async with place(wrap=lambda service: come_from(("192.0.2.1", 5), service)) as at:
        for _ in range(3):
            assert (await at.call("one")).status_code == 401
    [said] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said.startswith("a call from 192.0.2.1 was refused: calls that are not signed")


@each_row("counts", ["x", "-1", "\u00b2", "9" * 1_000])
async def test_a_cancellation_of_an_attempt_that_is_no_number_is_refused(counts: str) -> None:
    """It is no fault of the application."""
    async with place() as at:
        answer = await at.call("one/cancel", **{"X-Scheduling-Request-Counts": counts.encode()})
        assert answer.status_code == 422
        assert "not a number" in answer.json()["detail"]


async def test_a_call_that_is_repeated_joins_the_first() -> None:
    """The scheduler sends a call again after a crash, with its key: the work is done once."""
    async with place() as at:
        go, both, times = asyncio.Event(), asyncio.Event(), []

        @at.service.job(job_id="slow")
        async def slow() -> int:
            times.append(1)
            if len(times) == 2:
                both.set()
            await go.wait()
            return len(times)

        calls = [asyncio.create_task(at.call("slow")) for _ in range(2)]
        other = asyncio.create_task(at.call("slow", Idempotency_Key="life-8-0"))
        await both.wait()
        go.set()
        assert [(await call).json() for call in [*calls, other]] == [2, 2, 2]
        assert len(times) == 2


async def test_what_takes_too_long_is_stopped() -> None:
    """After the grace; it had begun, so that counts as an attempt: no draining mark."""
    async with place(grace_seconds=0.01) as at:
        slow = Held()
        at.service.job(job_id="slow")(slow.run)
        await at.service.start()
        first = asyncio.create_task(at.call("slow"))
        await slow.begun.wait()
        await at.service.stop()
        answer = await first
        assert (answer.status_code, answer.json()["error"]) == (503, "interrupted")
        assert "x-instance-state" not in answer.headers


async def test_a_job_is_cancelled_from_outside() -> None:
    """`cancelUrl` stops the attempt that its headers name, and no other."""
    async with place() as at:
        slow = Held()
        at.service.job(job_id="slow", asynchronous=True)(slow.run)
        url = "http://scheduler.test/jobs/slow/feedback/9?token=t"
        assert (await at.call("slow", Feedback_Url=url)).status_code == 202
        await slow.begun.wait()
        other = await at.call("slow/cancel", X_Scheduling_Request_Counts="8")
        assert other.json() == {"stopped": 0}
        assert (await at.call("slow/cancel")).json() == {"stopped": 1}
        assert at.registry.reports == []


class Slow:
    """A function that says when it begins and how it ends, and what ran beside it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.begun: asyncio.Queue[int] = asyncio.Queue()
        self.ended = asyncio.Event()
        self.go = asyncio.Event()

    async def run(self, execution: Execution) -> str:
        number = execution.execute_number
        self.events.append(f"begin {number}")
        self.begun.put_nowait(number)
        try:
            await self.go.wait()
        finally:
            await asyncio.sleep(0)  # what it cleans up may take its time
            self.events.append(f"end {number}, {execution.is_wanted}")
            self.ended.set()
        return "done"


@asynccontextmanager
async def slow_job(
    function: Callable[..., Any], **options: Any
) -> AsyncIterator[Callable[..., asyncio.Task[httpx.Response]]]:
    """Calls of it over real connections; a call that is cancelled closes its own."""
    async with place() as at, serving(at.service) as url, httpx.AsyncClient(base_url=url) as http:
        at.service.job(job_id="slow", **options)(function)

        def call(number: int, key: str | None = None) -> asyncio.Task[httpx.Response]:
            headers = {
                "Idempotency-Key": key or f"life-{number}-0",
                "X-Scheduling-Execute-Number": str(number),
                "X-Scheduling-Request-Counts": str(number),
            }
            return asyncio.create_task(http.post("/punctual/jobs/slow", json={}, headers=headers))

        yield call


async def test_a_caller_that_leaves_ends_the_work() -> None:
    """So the scheduler cancels a synchronous job: it closes the connection (SPEC section 13)."""
    slow = Slow()
    async with slow_job(slow.run) as call:
        first = call(7)
        await slow.begun.get()
        first.cancel()
        await slow.ended.wait()
        again = call(7)
        await slow.begun.get()
        slow.go.set()
        assert (await again).json() == "done"
    assert slow.events == ["begin 7", "end 7, False", "begin 7", "end 7, True"]
    # One of two has left
    slow = Slow()
    async with slow_job(slow.run) as call:
        first = call(7)
        await slow.begun.get()
        second, third = call(7), call(8)  # answered in this order
        assert await slow.begun.get() == 8
        first.cancel()
        await asyncio.wait([first])
        slow.go.set()
        assert [(await one).json() for one in (second, third)] == ["done", "done"]
    assert slow.events[-2:] == ["end 7, True", "end 8, True"]


async def test_executions_follow_one_another_without_running_side_by_side() -> None:
    """With `cancel_running` the next one may be called before this one is known to be cancelled."""
    slow = Slow()
    async with slow_job(slow.run, overlap_policy="cancel_running") as call:
        calls = [call(1)]
        await slow.begun.get()
        for number in (2, 3):
            calls.append(call(number))
            calls[-2].cancel()
            assert await slow.begun.get() == number
        slow.go.set()
        assert (await calls[-1]).json() == "done"
    ends = ["begin 1", "end 1, False", "begin 2", "end 2, False", "begin 3", "end 3, True"]
    assert slow.events == ends


async def test_what_is_cleaned_up_is_waited_for() -> None:
    """However often it is cancelled; the retry begins after its end."""
    cleaned, begun, events = asyncio.Event(), asyncio.Event(), []

    async def work(execution: Execution) -> None:
        events.append(f"begin {execution.request_counts}")
        begun.set()
        try:
            if execution.request_counts == 1:
                await asyncio.Event().wait()
        finally:
            await cleaned.wait()
            events.append(f"end {execution.request_counts}")

    async with place() as at:
        at.service.job(job_id="work")(work)
        first = asyncio.create_task(at.call("work", X_Scheduling_Request_Counts="1"))
        await begun.wait()
        assert (await at.call("work/cancel", X_Scheduling_Request_Counts="1")).json() == {"stopped": 1}
        retry = asyncio.create_task(at.call("work", X_Scheduling_Request_Counts="2"))
        await asyncio.sleep(0)
        assert (await at.call("work/cancel", X_Scheduling_Request_Counts="1")).json() == {"stopped": 1}
        cleaned.set()
        assert (await first).status_code == 503
        assert (await retry).status_code == 200
    assert events == ["begin 1", "end 1", "begin 2", "end 2"]


async def test_a_thread_learns_that_its_caller_has_left() -> None:
    """It cannot be stopped: it looks at `execution.is_wanted`, and the next execution waits for its end."""
    begun: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    events: list[str] = []

    def work(execution: Execution) -> None:
        number = execution.execute_number
        events.append(f"begin {number}")
        loop.call_soon_threadsafe(begun.put_nowait, number)
        while number < 3 and execution.is_wanted:
            threading.Event().wait(0.001)
        events.append(f"end {number}, {execution.is_wanted}")

    async with slow_job(work) as call:
        calls = []
        for number in (1, 2, 3):
            calls.append(call(number))
            if number > 1:
                calls[-2].cancel()
            assert await begun.get() == number
        assert (await calls[-1]).status_code == 200
    ends = ["begin 1", "end 1, False", "begin 2", "end 2, False", "begin 3", "end 3, True"]
    assert events == ends
