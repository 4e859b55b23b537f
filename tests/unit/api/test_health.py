"""Health and figures of the service (SPEC section 14)."""

import httpx
import pytest

from tests.unit.api.world import World, pointers

pytestmark = pytest.mark.anyio


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
