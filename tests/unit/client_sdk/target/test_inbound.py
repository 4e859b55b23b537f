"""Calls of declared jobs, in any ASGI application (SPEC sections 13, 16)."""

import asyncio
from datetime import UTC, datetime, timedelta

from client_sdk import Client
from client_sdk.signing import Verifier
from client_sdk.target import Execution, Service
from client_sdk.target.inbound import InboundCalls
from client_sdk.target.messages import InboundCall
from tests.rows import each_row
from tests.unit.client_sdk.lines import Waits
from tests.unit.client_sdk.registry import Registry
from tests.unit.client_sdk.signed import NEW, NOW, headers, sign
from tests.unit.client_sdk.target.called_service import place


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


async def test_a_job_that_is_not_there_is_gone() -> None:
    """410 with X-Job-State: the scheduler pauses it."""
    async with place() as at:
        answer = await at.call("old")
        assert (answer.status_code, answer.headers["x-job-state"]) == (410, "gone")


async def test_a_draining_instance_sends_all_away() -> None:
    """503 with X-Instance-State; what runs comes to its end, and is answered."""
    async with place() as at:
        go, begun = asyncio.Event(), asyncio.Event()

        @at.service.job(job_id="slow")
        async def slow() -> str:
            begun.set()
            await go.wait()
            return "done"

        await at.service.start()
        first = asyncio.create_task(at.call("slow"))
        await begun.wait()
        stopping = asyncio.create_task(at.service.stop())
        await at.registry.until(lambda: "draining" in at.registry.told)
        for job_id in ("slow", "unknown"):
            away = await at.call(job_id, Idempotency_Key="other")
            assert (away.status_code, away.headers["x-instance-state"]) == (503, "draining")
        assert "deregistered" not in at.registry.told
        go.set()
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
            verifier=None,
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


@each_row("counts", ["x", "-1", "\u00b2", "9" * 1_000])
async def test_a_cancellation_of_an_attempt_that_is_no_number_is_refused(counts: str) -> None:
    """It is no fault of the application."""
    async with place() as at:
        answer = await at.call("one/cancel", **{"X-Scheduling-Request-Counts": counts.encode()})
        assert answer.status_code == 422
        assert "not a number" in answer.json()["detail"]
