"""The routes under /main: children of an execution, and cleaning up (SPEC section 10)."""

from base64 import b64decode

import httpx
import pytest
from msgspec.structs import replace

from scheduler_service.api import legacy_main
from tests.unit.api.world import World, definition, pointers, start


async def test_children_and_their_logs(client: httpx.AsyncClient) -> None:
    """For each child of an execution its newest one, in full; by number and by id (SPEC section 10)."""
    parent = await start(client)
    child = {"parentJob": "j1", "parentJobExecution": 1}
    await start(client, "c1", **child)
    await start(client, "c2", parentJob="j1", parentJobExecution=2)
    for path in (
        "/main/getChildJobLogs?parentJobId=j1&execution=1",
        f"/main/getChildJobLogsByExecutionId?executionId={parent}",
    ):
        items = (await client.get(path)).json()["data"]["items"]
        assert [item["jobId"] for item in items] == ["c1"]
    assert (await client.get("/main/getChildJobLogsByExecutionId?executionId=x-1")).status_code == 404
    missing = await client.get("/main/getChildJobLogs?parentJobId=j1")
    assert (missing.status_code, pointers(missing)) == (422, [("/execution", "required")])


@pytest.mark.parametrize("at_once", [500, 2])
async def test_children_are_paged(client: httpx.AsyncClient, world: World, at_once: int) -> None:
    """Where a page has as many as it may, or as fit in an answer; children that never ran do not count."""
    parent = await start(client)
    world.history.children_at_once = at_once
    for number in range(5):
        await start(client, f"c{number}", parentJob="j1", parentJobExecution=1)
        idle = definition(parentJob="j1", parentJobExecution=1)
        await client.post(f"/jobs/c{number}-idle", json=idle)
    for path in (
        "/main/getChildJobLogs?parentJobId=j1&execution=1",
        f"/main/getChildJobLogsByExecutionId?executionId={parent}",
    ):
        limit = "&limit=2" if at_once > 2 else ""
        pages, cursor = [], ""
        while cursor is not None:
            shown = (await client.get(f"{path}{limit}{cursor and f'&cursor={cursor}'}")).json()["data"]
            pages.append([item["jobId"] for item in shown["items"]])
            cursor = shown["nextCursor"]
        assert pages == [["c0", "c1"], ["c2", "c3"], ["c4"]]
        assert (await client.get(f"{path}&cursor=x")).status_code == 422
        assert (await client.get(f"{path}&limit=501")).status_code == 422


async def test_more_children_than_are_looked_up_at_once_are_all_found(
    client: httpx.AsyncClient, world: World
) -> None:
    """Also where the page ends at the last of them."""
    await start(client)
    for number in range(legacy_main.PAGE + 2):
        await client.post(f"/jobs/c{number:03}", json=definition(parentJob="j1", parentJobExecution=1))
    await start(client, "d", parentJob="j1", parentJobExecution=1)
    shown = (await client.get("/main/getChildJobLogs?parentJobId=j1&execution=1&limit=1")).json()["data"]
    assert [item["jobId"] for item in shown["items"]] == ["d"]
    assert shown["nextCursor"] is None


async def test_a_cursor_names_no_job_of_another_tenant(
    client: httpx.AsyncClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though such jobs, children of a job of the same id there, are passed over between two pages."""
    monkeypatch.setattr(legacy_main, "PAGE", 2)
    await start(client)
    for name in ("a", "hidden1", "hidden2", "z"):
        await start(client, name, parentJob="j1", parentJobExecution=1)
    for name in ("hidden1", "hidden2"):
        world.catalogue.entries[name] = replace(world.catalogue.entries[name], tenant="another")
    path = "/main/getChildJobLogs?parentJobId=j1&execution=1&limit=1"
    first = (await client.get(path)).json()["data"]
    rest = (await client.get(f"{path}&cursor={first['nextCursor']}")).json()["data"]
    assert [item["jobId"] for item in (*first["items"], *rest["items"])] == ["a", "z"]
    assert "hidden" not in str(b64decode(first["nextCursor"] + "==", altchars="-_"))


async def test_a_family_is_destroyed_children_first(client: httpx.AsyncClient) -> None:
    """The children, recursively, and the job itself; circles end (SPEC section 10)."""
    await client.post("/jobs/a", json=definition(parentJob="c"))
    await client.post("/jobs/b", json=definition(parentJob="a"))
    await client.post("/jobs/c", json=definition(parentJob="b"))
    response = await client.delete("/main/destroyByParentJob?parentJobId=a")
    assert response.json()["data"]["jobs"] == ["c", "b", "a"]
    assert (await client.get("/jobs")).json()["data"]["items"] == []
    assert (await client.delete("/main/destroyByParentJob?parentJobId=a")).status_code == 404


async def test_cleaning_says_what_it_removed(client: httpx.AsyncClient, world: World) -> None:
    """`{jobs, executions, notifications}`, with the source's defaults (SPEC section 10)."""
    response = await client.delete("/main/schedule/clean")
    assert response.json()["data"] == {"jobs": 1, "executions": 2, "notifications": 3}
    await client.delete("/main/schedule/clean?cleanDestroyJob=false&retainExecutionCount=3")
    assert world.cleaned == [(True, 10), (False, 3)]
    # What ended just before is removed too; where the history cannot be brought up to date, it says so
    world.flushes = 0
    response = await client.delete("/main/schedule/clean")
    assert (response.json()["warnings"], world.flushes) == ([], 1)
    world.is_history_stuck = True
    [warning] = (await client.delete("/main/schedule/clean")).json()["warnings"]
    assert warning["code"] == "history_behind"
