"""A host name that leads to a refused address today is a warning, not a refusal (SPEC section 9)."""

from collections.abc import Collection, Mapping
from typing import Any

import httpx
import pytest

from scheduler_service.api.application import create_api
from tests.unit.api.world import World, definition

REFUSED = {"inside.test": "it resolves to 10.0.0.1: it is private"}


class Names:
    """Which names are refused, and who was asked for."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    async def __call__(self, hosts: Collection[str]) -> Mapping[str, str]:
        self.asked.append(sorted(hosts))
        return {host: REFUSED[host] for host in hosts if host in REFUSED}


@pytest.fixture
def names() -> Names:
    """What the name server says."""
    return Names()


@pytest.fixture
def client(names: Names) -> httpx.AsyncClient:
    """A caller on loopback."""
    world = World(check_names=names)
    transport = httpx.ASGITransport(create_api(world.deps), client=("127.0.0.1", 4321))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000")


def warned(answer: httpx.Response) -> list[tuple[str, str]]:
    """(pointer, code) of the warnings about names."""
    found = answer.json()["warnings"]
    assert all(
        "inside.test cannot be reached today: it resolves to 10.0.0.1" in one["message"] for one in found
    )
    return [(one["pointer"], one["code"]) for one in found]


def job(**members: Any) -> dict[str, Any]:
    """A definition that names three hosts, one of them refused in several places."""
    base = {
        "request": [{"url": "http://outside.test/"}, {"url": "HTTPS://Inside.test:8443/${path}?x=1"}],
        "async": True,
        "checkUrl": "http://inside.test/check",
        "notification": [{"url": "http://inside.test./told", "body": {"url": "http://nobody.test/"}}],
    }
    return definition(**base | members)


POINTERS = ["/request/1/url", "/checkUrl", "/notification/0/url"]


async def test_creation_and_update_warn(client: httpx.AsyncClient, names: Names) -> None:
    """Each URL with its pointer; the job is created all the same."""
    made = await client.post("/jobs/job", json=job())
    assert (made.status_code, warned(made)) == (201, [(one, "egress_today") for one in POINTERS])
    assert names.asked[0][0] == "inside.test"
    changed = await client.post("/jobs/job/update", json=job(checkUrl="http://outside.test/"))
    assert [pointer for pointer, _ in warned(changed)] == ["/request/1/url", "/notification/0/url"]


async def test_an_array_warns_and_asks_once(client: httpx.AsyncClient, names: Names) -> None:
    """Each item has its own warnings; a refused one has none; the names are looked up together."""
    items = [job(jobId="a"), definition(jobId="b"), job(jobId="c", request=[]), job(jobId="d")]
    answer = await client.post("/jobs", json=items)
    found = answer.json()["data"]["items"]
    assert [one["status"] for one in found] == ["created", "created", "refused", "created"]
    assert [[flaw["pointer"] for flaw in one["warnings"]] for one in found] == [POINTERS, [], [], POINTERS]
    assert len(names.asked) == 1


async def test_a_declaration_warns(client: httpx.AsyncClient) -> None:
    """Of a service, and of an instance where it is new; below `timers`."""
    body = {"timers": [definition(jobId="a"), job(jobId="b")]}
    declared = await client.put("/services/own", json=body)
    assert [pointer for pointer, _ in warned(declared)] == [f"/timers/1{pointer}" for pointer in POINTERS]
    again = await client.put("/services/own/instances/one", json=body | {"address": "http://127.0.0.1:9"})
    assert again.json()["warnings"] == []


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9/", "http://[::1]/", "http://localhost:9/", "service://own/x", "http://${HOST}/"],
)
async def test_addresses_and_services_are_not_looked_up(
    client: httpx.AsyncClient, names: Names, url: str
) -> None:
    """Where no host name is written out, nobody is asked, and nothing is waited for."""
    await client.post("/jobs/job", json=definition(request=[{"url": url}]))
    await client.post("/jobs", json=[definition(jobId="many", request=[{"url": url}])])
    assert names.asked == []
