"""Health and figures of the service (SPEC section 14)."""

import httpx

from tests.unit.api.world import World, pointers


async def test_figures_and_health(client: httpx.AsyncClient, world: World) -> None:
    """`/stats`, `/health/live`, `/health/ready`; 503 names what is missing (SPEC section 14)."""
    assert {"due", "waiting", "running", "byState", "lateness", "perMinute"} <= (
        await client.get("/stats")
    ).json()["data"].keys()
    assert (await client.get("/health/live")).json()["data"]["version"] == "1.2.3"
    assert (await client.get("/health/ready")).status_code == 200
    world.missing = ("store",)
    ready = await client.get("/health/ready")
    assert (ready.status_code, pointers(ready)) == (503, [("", "not_ready")])
    assert (await client.get("/settings")).status_code == 404


async def test_readiness_names_each_part(client: httpx.AsyncClient, world: World) -> None:
    """In the answer and in the problem, whose form is that of all problems (SPEC sections 10, 14)."""
    part = {"name": "store", "state": "ready", "since": "2026-01-01T00:00:00.000Z", "missing": []}
    world.parts = (part,)
    assert (await client.get("/health/ready")).json()["data"]["parts"] == [part]
    world.missing = ("store",)
    world.parts = ({**part, "state": "missing"},)
    refused = await client.get("/health/ready")
    assert (refused.status_code, pointers(refused)) == (503, [("", "not_ready")])
    assert refused.json()["detail"] == "not ready yet: store"
    assert [one["state"] for one in refused.json()["parts"]] == ["missing"]


async def test_a_loop_that_stood_still_is_not_live(client: httpx.AsyncClient, world: World) -> None:
    """For as long as it stood; a short hold is told beside the answer (SPEC section 14)."""
    world.standstills.note(0.35)
    assert (await client.get("/health/live")).json()["data"]["loopHeldMs"] == 350
    world.standstills.note(12)
    stood = await client.get("/health/live")
    assert (stood.status_code, pointers(stood)) == (503, [("", "stood_still")])
    assert stood.json()["loopHeldMs"] == 12_000
    assert "12.0 s" in stood.json()["detail"]
    assert (await client.get("/health/ready")).status_code == 200
