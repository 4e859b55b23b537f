"""Who may use the API: this machine, keys, proxies; roles (SPEC section 14)."""

import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from scheduler_service.api.application import OPERATIONS
from scheduler_service.api.openapi import describe
from scheduler_service.domain.keys_and_roles import Role
from scheduler_service.security.key_ring import KeyRing
from scheduler_service.security.trusted_proxies import Proxies
from tests.manual_clock import ManualClock
from tests.rows import each_row
from tests.unit.api.stores import START
from tests.unit.api.world import World, definition, pointers
from tests.unit.docs.roles import ENDED, ROLES, expected, is_as_promised, table
from tests.unit.security.memory_keys import MemoryKeys


async def test_without_a_key_only_this_machine_is_served(world: World) -> None:
    """No key configured: the peer and the `Host` must be of this machine (SPEC section 14)."""
    for address, host, status in [
        ("127.0.0.1", "localhost:8000", 200),
        ("127.8.9.1", "punctual.localhost", 200),
        ("::1", "[::1]:8000", 200),
        ("::ffff:127.0.0.1", "127.0.0.1", 200),
        ("192.0.2.1", "localhost", 403),
        ("127.0.0.1", "evil.example", 403),
        ("127.0.0.1", "127.0.0.1.evil.example", 403),
        ("127.0.0.1", "", 403),
        ("::1", "[::1", 403),
        ("::1", "[::1].evil.example", 403),
        ("::1", "::1", 403),
    ]:
        async with world.client(address) as client:
            for path in ("/jobs", "/nothing"):
                response = await client.get(path, headers={"Host": host})
                assert response.status_code == (status if status == 403 else 200 if path == "/jobs" else 404)


@each_row(
    "name",
    [
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "x-forwarded-anything",
        "Via",
        "X-Real-IP",
        "CF-Connecting-IP",
        "True-Client-IP",
        "X-Envoy-External-Address",
    ],
)
async def test_without_a_key_a_proxy_is_not_this_machine(name: str) -> None:
    """One that writes `Host: 127.0.0.1` makes everybody local; with a key it may (SPEC section 14)."""
    said = {"Host": "127.0.0.1", name: "192.0.2.1"}
    for path in ("/jobs", "/health/live", "/nothing"):
        async with World().client() as client:
            refused = await client.get(path, headers=said)
        assert (refused.status_code, pointers(refused)) == (403, [(f"/{name.title()}", "loopback_only")])
        assert "server.key" in refused.json()["detail"]
    async with World(admin_key="secret").client() as client:
        answer = await client.get("/jobs", headers={**said, "Authorization": "Bearer secret"})
    assert answer.status_code == 200


async def test_no_web_page_changes_anything(client: httpx.AsyncClient) -> None:
    """A request from another page is refused, though it has no body and the right Host (SPEC section 14)."""
    await client.post("/jobs/j1", json=definition())
    for origin, status in [
        ("http://evil.example", 403),
        ("null", 403),
        ("http://127.0.0.1:9999", 403),
        ("http://127.0.0.1:8000", 200),
    ]:
        response = await client.post("/jobs/j1/trigger", headers={"Origin": origin})
        assert response.status_code == status
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        sent = {"Sec-Fetch-Site": site, "Content-Type": "text/plain"}
        response = await client.post("/jobs/j1/trigger", headers=sent)
        assert response.status_code == status


KEY = "the-key-of-the-settings"
PROXY, OWN = "10.0.0.1", "https://jobs.example"
ANNA = {"X-Forwarded-User": "anna", "Host": "jobs.example"}
MARKED = {"X-Punctual-Console": "1", "Origin": OWN}


def behind(role: Role = Role.EDITOR, **settings: Any) -> World:
    """A service whose proxy signs users in."""
    proxies = Proxies([PROXY], user_header="X-Forwarded-User", role=role)
    return World(proxies=proxies, own_url=OWN, **settings)


async def ask(
    world: World, headers: dict[str, str], path: str = "/jobs", method: str = "GET", **more: Any
) -> httpx.Response:
    """An answer through the proxy, unless `address` is another one."""
    async with world.client(more.pop("address", PROXY), base_url="http://inner:8000") as client:
        return await client.request(method, path, headers=headers, **more)


