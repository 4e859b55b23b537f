"""Work in a pull queue: made, claimed and completed over the API."""

from typing import Any

import httpx

from tests.wire.service import World, data_of, definition

STEP = {"url": "queue://work", "body": {"n": "${$.n}|json"}}


async def create(world: World, step: dict[str, Any] | None = None, **members: Any) -> None:
    """A job `j` whose one step goes to the queue."""
    posted = definition(request=[STEP | (step or {})], overlapPolicy="allow", **members)
    data_of(await world.client.post("/jobs/j", json=posted), 201)


async def trigger(world: World, n: int = 1, **headers: str) -> str:
    """One execution; its id."""
    answer = await world.client.post("/jobs/j/trigger", json={"n": n}, headers=headers)
    return str(data_of(answer)["executionId"])


async def claim(world: World, instance: str = "w1", most: int = 1, wait: float = 0) -> list[dict[str, Any]]:
    """What an instance is given."""
    body = {"instanceId": instance, "max": most, "waitSeconds": wait}
    found: list[dict[str, Any]] = data_of(await world.client.post("/queues/work/claim", json=body))["items"]
    return found


async def complete(world: World, lease: str, **said: Any) -> httpx.Response:
    """Says how a part ended."""
    return await world.client.post(f"/leases/{lease}/complete", json={"status": "succeed"} | said)
