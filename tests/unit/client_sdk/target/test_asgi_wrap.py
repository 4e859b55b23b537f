"""A service in or around any ASGI application (SPEC section 16)."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from client_sdk.target import Service
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
        assert "jobs are called at /punctual/jobs/{jobId}" in stray.text
        assert (await at.http.get("/punctual/jobs/one")).status_code == 405
        big = await at.http.post("/punctual/jobs/one", content=b"x" * ((16 << 20) + 1))
        assert big.status_code == 413
