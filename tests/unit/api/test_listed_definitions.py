"""The timers of a list in words (SPEC section 10, GET /jobs)."""

import httpx
import pytest

from scheduler_service.ports.catalogue import LONGEST_READ
from tests.unit.api.world import definition

pytestmark = pytest.mark.anyio


async def test_a_list_tells_its_timers(client: httpx.AsyncClient) -> None:
    """Where it is asked for: kind, period as posted, zone and words; null where the definition is long."""
    cron = {"period": "0 30 2 * * ?", "timezone": "Europe/Berlin"}
    await client.post("/jobs/nightly", json=definition(timer=cron))
    await client.post("/jobs/once", json=definition(timer={"dueTime": "1h"}))
    await client.post("/jobs/poll", json=definition(timer={"period": "5s"}))
    await client.post("/jobs/waits", json=definition(timer={}))
    await client.post("/jobs/long", json=definition(jobDescription="x" * LONGEST_READ))
    items = (await client.get("/jobs?timers=true")).json()["data"]["items"]
    found = {item["jobId"]: item["timer"] for item in items}
    assert found["nightly"] == {
        "kind": "cron",
        "period": "0 30 2 * * ?",
        "timezone": "Europe/Berlin",
        "description": "At 02:30 every day, Europe/Berlin time",
    }
    assert found["poll"]["description"].startswith("Every 5 seconds")
    assert found["long"] is None
    chinese = (await client.get("/jobs?timers=true", headers={"Accept-Language": "zh-CN"})).json()["data"]
    (nightly,) = (item for item in chinese["items"] if item["jobId"] == "nightly")
    assert nightly["timer"]["description"] == "每天 02:30（Europe/Berlin 时间）"
    kinds = {item["jobId"]: item["kind"] for item in items}
    assert {name: timer["kind"] for name, timer in found.items() if timer} == {
        name: kind for name, kind in kinds.items() if name != "long"
    }
    whole = (await client.get("/jobs?definitions=true")).json()["data"]["items"]
    known = {item["jobId"]: item["definition"] for item in whole}
    assert (known["nightly"]["timer"], known["long"]) == (cron, None)
    assert all("timer" not in item for item in (await client.get("/jobs")).json()["data"]["items"])
