"""The instances of services over the API (SPEC section 13)."""

from typing import Any

import httpx
import pytest

from scheduler_service.transport.errors import RefusedTarget
from tests.unit.api.world import World, pointers

PATH = "/services/billing"


async def test_instances_register_live_and_leave(world: World, client: httpx.AsyncClient) -> None:
    """Heartbeat every 3 s, offline after 10 s, deregistration before it stops (SPEC section 13)."""
    path = f"{PATH}/instances/i:1"
    said = {"address": "http://10.0.0.7:81/", "tags": ["eu"], "capacity": 2, "description": "first"}
    response = await client.put(path, json=said)
    assert response.status_code == 201
    shown = response.json()["data"]
    assert {name: shown[name] for name in said} == said | {"address": "http://10.0.0.7:81"}
    assert (shown["state"], shown["heartbeatSeconds"], shown["offlineSeconds"]) == ("online", 3, 10)
    assert (await client.put(path, json=said)).status_code == 200
    beat = await client.post(f"{path}/heartbeat", json={"load": 1.5, "draining": True})
    assert beat.json()["data"] == {"instanceId": "i:1", "state": "draining"}
    service = (await client.get(PATH)).json()["data"]
    assert (service["instanceCount"], service["onlineCount"]) == (1, 0)
    assert [(one["state"], one["load"]) for one in service["instances"]] == [("draining", 1.5)]
    again = await client.put(path, json=said)
    assert (again.status_code, again.json()["data"]["state"]) == (200, "draining")
    assert (await client.post(f"{path}/heartbeat", json={"draining": False})).json()["data"][
        "state"
    ] == "online"
    world.wall += 10_000
    service = (await client.get(PATH)).json()["data"]
    assert [one["state"] for one in service["instances"]] == ["offline"]
    assert (await client.post(f"{path}/heartbeat")).status_code == 200
    assert (await client.delete(path)).json()["data"] == {"instanceId": "i:1"}
    for gone in (await client.delete(path), await client.post(f"{path}/heartbeat", json={})):
        assert (gone.status_code, pointers(gone)) == (404, [("/instanceId", "absent")])


async def test_instances_at_one_address_are_warned_of(world: World, client: httpx.AsyncClient) -> None:
    """As processes that one server starts on one port: a call reaches either of them (SPEC section 13)."""
    said = {"address": "http://10.0.0.7:81"}
    assert (await client.put(f"{PATH}/instances/a", json=said)).json()["warnings"] == []
    for _ in range(2):
        (warning,) = (await client.put(f"{PATH}/instances/b", json=said)).json()["warnings"]
        assert (warning["pointer"], warning["code"]) == ("/address", "address_shared")
        assert "'a'" in warning["message"]
    for path, body in (("b", {"address": "http://10.0.0.7:82"}), ("c", {}), ("d", {})):
        assert (await client.put(f"{PATH}/instances/{path}", json=body)).json()["warnings"] == []
    world.wall += 10_000
    assert (await client.put(f"{PATH}/instances/e", json=said)).json()["warnings"] == []


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"load": -1}, [("/load", "range")]),
        ({"draining": "no"}, [("/draining", "type")]),
        ({"state": "fine"}, [("/state", "unknown_field")]),
    ],
)
async def test_a_heartbeat_is_read_strictly(
    client: httpx.AsyncClient, body: dict[str, Any], found: list[tuple[str, str]]
) -> None:
    """Unknown fields are refused, so that a typo is never silently ignored (SPEC section 2)."""
    await client.put(f"{PATH}/instances/a", json={})
    response = await client.post(f"{PATH}/instances/a/heartbeat", json=body)
    assert (response.status_code, pointers(response)) == (422, found)


async def test_without_a_key_an_address_is_checked() -> None:
    """As a job's own target is (SPEC section 9); nothing is kept of what is refused."""

    async def admit(address: str) -> None:
        if "10.0.0.7" in address:
            raise RefusedTarget("10.0.0.7 is private")

    world = World(admit=admit)
    async with world.client() as client:
        for path in (PATH, f"{PATH}/instances/a"):
            response = await client.put(path, json={"address": "http://10.0.0.7"})
            assert (response.status_code, pointers(response)) == (422, [("/address", "invalid")])
            assert "is private" in response.json()["detail"]
            assert (await client.get(PATH)).status_code == 404
        assert (await client.put(f"{PATH}/instances/a", json={"address": "http://x.test"})).status_code == 201
