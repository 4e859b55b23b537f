"""Sessions of the console that nobody was given, and keys that are tried, from many connections at once."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scheduler_service.security.callers import Role, Session, SessionSeal
from tests.attack.bystander import open_bystander
from tests.attack.client import Client, get, post
from tests.attack.service import Service, open_service

pytestmark = pytest.mark.timeout(120)
KEY = "a key of sixteen letters"
SETTINGS = {"server.key": KEY}
CALLERS = 40
REQUESTS = 50
HOUR_MS = 3_600_000
CONSOLE = "X-Punctual-Console: 1"


def _sealed(key: str, hours: int) -> str:
    expires = round(time.time() * 1000) + hours * HOUR_MS
    return SessionSeal(key=key.encode()).write(Session("default", Role.ADMIN, "admin", expires))


def _cookies() -> Iterable[str]:
    """Of another key, past its end, changed, too long, many at once, and no session at all."""
    foreign, ended, own = _sealed("another key of ours", 1), _sealed(KEY, -1), _sealed(KEY, 1)
    changed = own[:-4] + ("AAAA" if own[-4:] != "AAAA" else "BBBB")
    texts = (foreign, ended, changed, own + "A" * 30_000, "", "1.." + "." * 500)
    yield from (f"punctual_session={text}" for text in texts)
    yield "; ".join([f"punctual_session={changed}"] * 100)


@asynccontextmanager
async def _caller(service: Service, number: int) -> AsyncIterator[Client]:
    """A connection from an address of its own."""
    local = (f"127.0.1.{number + 1}", 0)
    client = Client(*await asyncio.open_connection("127.0.0.1", service.port, local_addr=local))
    try:
        yield client
    finally:
        client.close()


async def _send(service: Service, number: int, requests: Iterable[bytes]) -> set[int]:
    async with _caller(service, number) as client:
        found = set()
        for request in requests:
            await client.say(request)
            found.add((await client.answer())[0])
        return found


async def test_forged_ended_and_foreign_cookies(tmp_path: Path) -> None:
    """Each is 401, on every connection; a session that holds is one still."""
    asked = [get("/jobs", f"Cookie: {cookie}") for cookie in _cookies()]
    asked += [post("/jobs/bystander/pause", b"{}", CONSOLE, f"Cookie: {cookie}") for cookie in _cookies()]
    async with (
        open_service(tmp_path / "data", settings=SETTINGS) as service,
        open_bystander(service) as bystander,
    ):
        found = await asyncio.gather(*(_send(service, number, asked * 4) for number in range(CALLERS)))
        assert set().union(*found) == {401}
        own = get("/jobs", f"Cookie: punctual_session={_sealed(KEY, 1)}")
        assert await _send(service, 0, [own]) == {200}
        await bystander.check()


async def test_wrong_keys_at_every_route(tmp_path: Path) -> None:
    """300 from one address: ten are answered 401; who has the key goes on, also from there."""
    routes = ("/jobs", "/metrics", "/events", "/queues/work", "/services/a", "/session", "/no")
    async with (
        open_service(tmp_path / "data", settings=SETTINGS) as service,
        open_bystander(service) as bystander,
    ):
        guesses = [get(routes[n % len(routes)], f"Authorization: Bearer guess {n}") for n in range(300)]
        found = Counter[int]()
        async with _caller(service, 7) as client:
            for guess in guesses:
                await client.say(guess)
                found[(await client.answer())[0]] += 1
        assert found[429] == 290, found
        assert await _send(service, 7, [get("/jobs", f"Authorization: Bearer {KEY}")] * 20) == {200}
        assert await _send(service, 8, [get("/jobs", "Authorization: Bearer guess")]) == {401}
        await bystander.check()


async def test_keys_that_are_tried(tmp_path: Path) -> None:
    """From forty addresses: a hundred tries are answered, the others 429; who has the key goes on with it."""
    guesses = [post("/session", b'{"key":"guess %d"}' % number, CONSOLE) for number in range(REQUESTS)]
    async with (
        open_service(tmp_path / "data", settings=SETTINGS) as service,
        open_bystander(service) as bystander,
    ):
        found = await asyncio.gather(*(_send(service, number, guesses) for number in range(CALLERS)))
        assert set().union(*found) == {401, 429}
        await bystander.check()
