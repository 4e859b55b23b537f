"""Declares services and their jobs over the API, for the tests of both."""

from typing import Any

import httpx

from tests.unit.api.world import definition

PATH = "/services/billing"


def declared(job_id: str, **members: Any) -> dict[str, Any]:
    return {"jobId": job_id, **definition(**members)}


async def put(client: httpx.AsyncClient, *timers: dict[str, Any], status: int = 200, **members: Any) -> Any:
    response = await client.put(PATH, json={"timers": list(timers), **members})
    assert response.status_code == status, response.text
    return response.json()["data"]
