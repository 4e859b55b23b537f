"""The service with its history, or all it keeps, on a server: as with SQLite (SPEC sections 12 and 15)."""

from typing import Any

import pytest

from scheduler_service.app.service import open_service
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.settings import LoadedSettings, Settings
from tests.unit.persistence.servers import each_server, make_database
from tests.wire.service import SERVED, World, data_of, definition, running

server_url = each_server
LISTS = ("/executions", "/executions?state=succeeded", "/jobs/j/executions", "/deliveries", "/stats")


async def run(world: World) -> dict[str, Any]:
    """One execution of the job, to its end."""
    started = data_of(await world.client.post("/jobs/j/trigger", json={"n": 1}))
    await world.settle()
    return await world.ended(started["executionId"])


async def is_delivered(world: World) -> bool:
    """Whether the notification has left and the history has it."""
    items = data_of(await world.client.get("/deliveries"))["items"]
    return [one["state"] for one in items] == ["delivered"]


def another(url: str) -> str:
    """A further database of the same server."""
    return make_database(url.rpartition("/")[0])


def without_moments(value: Any) -> Any:
    """What two runs have in common: all but ids, ports and what a clock says."""
    if isinstance(value, list):
        return [without_moments(member) for member in value]
    if not isinstance(value, dict):
        return value
    own = {"executionId", "traceId", "deliveryId", "instance"}
    changing = own | {"headers", "durationMs", "url", "request", "at"}
    return {name: without_moments(one) for name, one in value.items() if name not in changing}


async def test_an_execution_is_told_as_with_sqlite(server_url: str) -> None:
    """Steps, notifications, lists, the log, the ledger's filters and statistics: the same answers."""
    notified = [{"url": "service://jobsclient/note", "stateEquals": "finalSucceed"}]
    told = []
    for settings in (
        {},
        {"database": {"url": server_url}},
        {"store": {"data": ":memory:", "url": another(server_url)}},
    ):
        async with running(**settings) as world:
            data_of(await world.client.post("/jobs/j", json=definition(notification=notified)), 201)
            execution_id = (await run(world))["executionId"]
            await world.until(lambda: is_delivered(world))
            full = data_of(await world.client.get(f"/executions/{execution_id}"))
            assert full["state"] == "succeeded"
            answers = [data_of(await world.client.get(path)) for path in LISTS]
            log = data_of(await world.client.get(f"/executions/{execution_id}/log"))
            told.append(without_moments([full, answers, sorted(line["kind"] for line in log["items"])]))
    assert told[0] == told[1] == told[2]


async def test_the_history_outlives_the_service(server_url: str) -> None:
    """A second service on the same database shows what the first one did; so do services and cleaning."""
    async with running(database={"url": server_url}) as world:
        data_of(await world.client.post("/jobs/j", json=definition()), 201)
        execution_id = (await run(world))["executionId"]
        await world.client.put("/services/shop", json={})
    async with running(database={"url": server_url}) as world:
        assert data_of(await world.client.get(f"/executions/{execution_id}"))["state"] == "succeeded"
        assert [one["name"] for one in data_of(await world.client.get("/services"))["items"]] == ["shop"]
        removed = data_of(await world.client.delete("/main/schedule/clean?retainExecutionCount=0"))
        assert removed["executions"] >= 1
        assert data_of(await world.client.get("/executions"))["items"] == []


async def test_a_service_whose_history_is_away_does_not_start() -> None:
    """It says which server it looked for, and no password."""
    given = {"store": {"data": ":memory:"}, "database": {"url": "postgresql://p:secret@127.0.0.1:1/h"}}
    with pytest.raises(StoreUnavailable, match=r"PostgreSQL at 127\.0\.0\.1:1 ") as found:
        await open_service(
            LoadedSettings(Settings.model_validate(given), {}),
            served=SERVED,
            log=lambda event, /, **keys: None,
        )
    assert "secret" not in str(found.value)
