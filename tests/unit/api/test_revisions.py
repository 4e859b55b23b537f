"""Pages of revisions and their cursors (SPEC section 10)."""

import httpx
import pytest

from tests.unit.api.world import definition, pointers

pytestmark = pytest.mark.anyio


async def test_a_cursor_of_another_list_is_refused(client: httpx.AsyncClient) -> None:
    """Of another list, another job, or other filters: 422 (SPEC section 10)."""
    for name in ("j1", "j2"):
        await client.post(f"/jobs/{name}", json=definition())
        await client.post(f"/jobs/{name}/update", json=definition(jobName="other"))
    jobs = (await client.get("/jobs?limit=1")).json()["data"]["nextCursor"]
    revisions = (await client.get("/jobs/j1/revisions?limit=1")).json()["data"]["nextCursor"]
    assert (await client.get(f"/jobs?cursor={jobs}&timers=true")).status_code == 200
    assert (await client.get(f"/jobs/j1/revisions?cursor={revisions}")).status_code == 200
    for path in (
        f"/jobs?kind=cron&cursor={jobs}",
        f"/jobs?cursor={revisions}",
        f"/jobs/j1/revisions?cursor={jobs}",
        f"/jobs/j2/revisions?cursor={revisions}",
        f"/upcoming?cursor={jobs}",
        f"/services?cursor={jobs}",
    ):
        refused = await client.get(path)
        assert (refused.status_code, pointers(refused)) == (422, [("/cursor", "invalid")]), path
