"""What holds on every route: bodies, methods, unknown paths, who may ask, stores that fail (SPEC 10, 14)."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUnavailable, StoreUncertain
from tests.unit.api.world import World, definition, pointers

pytestmark = pytest.mark.anyio
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{\n "a": 1\n "b": 2}', "Expecting ',' delimiter at line 3, column 2"),
        (b"{", "at line 1, column 2"),
        (b'{"a": "\\ud800"}', "half of a surrogate pair"),
        (b'{"a": "\xff"}', "not UTF-8 from byte 7 on"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": ' + b"1" * 5_000 + b"}", "a number is too large for any use here; send a smaller one"),
    ],
)
async def test_what_is_no_json_is_told_with_its_place(
    client: httpx.AsyncClient, body: bytes, said: str
) -> None:
    """The message says what is wrong and where, in words of JSON (SPEC section 10)."""
    assert said in (await client.post("/jobs/j1", content=body, headers=JSON)).json()["detail"]


async def test_an_answer_lists_a_hundred_errors(client: httpx.AsyncClient) -> None:
    """A body with very many errors is not answered by as many: the detail says how many more there are."""
    body = definition() | {f"x{index}": 1 for index in range(1_000)}
    problem = (await client.post("/jobs/j1", json=body)).json()
    assert len(problem["errors"]) == 100
    assert problem["detail"].endswith("; and 999 more")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"{'a': 1}", 400),
        (b"[1,]", 400),
        (b"NaN", 400),
        (b'{"a": NaN}', 400),
        (b'{"a": -Infinity}', 400),
        (b'{"a": "\\ud800"}', 400),
        (b'"\xff"', 400),
        (b'\xef\xbb\xbf{"a": 1}', 400),
        (b'{"a": 1} x', 400),
        (b'{"a": 1e999}', 422),
        (b"1" * 5_000, 422),
        (b"[" * 65 + b"]" * 65, 422),
        (b'{"a":' * 65 + b"1" + b"}" * 65, 422),
        (b"[" * 100_000, 422),
    ],
)
async def test_a_body_that_is_no_json_is_refused(client: httpx.AsyncClient, body: bytes, status: int) -> None:
    """400 malformed, 422 nested deeper than 64 levels or out of range (SPEC section 10)."""
    for path in ("/jobs/j1", "/jobs", "/timers/preview"):
        response = await client.post(path, content=body, headers=JSON)
        assert response.status_code == status
        pointers(response)


async def test_sixty_four_levels_are_fine(client: httpx.AsyncClient) -> None:
    """A body is at most 64 levels deep (SPEC section 10): the object, and 63 in it."""
    await client.post("/jobs/j1", json=definition())
    for levels, status in ((63, 200), (64, 422)):
        body = b'{"a":' + b"[" * levels + b"]" * levels + b"}"
        response = await client.post("/jobs/j1/trigger", content=body, headers=JSON)
        assert response.status_code == status


async def test_the_last_of_two_equal_names_counts(client: httpx.AsyncClient) -> None:
    """RFC 8259, section 4 leaves it open; here the last one counts, and the text stays as posted."""
    text = json.dumps(definition())[:-1] + ', "jobName": "second"}'
    await client.post("/jobs/j1", content=text, headers=JSON)
    job = (await client.get("/jobs/j1")).json()["data"]
    assert (job["jobName"], job["definition"]["jobName"]) == ("second", "second")


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx"]
)
async def test_a_body_is_json_by_its_type(client: httpx.AsyncClient, kind: str | None) -> None:
    """415 wrong type: no web page can post (SPEC sections 10, 14)."""
    headers = {} if kind is None else {"Content-Type": kind}
    response = await client.post("/jobs/j1", content=json.dumps(definition()), headers=headers)
    assert (response.status_code, pointers(response)) == (415, [("/Content-Type", "media_type")])


async def test_a_type_may_name_its_charset(client: httpx.AsyncClient) -> None:
    """`application/json; charset=utf-8` is JSON."""
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    response = await client.post("/jobs/j1", content=json.dumps(definition()), headers=headers)
    assert response.status_code == 201


async def test_a_body_has_a_limit_announced_or_not() -> None:
    """413 too large: `limits.body_bytes`, more for arrays (SPEC section 10)."""
    world = World(body_bytes=600, array_bytes=2_000)
    large = json.dumps(definition(jobDescription="x" * 600)).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 100):
            yield large[start : start + 100]

    async with world.client() as client:
        assert (await client.post("/jobs/j1", content=large, headers=JSON)).status_code == 413
        assert (await client.post("/jobs/j1", content=pieces(), headers=JSON)).status_code == 413
        assert (await client.post("/jobs", content=b"[" + large + b"]", headers=JSON)).status_code == 200
        assert (await client.post("/jobs", content=b" " * 2_001, headers=JSON)).status_code == 413


async def test_unknown_paths_and_methods_are_problems(client: httpx.AsyncClient) -> None:
    """404 and 405 of unknown routes are problems too (SPEC section 10)."""
    for path in ("/nothing", "/jobs/", "/jobs/a/b/c", "/"):
        response = await client.get(path)
        assert (response.status_code, pointers(response)) == (404, [("", "no_route")])
    patched = await client.patch("/jobs/j1")
    assert patched.status_code == 405
    assert patched.headers["allow"] == "DELETE, GET, POST, PUT"
    pointers(patched)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (StoreUnavailable("the disk is full"), "unavailable"),
        (StoreConflict("another writer was first"), "unavailable"),
        (StoreUncertain("no answer"), "unknown"),
    ],
)
async def test_a_store_that_fails_is_503(
    client: httpx.AsyncClient, world: World, fault: StoreError, code: str
) -> None:
    """503: nothing was done, or code `unknown` where nobody knows (SPEC section 10)."""
    world.fault = fault
    response = await client.post("/jobs/j1", json=definition())
    assert (response.status_code, pointers(response)) == (503, [("", code)])
    assert response.headers["retry-after"] == "1"
    bulk = await client.post("/jobs", json=[{"jobId": "a", **definition()}])
    assert bulk.json()["data"]["items"][0]["problem"]["errors"][0]["code"] == code
    world.fault = None
    assert (await client.get("/jobs/j1")).status_code == 404


@pytest.mark.parametrize("path", ["/queues/work/claim", "/leases/any/renew", "/leases/any/complete"])
async def test_a_host_without_queues_says_so(client: httpx.AsyncClient, path: str) -> None:
    """503 `not_available`, and where to go instead (SPEC sections 13, 15)."""
    answer = await client.post(path, json={"instanceId": "w", "status": "succeed"})
    assert (answer.status_code, pointers(answer)) == (503, [("", "not_available")])
    assert "embedded host" in answer.json()["detail"]


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
    ]:
        async with world.client(address) as client:
            for path in ("/jobs", "/nothing"):
                response = await client.get(path, headers={"Host": host})
                assert response.status_code == (status if status == 403 else 200 if path == "/jobs" else 404)


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


async def test_with_a_key_everybody_brings_it() -> None:
    """401 no or unknown key; feedback has its token, health needs none (SPEC sections 10, 14)."""
    world = World(admin_key="secret")
    async with world.client("192.0.2.1", base_url="https://jobs.example") as client:
        for said in (None, "Bearer wrong", "Basic secret"):
            headers = {} if said is None else {"Authorization": said}
            for path in ("/jobs", "/nothing", "/openapi.json"):
                response = await client.get(path, headers=headers)
                assert response.status_code == 401
                assert response.headers["www-authenticate"].startswith("Bearer")
                pointers(response)
        known = {"Authorization": "Bearer secret"}
        assert (await client.get("/jobs", headers=known)).status_code == 200
        assert (await client.get("/health/live")).status_code == 200
        assert (await client.post("/jobs/j1/feedback/1", json={})).status_code == 404
        plain = {name: value for name, value in definition().items() if not name.startswith("creator")}
        created = await client.post("/jobs/j1", json=plain, headers=known)
        assert created.json()["data"]["definition"]["creator"] == "admin"


async def test_a_fault_of_ours_shows_nothing(world: World) -> None:
    """Never a stack trace (SPEC section 10)."""

    async def break_down() -> tuple[str, ...]:
        raise RuntimeError("the secret inside")

    broken = World(ready=break_down)
    transport = httpx.ASGITransport(broken.api, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.get("/health/ready")
        assert (response.status_code, pointers(response)) == (500, [("", "internal")])
        assert "secret" not in response.text
