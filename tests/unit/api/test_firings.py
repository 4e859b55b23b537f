"""What became of a job's planned firings (SPEC section 10)."""

import httpx
import pytest

from tests.unit.api.world import definition

pytestmark = pytest.mark.anyio


async def test_the_ledger_of_a_job_is_listed(client: httpx.AsyncClient) -> None:
    """`GET /jobs/{jobId}/firings` (SPEC section 10)."""
    await client.post("/jobs/a", json=definition(timer=None))
    firings = (await client.get("/jobs/a/firings")).json()["data"]["items"]
    assert [one["outcome"] for one in firings] == ["fired"]
    assert (await client.get("/jobs/none/firings")).status_code == 404
