"""A service as an application: its jobs, its start and its end (SPEC section 16)."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from client_sdk import Client
from client_sdk.target import Service
from client_sdk.target.service import SignalDrain
from tests.rows import each_row
from tests.unit.client_sdk.registry import registered
from tests.unit.client_sdk.target.called_service import place


@each_row(("name", "shown"), [("a b", "'a b'"), ("", "''"), (None, "None"), (5, "5")])
def test_a_name_that_is_none_is_refused_with_its_letters(name: Any, shown: str) -> None:
    """Also one that a forgotten variable has left empty."""
    with pytest.raises(ValueError, match="is no name of a service") as caught:
        Service(name, client=Client(), signals=())
    assert str(caught.value) == (
        f"service {shown} is no name of a service; "
        "use 1 to 128 of letters, digits, '.', '_' and '-', the first a letter or digit"
    )


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """An application that does not know the lifespan protocol."""
    raise RuntimeError(scope["type"])


@each_row("make", [lambda service: service.wrap(nothing), lambda service: service])
async def test_start_and_end_of_an_application(make: Callable[[Service], Any]) -> None:
    """The lifespan of the application is that of the instance."""
    async with registered() as (service, registry):
        await live(make(service), lambda: registry.instances)
        assert registry.told[-1] == "deregistered"


async def test_the_lifespan_of_the_application_goes_on() -> None:
    """The instance is registered after the application has started, and leaves before it stops."""
    order: list[str] = []
    async with registered() as (service, registry):

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[None]:
            order.append(f"up {len(registry.told)}")
            yield
            order.append(f"down after {registry.told[-1]}")

        app = FastAPI(lifespan=lifespan)
        app.add_middleware(service.wrap)
        await live(app, lambda: registry.instances)
        assert order == ["up 0", "down after deregistered"]


async def live(app: Any, condition: Callable[[], Any]) -> None:
    """One run of the lifespan protocol; `condition` holds between start and end."""
    asked: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    said: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    asked.put_nowait({"type": "lifespan.startup"})
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    task = asyncio.create_task(app(scope, asked.get, said.put))
    assert await said.get() == {"type": "lifespan.startup.complete"}
    assert condition()
    asked.put_nowait({"type": "lifespan.shutdown"})
    assert await said.get() == {"type": "lifespan.shutdown.complete"}
    await task


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


NUMBER = signal.SIGUSR1


class Heard:
    """A handler of signals; `times` counts them."""

    def __init__(self) -> None:
        self.times = 0
        self.once = asyncio.Event()

    def take(self, number: int, frame: Any) -> None:
        self.times += 1
        self.once.set()


@pytest.fixture
def heard() -> Iterator["Heard"]:
    """What the server's own handler hears."""
    heard = Heard()
    before = signal.signal(NUMBER, heard.take)
    yield heard
    signal.signal(NUMBER, before)


async def test_the_signal_waits_until_the_work_is_done(heard: Heard) -> None:
    """Then it does what it would have done."""
    begun, go, before = asyncio.Event(), asyncio.Event(), signal.getsignal(NUMBER)

    async def stop() -> None:
        begun.set()
        await go.wait()

    farewell = SignalDrain(numbers=[NUMBER], stop=stop)
    farewell.install()
    signal.raise_signal(NUMBER)
    await begun.wait()
    assert heard.times == 0
    go.set()
    await heard.once.wait()
    assert heard.times == 1
    assert signal.getsignal(NUMBER) == before


@pytest.mark.parametrize("signals", [1, 2])
def test_a_second_signal_is_passed_on_at_once(heard: Heard, signals: int) -> None:
    """Who is in a hurry says it twice. The end of the loop, which cancels the draining, raises no signal."""

    async def hurry() -> None:
        begun = asyncio.Event()

        async def stop() -> None:
            begun.set()
            await asyncio.Event().wait()

        SignalDrain(numbers=[NUMBER], stop=stop).install()
        signal.raise_signal(NUMBER)
        await begun.wait()
        if signals == 2:
            signal.raise_signal(NUMBER)
        assert heard.times == signals - 1

    asyncio.run(hurry())
    assert heard.times == signals - 1


async def test_handlers_are_given_back(heard: Heard) -> None:
    """An instance that ends by itself leaves signals as they were; one in a thread never takes them."""
    before = signal.getsignal(NUMBER)

    async def stop() -> None: ...

    farewell = SignalDrain(numbers=[NUMBER], stop=stop)
    farewell.install()
    assert signal.getsignal(NUMBER) != before
    farewell.remove()
    assert signal.getsignal(NUMBER) == before
    thread = threading.Thread(target=SignalDrain(numbers=[NUMBER], stop=stop).install)
    thread.start()
    thread.join()
    assert signal.getsignal(NUMBER) == before
