"""The address of a service that listens on all addresses of its machine (SPEC section 5)."""

import asyncio
import ipaddress
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from scheduler_service.app.actor_listener import HELD_BYTES, SMALL_BYTES, Asgi, create_actor_app
from scheduler_service.app.listener import address_of, find_own_address, is_wildcard, listen
from scheduler_service.hosts.dapr.sidecar import LARGEST_MESSAGE_BYTES
from scheduler_service.settings import load_settings
from tests.rows import each_row

WILDCARDS = ["0.0.0.0", "::"]


@pytest.fixture(params=WILDCARDS)
def listener(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    """A socket on all addresses, where this machine has addresses of the family."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((request.param, 0))
    except OSError as error:
        pytest.skip(f"this machine has no {family.name}: {error}")
    with listen(request.param, 0) as listening:
        yield listening


@each_row(
    ("host", "is_one"),
    [*((one, True) for one in WILDCARDS), ("127.0.0.1", False), ("::1", False), ("localhost", False)],
)
def test_a_wildcard_is_recognised(host: str, is_one: bool) -> None:
    """The addresses that stand for all; a name is none."""
    assert is_wildcard(host) is is_one


def test_what_is_found_reaches_the_listener(listener: socket.socket) -> None:
    """It is an address of this machine that others can use, or there is none."""
    found = find_own_address(listener)
    if found is None:
        return
    address = ipaddress.ip_address(found)
    assert not address.is_loopback
    assert not address.is_unspecified
    with socket.create_connection((found, listener.getsockname()[1]), timeout=10):
        pass


def test_the_start_says_which_address_it_takes(listener: socket.socket) -> None:
    """It is in the log, whether it was found or not."""
    told: list[tuple[str, object]] = []
    settings = load_settings({"server.host": listener.getsockname()[0]}, {}).settings
    port = listener.getsockname()[1]
    served = address_of(settings, listener, log=lambda event, /, **keys: told.append((event, keys["url"])))
    found = find_own_address(listener)
    shown = f"[{found}]" if found and ":" in found else found or "127.0.0.1"
    assert served == f"http://{shown}:{port}"
    assert told == [("address_assumed" if found else "address_not_found", served)]


def test_a_setting_or_an_address_of_its_own_is_taken_as_it_is() -> None:
    """Nothing is searched for, and nothing said."""

    def refuse(event: str, /, **keys: object) -> None:
        raise AssertionError(event)

    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert address_of(load_settings({}, {}).settings, listener, log=refuse) == f"http://127.0.0.1:{port}"
    with listen("0.0.0.0", 0) as listener:
        given = load_settings(
            {"server.host": "0.0.0.0", "server.external_url": "https://s.test"}, {}
        ).settings
        assert address_of(given, listener, log=refuse) == "https://s.test"


URL = "http://127.0.0.1:8001"
TOKEN = "a-token-of-daprd-and-its-application"
TURN = "/actors/unknown/job/method/take"
"""A route of the SDK that answers 500, since no actor of this type is registered: the request got through."""


class Actors:
    """A host that counts how often daprd has started."""

    is_healthy = True

    def __init__(self) -> None:
        self.starts = 0

    def recheck_cache(self) -> None:
        """Counts."""
        self.starts += 1


async def ask(
    app: Asgi, verb: str, path: str, *, base: str = URL, body: bytes = b"", **headers: str
) -> httpx.Response:
    """One request; names of headers have `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=base) as client:
        return await client.request(verb, path, content=body, headers=named)


def scope_of_a_turn() -> dict[str, object]:
    """A turn whose body has no length."""
    return {
        "type": "http",
        "method": "PUT",
        "path": TURN,
        "raw_path": TURN.encode(),
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8001"), (b"transfer-encoding", b"chunked")],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 8001),
        "client": ("127.0.0.1", 5),
        "root_path": "",
    }


@each_row("base", [URL, "http://localhost:8001", "http://[::1]:8001"])
async def test_daprd_gets_through(base: str) -> None:
    """By each name of this machine."""
    host = Actors()
    app = create_actor_app(host)
    assert (await ask(app, "GET", "/healthz", base=base)).status_code == 200
    assert (await ask(app, "GET", "/dapr/config", base=base)).status_code == 200
    assert (await ask(app, "PUT", TURN, base=base)).status_code == 500
    assert host.starts == 1


@each_row(
    "headers",
    [
        {"host": "rebound.example:8001"},
        {"host": "127.0.0.1.example"},
        {"host": ""},
        {"origin": "http://127.0.0.1:8001"},
        {"sec_fetch_site": "same-origin"},
        {"referer": "http://127.0.0.1:8001/"},
    ],
    ids=str,
)
@each_row(("verb", "path"), [("PUT", TURN), ("GET", "/dapr/config"), ("GET", "/healthz")])
async def test_a_web_page_is_refused(headers: dict[str, str], verb: str, path: str) -> None:
    """Also one whose name was made to lead to this machine (DNS rebinding)."""
    host = Actors()
    answer = await ask(create_actor_app(host), verb, path, **headers)
    assert (answer.status_code, answer.headers["content-length"]) == (403, "0")
    assert host.starts == 0


@each_row("given", [None, "", "a-token-of-somebody-else-altogether", TOKEN[:-1]])
async def test_without_the_token_nobody_takes_turns(given: str | None) -> None:
    """But the health probe, which says nothing and changes nothing, needs none."""
    app = create_actor_app(Actors(), token=TOKEN)
    headers = {} if given is None else {"dapr_api_token": given}
    for verb, path in (("PUT", TURN), ("DELETE", "/actors/unknown/job"), ("GET", "/dapr/config")):
        assert (await ask(app, verb, path, **headers)).status_code == 403
    assert (await ask(app, "GET", "/healthz", **headers)).status_code == 200


async def test_with_the_token_daprd_gets_through() -> None:
    """The one of its `APP_API_TOKEN`."""
    app = create_actor_app(Actors(), token=TOKEN)
    assert (await ask(app, "GET", "/dapr/config", dapr_api_token=TOKEN)).status_code == 200
    assert (await ask(app, "PUT", TURN, dapr_api_token=TOKEN)).status_code == 500


async def test_a_body_beyond_the_limit_is_refused() -> None:
    """Unread where its length says so."""
    app = create_actor_app(Actors())
    answer = await ask(app, "PUT", TURN, content_length=str(LARGEST_MESSAGE_BYTES + 1))
    assert answer.status_code == 413


async def test_a_body_without_a_length_is_cut_off() -> None:
    """The SDK gets no more than the limit, and the turn is not taken."""
    sent = 0
    answered: list[int] = []

    async def endless() -> dict[str, object]:
        nonlocal sent
        sent += 1 << 20
        assert sent <= 2 * LARGEST_MESSAGE_BYTES, "it reads on"
        return {"type": "http.request", "body": bytes(1 << 20), "more_body": True}

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            answered.append(int(str(message["status"])))

    await create_actor_app(Actors())(scope_of_a_turn(), endless, send)
    assert sent == LARGEST_MESSAGE_BYTES + (1 << 20)
    assert answered in ([], [400], [500])


async def test_many_bodies_without_an_end_do_not_fill_the_memory() -> None:
    """Beyond a limit for all that are being read a large one is refused, and small ones are taken still."""
    app, size = create_actor_app(Actors()), LARGEST_MESSAGE_BYTES
    stay: asyncio.Future[dict[str, object]] = asyncio.get_running_loop().create_future()

    async def read(size: int, rest: "asyncio.Future[dict[str, object]] | None") -> list[object]:
        messages = [{"type": "http.request", "body": bytes(size), "more_body": rest is not None}]
        answers: list[object] = []

        async def receive() -> Any:
            return messages.pop() if messages or rest is None else await rest

        async def send(message: Any) -> None:
            answers.append(message.get("status"))

        await app(scope_of_a_turn(), receive, send)
        return answers[:1]

    slow = [asyncio.ensure_future(read(size, stay)) for _ in range(HELD_BYTES // size)]
    await asyncio.sleep(0)
    assert await read(SMALL_BYTES + 1, None) == [503]
    assert await read(SMALL_BYTES, None) == [500], "it got through to the SDK"
    stay.set_result({"type": "http.disconnect"})
    assert await asyncio.gather(*slow) == [[]] * len(slow), "their sender is gone"
    assert await read(size, None) == [500], "there is room again"


async def test_an_unhealthy_host_says_so() -> None:
    """daprd then sends it no turns."""
    host = Actors()
    host.is_healthy = False
    assert (await ask(create_actor_app(host), "GET", "/healthz")).status_code == 503
