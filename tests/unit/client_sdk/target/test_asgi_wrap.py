"""A service in or around any ASGI application (SPEC section 16)."""

from collections.abc import Callable, MutableMapping
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from client_sdk.target import Service
from tests.rows import each_row
from tests.unit.client_sdk.target.called_service import place

pytestmark = pytest.mark.anyio


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


@each_row("wrap", [in_fastapi, in_starlette, mounted, around_bare])
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
        assert "jobs are called at /punctual/jobs/{jobId}" in stray.text
        assert (await at.http.get("/punctual/jobs/one")).status_code == 405
        big = await at.http.post("/punctual/jobs/one", content=b"x" * ((1 << 20) + 1))
        assert big.status_code == 413


@each_row("came", [b"", b'{"left": 1}', b'{"le'])
async def test_half_a_body_is_no_call(came: bytes) -> None:
    """A connection that ends before the whole body has come runs nothing, also not with defaults."""
    ran: list[int] = []
    async with place() as at:

        @at.service.job(job_id="work")
        async def work(left: int = 0) -> None:
            ran.append(left)

        answered = await _cut_off(at.service, came)
    assert (ran, answered) == ([], 400)


async def test_a_service_may_allow_longer_bodies() -> None:
    """And says by which option, before it reads one that its length gives away."""
    async with place(body_bytes=2_000) as at:

        @at.service.job(job_id="work")
        async def work(text: str) -> int:
            return len(text)

        assert (await at.call("work", {"text": "x" * 1_900})).json() == 1_900
        refused = await at.call("work", {"text": "x" * 2_000})
        assert refused.status_code == 413
        assert "body_bytes" in refused.text
        unread = await at.http.post("/punctual/jobs/work", content=b"{}", headers={"Content-Length": "2001"})
        assert unread.status_code == 413


async def _cut_off(app: Service, came: bytes) -> int:
    """The status for a call whose connection ends after these bytes of its body."""
    messages: list[MutableMapping[str, Any]] = [
        {"type": "http.request", "body": came, "more_body": True},
        {"type": "http.disconnect"},
    ]
    answered: list[int] = []

    async def receive() -> MutableMapping[str, Any]:
        return messages.pop(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answered.append(message["status"])

    path = "/punctual/jobs/work"
    await app({"type": "http", "method": "POST", "path": path, "root_path": "", "headers": []}, receive, send)
    return answered[0]
