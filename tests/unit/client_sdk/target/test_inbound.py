"""Calls of declared jobs, in any ASGI application (SPEC sections 13, 16)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from client_sdk import Client, JobFailed
from client_sdk.signing import Verifier
from client_sdk.target import Execution, Service
from client_sdk.target.inbound import InboundCalls
from client_sdk.target.messages import InboundCall
from tests.unit.client_sdk.lines import Waits
from tests.unit.client_sdk.registry import Registry
from tests.unit.client_sdk.test_signing import NEW, NOW, headers, sign

pytestmark = pytest.mark.anyio
OWN = {"Idempotency-Key": "life-7-0", "X-Scheduling-Execute-Number": "7", "X-Scheduling-Request-Counts": "9"}


class Place:
    """A service in front of an application, and somebody who calls it."""

    def __init__(self, service: Service, http: httpx.AsyncClient, registry: Registry) -> None:
        self.service = service
        self.http = http
        self.registry = registry

    async def call(self, job_id: str, body: Any = None, **further: str) -> httpx.Response:
        """One call as the scheduler makes it."""
        named = {name.replace("_", "-"): value for name, value in further.items()}
        return await self.http.post(f"/punctual/jobs/{job_id}", json=body or {}, headers=OWN | named)


@asynccontextmanager
async def place(wrap: Callable[[Service], Any] | None = None, **options: Any) -> AsyncIterator[Place]:
    """A service with a registry in memory; `wrap` puts it into an application."""
    registry = Registry()
    async with Client("http://scheduler.test", transport=registry.transport) as client:
        service = Service("reports", client=client, address="http://127.0.0.1:9", signals=(), **options)
        app = service if wrap is None else wrap(service)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://target.test") as http:
            yield Place(service, http, registry)
            await service.stop()


async def hello(request: Any) -> PlainTextResponse:
    return PlainTextResponse("hello")


async def bare(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    await PlainTextResponse("hello")(scope, receive, send)


def in_fastapi(service: Service) -> Any:
    app = FastAPI()
    app.add_api_route("/hello", lambda: PlainTextResponse("hello"))
    app.add_middleware(service.wrap)
    return app


def in_starlette(service: Service) -> Any:
    app = Starlette(routes=[Route("/hello", hello)])
    app.add_middleware(service.wrap)
    return app


def mounted(service: Service) -> Any:
    return Starlette(routes=[Route("/hello", hello), Mount("/punctual", service)])


def around_bare(service: Service) -> Any:
    return service.wrap(bare)


@pytest.mark.parametrize("wrap", [in_fastapi, in_starlette, mounted, around_bare])
async def test_in_any_application(wrap: Callable[[Service], Any]) -> None:
    """The jobs are called below the prefix; everything else is the application's."""
    async with place(wrap) as at:

        @at.service.job(job_id="add")
        async def add(left: int, right: int = 1) -> dict[str, int]:
            return {"sum": left + right}

        answer = await at.call("add", {"left": 2})
        assert (answer.status_code, answer.json()) == (200, {"sum": 3})
        assert (await at.http.get("/hello")).text == "hello"


async def test_the_service_alone_is_an_application() -> None:
    """Whatever is no call of a job is told so."""
    async with place() as at:
        stray = await at.http.post("/punctual/x")
        assert stray.status_code == 404
        assert "calls of jobs come to /punctual/jobs/{jobId}" in stray.text
        assert (await at.http.get("/punctual/jobs/one")).status_code == 405
        big = await at.http.post("/punctual/jobs/one", content=b"x" * ((16 << 20) + 1))
        assert big.status_code == 413


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
            said = f"X-Scheduled-At {moment!r} is no moment; write {form}"
            assert (answer.status_code, answer.json()["detail"]) == (422, said)


async def test_a_job_that_is_not_there_is_gone() -> None:
    """410 with X-Job-State: the scheduler pauses it."""
    async with place() as at:
        answer = await at.call("old")
        assert (answer.status_code, answer.headers["x-job-state"]) == (410, "gone")


async def test_failures_have_their_codes() -> None:
    """What the function means is its status; what it does not mean is 500. `Retry-After` is in seconds."""
    async with place() as at:

        @at.service.job(job_id="fail")
        async def fail(how: str) -> None:
            if how == "meant":
                raise JobFailed("locked", status=423, data={"by": "bob"}, retry_after=2.5)
            raise RuntimeError("oops")

        meant = await at.call("fail", {"how": "meant"})
        assert (meant.status_code, meant.headers["retry-after"]) == (423, "3")
        told = meant.json()
        assert (told["status"], told["error"], told["message"]) == ("failed", "423", "locked")
        assert told["data"] == {"by": "bob"}
        other = await at.call("fail", {"how": "else"})
        assert (other.status_code, other.json()["message"]) == (500, "RuntimeError: oops")


async def test_a_function_that_blocks_runs_in_a_thread() -> None:
    """The event loop goes on meanwhile."""
    async with place() as at:
        here = threading.current_thread()

        @at.service.job(job_id="block")
        def block(execution: Execution) -> dict[str, Any]:
            with execution.progress(2) as progress:
                progress.advance()
            return {"elsewhere": threading.current_thread() is not here, "counts": execution.request_counts}

        assert (await at.call("block")).json() == {"elsewhere": True, "counts": 9}


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


async def test_what_takes_too_long_is_stopped() -> None:
    """After the grace; it had begun, so that counts as an attempt: no draining mark."""
    async with place(grace_seconds=0.01) as at:
        begun = asyncio.Event()

        @at.service.job(job_id="slow")
        async def slow() -> None:
            begun.set()
            await asyncio.Event().wait()

        await at.service.start()
        first = asyncio.create_task(at.call("slow"))
        await begun.wait()
        await at.service.stop()
        answer = await first
        assert (answer.status_code, answer.json()["error"]) == (503, "interrupted")
        assert "x-instance-state" not in answer.headers


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


async def test_a_job_is_cancelled_from_outside() -> None:
    """`cancelUrl` stops the attempt that its headers name, and no other."""
    async with place() as at:
        begun = asyncio.Event()

        @at.service.job(job_id="slow", asynchronous=True)
        async def slow() -> None:
            begun.set()
            await asyncio.Event().wait()

        url = "http://scheduler.test/jobs/slow/feedback/9?token=t"
        assert (await at.call("slow", Feedback_Url=url)).status_code == 202
        await begun.wait()
        other = await at.call("slow/cancel", X_Scheduling_Request_Counts="8")
        assert other.json() == {"stopped": 0}
        assert (await at.call("slow/cancel")).json() == {"stopped": 1}
        assert at.registry.reports == []
