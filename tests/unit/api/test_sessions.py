"""Signing in with a key: what a session may, and what it is refused (SPEC section 14)."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from scheduler_service.api.session_cookies import SESSION_MS
from scheduler_service.domain.keys_and_roles import OF_SETTINGS, AccessKey
from scheduler_service.security.callers import Role, Session, SessionSeal
from scheduler_service.security.key_ring import MOST_ENDED, KeyRing
from scheduler_service.security.wrong_keys import PER_ADDRESS
from tests.manual_clock import ManualClock
from tests.unit.api.stores import START
from tests.unit.api.world import World, definition, pointers
from tests.unit.security.memory_keys import MemoryKeys

KEY = "a-key-of-this-service"
BASE = "https://jobs.example"
MARKED = {"X-Punctual-Console": "1", "Origin": BASE}
UNKNOWN = dict.fromkeys(("name", "tenant", "role", "service", "keyId", "expiresAt"))
NOBODY = {**UNKNOWN, "labels": [], "isOfProxy": False, "needsKey": True}


@pytest.fixture
def world() -> World:
    """A scheduler with a key."""
    return World(admin_key=KEY)


def browser(world: World, address: str = "192.0.2.1", **options: Any) -> httpx.AsyncClient:
    """A browser that keeps cookies."""
    return world.client(address, base_url=BASE, **options)


async def sign_in(client: httpx.AsyncClient, key: str = KEY, **headers: str) -> httpx.Response:
    return await client.post("/session", json={"key": key}, headers={**MARKED, **headers})


def cookie(text: str) -> Mapping[str, str]:
    return {"Cookie": f"punctual_session={text}"}


def sealed(**members: Any) -> str:
    made = {"tenant": "default", "role": Role.ADMIN, "name": "admin", "expires": START + 60_000, **members}
    return SessionSeal(key=KEY.encode()).write(Session(**made))


async def test_a_key_is_exchanged_for_a_session(world: World) -> None:
    """With which the API is used as with the key, until it ends after twelve hours."""
    async with browser(world) as client:
        assert (await client.get("/session")).json()["data"] == NOBODY
        answer = await sign_in(client)
        shown = answer.json()["data"]
        assert (shown["name"], shown["tenant"], shown["role"], shown["needsKey"]) == (
            "admin",
            "default",
            "admin",
            True,
        )
        assert answer.headers["cache-control"] == "no-store"
        attributes = answer.headers["set-cookie"].split("; ")[1:]
        assert attributes == ["Path=/", "Max-Age=43200", "HttpOnly", "SameSite=Strict", "Secure"]
        assert (await client.get("/session")).json()["data"] == shown
        assert (await client.get("/jobs")).status_code == 200
        assert (await client.get("/settings")).status_code == 200, "an admin may"
        assert (await client.post("/jobs/j1", json=definition(), headers=MARKED)).status_code == 201
        world.wall += SESSION_MS
        assert (await client.get("/session")).json()["data"] == NOBODY
        ended = await client.get("/jobs")
        assert (ended.status_code, "sign in again" in ended.json()["detail"]) == (401, True)


async def test_signing_out_forgets_the_cookie(world: World) -> None:
    """In this browser; also without a session, so that it can be repeated."""
    async with browser(world) as client:
        await sign_in(client)
        answer = await client.delete("/session", headers=MARKED)
        assert (answer.status_code, answer.json()["data"]) == (200, NOBODY)
        assert "Max-Age=0" in answer.headers["set-cookie"]
        assert (await client.get("/jobs")).status_code == 401
        assert (await client.delete("/session", headers=MARKED)).status_code == 200
        assert (await client.delete("/session")).status_code == 403
        program = {"Authorization": f"Bearer {KEY}"}
        assert (await client.delete("/session", headers=program)).status_code == 200


async def test_a_session_that_was_signed_out_has_ended() -> None:
    """Whoever has its cookie, in every process; the other sessions of its key go on."""
    clock, table = ManualClock(wall=START), MemoryKeys()
    ring, beside = KeyRing(table=table, clock=clock), KeyRing(table=table, clock=clock)
    world, elsewhere = (World(admin_key=KEY, key_ring=one, clock=clock) for one in (ring, beside))
    wanted = {"tenant": "default", "name": "a", "role": Role.ADMIN, "created_at": START, "created_by": "b"}
    made, text = await ring.create(AccessKey(key_id="", digest=b"", **wanted))
    for key in (KEY, text):
        cookies = []
        for _ in range(2):
            async with browser(world) as client:
                given = (await sign_in(client, key)).headers["set-cookie"].partition(";")[0]
                cookies.append(cookie(given.partition("=")[2]))
                clock.advance(1)
        first, other = cookies
        async with browser(world) as client:
            assert (await client.get("/jobs", headers=first)).status_code == 200
            table.is_down = True
            assert (await client.delete("/session", headers={**MARKED, **first})).status_code == 503
            table.is_down = False
            for _ in range(2):
                assert (await client.delete("/session", headers={**MARKED, **first})).status_code == 200
            assert (await client.get("/jobs", headers=first)).status_code == 401
            assert (await client.get("/jobs", headers=other)).status_code == 200
        await beside.look()
        async with browser(elsewhere) as client:
            assert (await client.get("/jobs", headers=first)).status_code == 401
            assert (await client.get("/jobs", headers=other)).status_code == 200
            shown = (await client.get("/keys", headers=other)).json()["data"]["items"]
            assert [one["keyId"] for one in shown] == [made.key_id]
    clock.advance(SESSION_MS)
    for key_id in ("", made.key_id):  # what is kept of them has a bound, and ends with them
        for number in range(MOST_ENDED + 2):
            await ring.end_session(key_id, str(number), clock.now().wall + 1 + number)
        assert len(table.rows[key_id or OF_SETTINGS].ended) == MOST_ENDED


async def test_a_change_in_a_session_shows_that_it_comes_from_the_console(world: World) -> None:
    """A foreign page can make a browser send a cookie, but neither the header nor our origin."""
    async with browser(world) as client:
        await sign_in(client)
        for headers, pointer in [
            ({}, "/X-Punctual-Console"),
            ({"Origin": BASE}, "/X-Punctual-Console"),
            ({"X-Punctual-Console": "0"}, "/X-Punctual-Console"),
            ({**MARKED, "Origin": "https://evil.example"}, "/Origin"),
            ({**MARKED, "Origin": "https://jobs.example.evil.example"}, "/Origin"),
            ({**MARKED, "Origin": "https://jobs.example:444"}, "/Origin"),
            ({**MARKED, "Origin": "null"}, "/Origin"),
        ]:
            for method, path in [
                ("POST", "/jobs/j1"),
                ("PUT", "/jobs/j1"),
                ("DELETE", "/jobs/j1"),
                ("DELETE", "/session"),
            ]:
                refused = await client.request(method, path, headers=headers)
                assert (refused.status_code, pointers(refused)[0][0]) == (403, pointer), (
                    method,
                    path,
                    headers,
                )
                assert "Authorization" in refused.json()["detail"] or pointer == "/Origin"
        assert world.catalogue.entries == {}
        marked = {"X-Punctual-Console": "1"}
        assert (await client.post("/jobs/j1", json=definition(), headers=marked)).status_code == 201
        assert (await client.head("/jobs")).status_code == 200
        proxied = {**MARKED, "Host": "10.0.0.7:8000", "X-Forwarded-Host": "jobs.example"}
        assert (await client.delete("/jobs/j1", headers=proxied)).status_code == 200


async def test_a_key_counts_before_a_session(world: World) -> None:
    """A program with a key needs no header; a wrong key is not mended by a cookie."""
    async with browser(world) as client:
        await sign_in(client)
        right = {"Authorization": f"Bearer {KEY}"}
        assert (await client.post("/jobs/j1", json=definition(), headers=right)).status_code == 201
        for wrong in ("Bearer wrong", "Basic x", ""):
            assert (await client.get("/jobs", headers={"Authorization": wrong})).status_code == 401
            assert (await client.get("/session", headers={"Authorization": wrong})).json()["data"] == NOBODY
        assert (await client.get("/session", headers=right)).json()["data"]["expiresAt"] is None


@pytest.mark.parametrize("role", list(Role))
async def test_a_session_has_its_role(world: World, role: Role) -> None:
    """What the role may not do is 403, whatever a page shows."""
    text = sealed(role=role, name="somebody")
    async with browser(world) as client:
        headers = {**MARKED, **cookie(text)}
        assert (await client.get("/session", headers=headers)).json()["data"]["role"] == role
        created = await client.post("/jobs/j1", json=definition(), headers=headers)
        assert created.status_code == (201 if role.includes(Role.EDITOR) else 403)


async def test_tampered_ended_and_foreign_cookies_are_no_session(world: World) -> None:
    """Nothing of them counts; the answer is that of an unknown caller, and no text makes a fault."""
    good = sealed()
    foreign = SessionSeal(key=b"another-key-of-a-service").write(
        Session("default", Role.ADMIN, "admin", START * 2)
    )
    version, body, signature = good.split(".")
    longer = sealed(expires=START * 2).split(".")[1]
    async with browser(world) as client:
        for text in (
            "", ".", "..", "x", good[:-1], good + "x", good.upper(), f"{version}.{longer}.{signature}",
            f"2.{body}.{signature}", f"{version}.{body}.", sealed(expires=START), foreign, "x" * 60_000,
            f"{good}.{good}", "%31" + good[1:], f'"{good}"', "é" * 40,
        ):  # fmt: skip
            headers = [(b"cookie", b"punctual_session=" + text.encode("latin-1"))]
            answer = await client.get("/jobs", headers=headers)
            assert answer.status_code == 401, text[:80]
            assert (await client.get("/session", headers=headers)).json()["data"] == NOBODY
        assert (await client.get("/jobs", headers=cookie(good))).status_code == 200


async def test_of_several_cookies_the_first_that_holds_counts(world: World) -> None:
    """A service of another path, or a page of a sister domain, may have set one of the name as well."""
    good = sealed()
    async with browser(world) as client:
        for value, status in [
            (f"punctual_session=x; punctual_session={good}", 200),
            (f"punctual_session={good}; punctual_session=x", 200),
            ("; ".join(["punctual_session=x"] * 4 + [f"punctual_session={good}"]), 401),
        ]:
            assert (await client.get("/jobs", headers={"Cookie": value})).status_code == status


async def test_open_routes_do_not_look_at_sessions(world: World) -> None:
    """A feedback URL has its token: a cookie neither helps nor hinders who reports."""
    async with browser(world) as client:
        for headers in (
            {},
            cookie(sealed()),
            cookie("x"),
            {**cookie(sealed()), "Origin": "https://evil.example"},
        ):
            answer = await client.post("/jobs/j1/feedback/1?token=x", json={}, headers=headers)
            assert answer.status_code == 403
            assert (await client.get("/health/live", headers=headers)).status_code == 200


async def test_wrong_keys_are_limited(world: World) -> None:
    """Ten a minute from one address; the right one always gets in: a proxy may be the address of all."""
    async with browser(world) as client:
        for _ in range(PER_ADDRESS):
            wrong = await sign_in(client, "wrong-key-of-somebody")
            assert (wrong.status_code, pointers(wrong)) == (401, [("/key", "unauthorized")])
        limited = await sign_in(client, "wrong-key-of-somebody")
        assert (limited.status_code, limited.headers["retry-after"]) == (429, "60")
        assert "set-cookie" not in limited.headers
        async with browser(world, "192.0.2.2") as other:
            assert (await sign_in(other, "wrong-key-of-somebody")).status_code == 401
        async with browser(World(admin_key=KEY)) as other_node:  # docs/decisions/0071
            assert (await sign_in(other_node, "wrong-key-of-somebody")).status_code == 401
        assert (await sign_in(client)).status_code == 200
        # A person has mistyped: those tries are forgotten
        assert (await sign_in(client, "wrong-key-of-somebody")).status_code == 401


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/jobs"), ("POST", "/jobs/a"), ("GET", "/events"), ("GET", "/metrics"), ("GET", "/session"),
        ("PUT", "/services/a/instances/b"), ("POST", "/queues/q/claim"), ("GET", "/no/such/route"),
    ],
)  # fmt: skip
async def test_wrong_keys_have_one_limit_at_all_routes(world: World, method: str, path: str) -> None:
    """Whichever were tried before; the right key is neither refused nor does it give others more tries."""
    wrong, right = ({"Authorization": f"Bearer {key}"} for key in ("wrong-key-of-somebody", KEY))
    async with browser(world) as client:
        for number in range(PER_ADDRESS):
            tried = client.get("/jobs", headers=wrong) if number % 2 else sign_in(client, "wrong-one-too")
            assert (await tried).status_code == 401
            assert (await client.get("/jobs", headers=right)).status_code == 200
        limited = await client.request(method, path, headers=wrong)
        assert (limited.status_code, pointers(limited)) == (429, [("/Authorization", "limit")])
        assert limited.headers["retry-after"] == "60"
        assert (await sign_in(client, "wrong-one-too")).status_code == 429
        assert (await client.get("/jobs", headers=right)).status_code == 200
        assert (await client.get("/jobs")).status_code == 401, "no key is no wrong key"
        world.wall += 60_000
        assert (await client.get("/jobs", headers=wrong)).status_code == 401


async def test_no_foreign_page_signs_a_browser_in(world: World) -> None:
    """Neither by a form (not JSON) nor by a script (its origin)."""
    async with browser(world) as client:
        assert (await client.post("/session", data={"key": KEY})).status_code == 415
        assert (await sign_in(client, Origin="https://evil.example")).status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400), (b"{", 400), (b"[]", 422), (b"{}", 422), (b'{"key": 7}', 422), (b'{"key": ""}', 422),
        (b'{"key": "s3cret-text", "more": 1}', 422), (b'{"key": {"s3cret-text": 1}}', 422),
        (b'{"key": "' + b"a" * 5_000 + b'"}', 413),
    ],
)  # fmt: skip
async def test_no_answer_repeats_a_key(world: World, body: bytes, status: int) -> None:
    """Bad bodies are refused by what is wrong, without their values; nothing of it is in the log."""
    async with browser(world) as client:
        answer = await client.post("/session", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == status, answer.text
        assert "s3cret-text" not in answer.text
        wrong = await sign_in(client, "s3cret-text-of-16")
        assert "s3cret-text" not in wrong.text
    assert "s3cret-text" not in str(world.logged)


async def test_without_a_key_this_machine_needs_no_session() -> None:
    """It is its user, and an admin; signing in and out changes nothing. Other machines are refused."""
    world = World(user="bob")
    async with world.client() as client:
        shown = (await client.get("/session")).json()["data"]
        known = {"name": "bob", "tenant": "default", "role": "admin", "needsKey": False}
        assert shown == NOBODY | known
        answer = await client.post("/session", json={"key": "anything"})
        assert (answer.json()["data"], "set-cookie" in answer.headers) == (shown, False)
        gone = await client.delete("/session", headers={"X-Punctual-Console": "1"})
        assert gone.json()["data"] == shown
    async with world.client("192.0.2.1") as stranger:
        assert (await stranger.get("/session")).status_code == 403


async def test_sessions_end_with_the_key_and_hold_over_a_restart(world: World) -> None:
    """No process keeps them: another one with the same key takes them, one with another key does not."""
    async with browser(world) as client:
        await sign_in(client)
        kept = client.cookies["punctual_session"]
    for key, status in ((KEY, 200), (f"{KEY}2", 401)):
        async with browser(World(admin_key=key)) as client:
            assert (await client.get("/jobs", headers=cookie(kept))).status_code == status


async def test_a_session_with_a_key_of_the_table_holds_at_every_node() -> None:
    """Whether they have `server.key` or not, and when it is changed."""
    table, clock = MemoryKeys(), ManualClock(wall=START)
    here, there = (KeyRing(table=table, clock=clock) for _ in range(2))
    key, text = await here.create(
        AccessKey(
            key_id="", tenant="default", name="ada", role=Role.VIEWER, digest=b"", created_at=0, created_by=""
        )
    )
    await there.look()
    async with browser(World(key_ring=here)) as client:
        await sign_in(client, text)
        kept = cookie(client.cookies["punctual_session"])
    for world in (World(key_ring=there), World(key_ring=there, admin_key=KEY)):
        async with browser(world) as client:
            shown = (await client.get("/session", headers=kept)).json()["data"]
            assert (shown["name"], shown["role"], shown["keyId"]) == ("ada", "viewer", key.key_id)
            made = await client.post("/jobs/j1", json=definition(), headers=MARKED | kept)
            assert (made.status_code, pointers(made)) == (403, [("/Authorization", "role")])
    old = sealed(key_id=key.key_id)
    async with browser(World(key_ring=there, admin_key=KEY)) as client:
        assert (await client.get("/jobs", headers=cookie(old))).status_code == 401
    await there.revoke(key.key_id)
    async with browser(World(key_ring=there)) as client:
        assert (await client.get("/jobs", headers=kept)).status_code == 401
