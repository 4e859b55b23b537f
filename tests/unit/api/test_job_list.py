"""The list of jobs: pages and filters (SPEC section 10)."""

import httpx
import pytest

from tests.unit.api.world import definition, pointers

pytestmark = pytest.mark.anyio


async def test_jobs_are_listed_page_by_page(client: httpx.AsyncClient) -> None:
    """Cursor paging: each job once (SPEC section 10)."""
    for index in range(5):
        await client.post(f"/jobs/j{index}", json=definition())
    seen: list[str] = []
    cursor: str | None = None
    while True:
        params = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/jobs", params=params)).json()["data"]
        seen += [job["jobId"] for job in page["items"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert seen == ["j0", "j1", "j2", "j3", "j4"]


async def test_jobs_are_filtered(client: httpx.AsyncClient) -> None:
    """By state, kind (the source's spelling too), label, text (SPEC sections 3, 10)."""
    await client.post("/jobs/alpha", json=definition(labels={"team": "ops"}, objectId="o1"))
    await client.post("/jobs/beta", json=definition(timer={"dueTime": "1h", "period": "5m"}, active=0))
    for query, found in [
        ("state=paused", ["beta"]),
        ("kind=timeing", ["beta"]),
        ("kind=external", ["alpha"]),
        ("label=team:ops", ["alpha"]),
        ("label=team:dev", []),
        ("objectId=o1", ["alpha"]),
        ("text=bet", ["beta"]),
        ("system=true", []),
    ]:
        items = (await client.get(f"/jobs?{query}")).json()["data"]["items"]
        assert [job["jobId"] for job in items] == found


@pytest.mark.parametrize("query", ["limit=501", "cursor=x", "sort=size", "foo=1", "kind=daily"])
async def test_a_filter_that_is_none_is_422(client: httpx.AsyncClient, query: str) -> None:
    """An unknown filter is 422 (SPEC section 10)."""
    response = await client.get(f"/jobs?{query}")
    assert response.status_code == 422
    assert pointers(response)[0][0] == "/" + query.partition("=")[0]
