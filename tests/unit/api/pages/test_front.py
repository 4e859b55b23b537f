"""The front page in JSON, and what holds for the pages without a key."""

from collections.abc import AsyncIterator

import httpx
import pytest

from scheduler_service.api.application import create_api
from scheduler_service.api.pages.front import prefers_html
from tests.rows import each_row
from tests.unit.api.world import World

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """A caller on this machine."""
    async with World().client() as client:
        yield client


@each_row(
    ("accept", "is_html"),
    [
        (BROWSER["accept"], True),
        ("text/html", True),
        ("TEXT/HTML;q=0.5", True),
        ("application/xhtml+xml", True),
        ("text/html;q=0.5, application/json", False),
        ("application/json, text/html;q=0.9", False),
        ("application/json, text/html", True),
        ("text/html;q=0", False),
        ("text/html;q=0.000, */*", False),
        ("*/*", False),
        ("image/png", False),
        ("text/html;level=1", True),
        ("nonsense;;;q=x,,", False),
        ("", False),
        (None, False),
    ],
)
def test_a_page_is_for_those_who_name_html(accept: str | None, is_html: bool) -> None:
    """And prefer nothing else; whoever takes anything is a program."""
    assert prefers_html(accept) is is_html


async def test_all_else_get_json(client: httpx.AsyncClient) -> None:
    """The same in the envelope; caches keep the two apart."""
    for headers in ({}, {"accept": "image/png"}, {"accept": "*/*"}):
        answer = await client.get("/", headers=headers)
        assert answer.headers["vary"] == "accept"
        data = answer.json()["data"]
        assert (data["name"], data["status"], data["missing"]) == ("Punctual", "ready", [])
        assert {"/docs", "/openapi.json", "/jobs", "/health/ready"} <= data["links"].keys()


async def test_each_address_that_it_names_answers(client: httpx.AsyncClient) -> None:
    """A link that leads nowhere would be worse than none."""
    described = set((await client.get("/openapi.json")).json()["paths"])
    links = set((await client.get("/")).json()["data"]["links"])
    assert links - described == {"/docs", "/openapi.json"}
    assert (await client.get("/docs")).status_code == 200


async def test_a_service_that_is_not_ready_says_so() -> None:
    """With what is missing, and 200: it answers."""
    world = World()
    world.missing = ("store",)
    async with world.client() as client:
        data = (await client.get("/")).json()["data"]
    assert (data["status"], data["missing"]) == ("not_ready", ["store"])


async def test_the_pages_are_under_the_rules_of_all_routes(client: httpx.AsyncClient) -> None:
    """Other methods, unknown parameters, other machines and other names of this one."""
    for path in ("/", "/docs"):
        assert (await client.post(path)).status_code == 405
        assert (await client.get(path, params={"x": "1"})).status_code == 422
        assert (await client.get(path, headers={"host": "evil.example"})).status_code == 403
        head = await client.head(path, headers=BROWSER)
        assert (head.status_code, int(head.headers["content-length"]) > 0) == (200, True)
    async with World().client("192.0.2.1") as stranger:
        assert (await stranger.get("/")).status_code == 403


async def test_with_a_key_strangers_may_see_them() -> None:
    """A browser sends none, and no secret is there."""
    transport = httpx.ASGITransport(
        create_api(World(admin_key="a-key-of-callers").deps), client=("192.0.2.1", 1)
    )
    async with httpx.AsyncClient(transport=transport, base_url="https://jobs.example") as client:
        for path in ("/", "/docs"):
            answer = await client.get(path)
            assert answer.status_code == 200
            assert "a-key-of-callers" not in answer.text


async def test_a_page_loads_and_runs_nothing(client: httpx.AsyncClient) -> None:
    """The policy lets nothing in but the page's own style, by its digest, and no script is there."""
    answer = await client.get("/docs", headers=BROWSER)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    for word in ("<script", "<link", "<img", "javascript:", ' style="', " onclick", "//cdn"):
        assert word not in answer.text, word
