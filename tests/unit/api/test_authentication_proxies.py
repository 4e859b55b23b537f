"""Callers behind a proxy that signs them in, and their own addresses (SPEC section 14)."""

from typing import Any

import httpx

from scheduler_service.domain.access_keys import Role
from scheduler_service.security.proxies import Proxies
from tests.unit.api.world import World, definition, pointers

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
    for count in range(11):
        tried = {"Authorization": "Bearer wrong", "X-Forwarded-For": "198.51.100.9, 192.0.2.7"}
        assert (await ask(world, tried)).status_code == (401 if count < 10 else 429)
    others = {"Authorization": "Bearer wrong", "X-Forwarded-For": "192.0.2.8"}
    assert (await ask(world, others)).status_code == 401
    own = {"Authorization": f"Bearer {KEY}", "X-Forwarded-For": "192.0.2.8"}
    assert (await ask(world, own, "/jobs/j1", "POST", json=definition())).status_code == 201