async def test_a_user_of_the_proxy_needs_no_key() -> None:
    """It has its name and the role of the settings; everybody else needs a key, this machine too."""
    world = behind(Role.VIEWER)
    assert (await ask(world, ANNA)).status_code == 200
    session = (await ask(world, ANNA, "/session")).json()["data"]
    assert (session["name"], session["role"], session["isOfProxy"]) == ("anna", "viewer", True)
    refused = await ask(world, ANNA | MARKED, "/jobs/j1", "POST", json=definition())
    assert (refused.status_code, pointers(refused)) == (403, [("/Authorization", "role")])
    assert (await ask(world, {"Host": "jobs.example"})).status_code == 401
    assert (await ask(world, {"Host": "localhost"}, address="127.0.0.1")).status_code == 401
    for name in ("admin", "SYSTEM", "check-timers"):
        as_other = behind()
        await ask(as_other, ANNA | MARKED | {"X-Forwarded-User": name}, "/jobs/j1", "POST", json=definition())
        assert [line["who"] for line in as_other.audit.lines.values()] == [f"{name} (a caller)"]
    twice = await ask(world, [*ANNA.items(), ("X-Forwarded-User", "eve")])  # type: ignore[arg-type]
    assert twice.status_code == 400


async def test_the_header_counts_from_a_listed_proxy_alone() -> None:
    """And a key counts before it, also a wrong one."""
    world = behind(admin_key=KEY)
    assert (await ask(world, ANNA, address="192.0.2.7")).status_code == 401
    assert (await ask(world, ANNA | {"X-Forwarded-For": PROXY}, address="192.0.2.7")).status_code == 401
    assert (await ask(world, ANNA | {"Authorization": "Bearer wrong"})).status_code == 401
    own = {**ANNA, "Authorization": f"Bearer {KEY}"}
    assert (await ask(world, own, "/session")).json()["data"]["name"] == "admin"
    assert (await ask(world, ANNA | {"X-Forwarded-User": " "})).status_code == 401


async def test_no_foreign_page_uses_the_sign_in_of_a_proxy() -> None:
    """A browser brings it along unasked: changes are marked, and each request is for the own host."""
    world = behind()
    for headers, status in (
        (ANNA | MARKED, 201),
        (ANNA, 403),
        (ANNA | {"Origin": OWN}, 403),
        (ANNA | {"X-Punctual-Console": "1", "Origin": "https://evil.example"}, 403),
        (ANNA | {"X-Punctual-Console": "1"}, 200),
        (ANNA | MARKED | {"Host": "evil.example", "Origin": "https://evil.example"}, 403),
        (ANNA | MARKED | {"X-Forwarded-Host": "jobs.example, inner"}, 200),
        (ANNA | MARKED | {"Host": "evil.example", "X-Forwarded-Host": "jobs.example"}, 403),
        (ANNA | MARKED | {"Origin": "https://evil.example", "X-Forwarded-Host": "evil.example"}, 403),
    ):
        answer = await ask(world, headers, "/jobs/j1", "POST", json=definition())
        assert answer.status_code == status, headers
    for written in ({}, {"X-Forwarded-Host": "jobs.example"}):
        rebound = await ask(world, ANNA | {"Host": "evil.example"} | written)
        assert (rebound.status_code, pointers(rebound)) == (403, [("/Host", "host")])
    with_port = await ask(world, ANNA | {"Host": "jobs.example:443"})
    assert with_port.status_code == 200


async def test_wrong_keys_are_counted_by_the_address_behind_the_proxy() -> None:
    """One that tries many shuts no other out; the audit has the address, too."""
    world = behind(admin_key=KEY)
    forms = ("192.0.2.7", "192.0.2.7:4711", "::ffff:192.0.2.7", "[::ffff:192.0.2.7]:80")
    for count in range(11):
        tried = {"Authorization": "Bearer wrong", "X-Forwarded-For": f"198.51.100.9, {forms[count % 4]}"}
        assert (await ask(world, tried)).status_code == (401 if count < 10 else 429)
    others = {"Authorization": "Bearer wrong", "X-Forwarded-For": "192.0.2.8"}
    assert (await ask(world, others)).status_code == 401
    own = {"Authorization": f"Bearer {KEY}", "X-Forwarded-For": "192.0.2.8:80"}
    assert (await ask(world, own, "/jobs/j1", "POST", json=definition())).status_code == 201
    assert [line["address"] for line in world.audit.lines.values()] == ["192.0.2.8"]


