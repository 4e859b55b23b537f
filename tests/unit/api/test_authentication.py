"""Who may use the API: this machine without a key, everyone with one (SPEC section 14)."""

import httpx

from tests.rows import each_row
from tests.unit.api.world import World, definition, pointers


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


async def test_with_a_key_every_caller_needs_it() -> None:
    """401 no or unknown key; feedback has its token, health and the description do not (SPEC section 14)."""
    world = World(admin_key="secret")
    async with world.client("192.0.2.1", base_url="https://jobs.example") as client:
        for said in (None, "Bearer wrong", "Basic secret"):
            headers = {} if said is None else {"Authorization": said}
            for path in ("/jobs", "/nothing", "/settings"):
                response = await client.get(path, headers=headers)
                assert response.status_code == 401
                assert response.headers["www-authenticate"].startswith("Bearer")
                pointers(response)
        known = {"Authorization": "Bearer secret"}
        assert (await client.get("/jobs", headers=known)).status_code == 200
        both = [("Authorization", "Bearer secret"), ("Authorization", "Bearer other")]
        response = await client.get("/jobs", headers=both)
        assert (response.status_code, pointers(response)) == (400, [("/Authorization", "repeated")])
        assert (await client.get("/health/live")).status_code == 200
        assert (await client.get("/openapi.json")).json()["openapi"] == "3.1.0"
        assert (await client.post("/jobs/j1/feedback/1", json={})).status_code == 404
        plain = {name: value for name, value in definition().items() if not name.startswith("creator")}
        created = await client.post("/jobs/j1", json=plain, headers=known)
        assert created.json()["data"]["definition"]["creator"] == "admin"