NARROW = ROLES[:-1]
"""An admin's key is never for a part."""
PATHS = {
    "executionId": "absent-1",
    "deliveryId": "absent-1-0",
    "keyId": "0000000000000000",
    "name": "shop",
    "instanceId": "i",
    "requestCounts": "1",
}


def routes() -> list[str]:
    """All routes of the OpenAPI document."""
    paths: Mapping[str, Any] = describe(OPERATIONS, version="1")["paths"]
    return [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]


class Kinds:
    """A service, and a header for each kind of caller."""

    def __init__(self) -> None:
        self.clock = ManualClock(wall=START)
        ring = KeyRing(table=MemoryKeys(), clock=self.clock)
        self.world = World(admin_key="the-key-of-the-settings", key_ring=ring, clock=self.clock)
        transport = httpx.ASGITransport(self.world.api, raise_app_exceptions=False, client=("127.0.0.1", 1))
        self.client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000")
        self.headers: dict[str, dict[str, str]] = {}

    async def prepare(self) -> None:
        """Makes the keys; the time is then behind the end of one of them."""
        admin = {"Authorization": "Bearer the-key-of-the-settings"}
        kinds: dict[str, dict[str, Any]] = {
            **{role: {"role": role} for role in ROLES},
            **{f"service {role}": {"role": role, "service": "shop"} for role in NARROW},
            **{f"labels {role}": {"role": role, "labels": ["team:ops"]} for role in NARROW},
            "other tenant": {"role": "admin", "tenant": "other"},
            "expired": {"role": "admin", "expiresAt": "2026-01-01T00:00:01Z"},
            "revoked": {"role": "admin"},
        }
        for kind, members in kinds.items():
            answer = await self.client.post("/keys", json={"name": f"the {kind}", **members}, headers=admin)
            made = answer.json()["data"]
            self.headers[kind] = {"Authorization": f"Bearer {made['key']}"}
            if kind == "revoked":
                await self.client.delete(f"/keys/{made['keyId']}", headers=admin)
        self.headers |= {"none": {}, "unknown": {"Authorization": "Bearer nobody-has-this-key"}}
        self.clock.advance(2_000)

    async def ask(self, route: str, kind: str) -> tuple[int, str]:
        """The status of an answer, and the code of its first error."""
        self.clock.advance(60_000)  # wrong keys are counted by the minute
        method, path = route.split(" ")
        path = re.sub(r"\{(\w+)\}", lambda found: PATHS.get(found[1], "absent"), path)
        body = {"json": {}} if method in ("POST", "PUT") else {}
        answer = await self.client.request(method, path, headers=self.headers[kind], **body)
        assert answer.headers["x-content-type-options"] == "nosniff", route
        assert answer.headers["cache-control"] == "no-store", route
        if answer.is_success or not answer.content.startswith(b"{"):
            return answer.status_code, ""
        errors = answer.json()["errors"]
        return answer.status_code, errors[0]["code"] if errors else ""


@pytest.mark.parametrize(
    "kind",
    [
        *ROLES,
        *(f"{part} {role}" for part in ("service", "labels") for role in NARROW),
        "other tenant",
        *ENDED,
    ],
)
async def test_each_kind_of_key_is_answered_as_the_table_says(kind: str) -> None:
    """Over the whole OpenAPI document; the answer of who may is never about the key."""
    kinds, known = Kinds(), table()
    await kinds.prepare()
    wrong = {}
    for route in routes():
        status, code = await kinds.ask(route, kind)
        if not is_as_promised(known[route], kind, status, code):
            wrong[route] = status, code, expected(known[route], kind)
    assert wrong == {}
