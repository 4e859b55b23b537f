"""Keys of callers at a whole service: what waits ends with its key, and commands without a service count."""

import asyncio
from pathlib import Path

from scheduler_service.maintenance import kept_keys
from scheduler_service.settings import Settings
from tests.wire.event_stream import listening
from tests.wire.service import data_of, definition, running

KEY = "the-key-of-the-settings"


async def test_a_stream_and_a_claim_end_with_their_key(tmp_path: Path) -> None:
    """Both within a second, though another process revoked it; a claim is told why (SPEC section 14)."""
    settings = Settings.model_validate({"server": {"key": KEY}, "store": {"data": str(tmp_path)}})
    async with running(server=settings.server.model_dump(), store={"data": str(tmp_path)}) as world:
        admin = world.caller(headers={"Authorization": f"Bearer {KEY}"})
        made = data_of(await admin.post("/keys", json={"name": "worker", "role": "editor"}), 201)
        worker = {"Authorization": f"Bearer {made['key']}"}
        caller = world.caller(headers=worker)
        claim = asyncio.ensure_future(
            caller.post("/queues/q/claim", json={"instanceId": "i", "waitSeconds": 60})
        )
        async with listening(world) as served, served.stream(headers=worker) as stream:
            await asyncio.to_thread(kept_keys.revoke_key, settings, made["keyId"])
            async with asyncio.timeout(60):
                assert (await claim).status_code == 401
                await stream.rest()
        assert (await caller.get("/jobs")).status_code == 401
        audit = (await admin.get("/audit")).text
        assert "makeKey" in audit
        assert made["key"].removeprefix(f"pk_{made['keyId']}_") not in audit


async def test_a_key_that_a_command_makes_counts_in_a_running_service(tmp_path: Path) -> None:
    """Without a restart, and from then on everybody needs one (SPEC section 14)."""
    settings = Settings.model_validate({"store": {"data": str(tmp_path)}})
    async with running(store={"data": str(tmp_path)}) as world:
        assert (await world.client.get("/jobs")).status_code == 200
        made = await asyncio.to_thread(kept_keys.make_key, settings, {"name": "me", "role": "admin"})
        caller = world.caller(headers={"Authorization": f"Bearer {made['key']}"})

        async def is_needed() -> bool:
            return (await world.client.get("/jobs")).status_code == 401

        await world.until(is_needed)
        assert (await caller.get("/jobs")).status_code == 200
        assert [one["keyId"] for one in data_of(await caller.get("/keys"))["items"]] == [made["keyId"]]


async def test_who_has_signed_in_with_a_key_stays_so_over_a_restart(tmp_path: Path) -> None:
    """Without any `server.key`; a new text of the key ends the session (SPEC section 14)."""
    settings = Settings.model_validate({"store": {"data": str(tmp_path)}})
    made = await asyncio.to_thread(kept_keys.make_key, settings, {"name": "me", "role": "admin"})
    async with running(store={"data": str(tmp_path)}) as world:
        signed_in = await world.client.post("/session", json={"key": made["key"]})
        cookie = {"Cookie": signed_in.headers["set-cookie"].partition(";")[0]}
        assert (await world.client.get("/jobs", headers=cookie)).status_code == 200
    async with running(store={"data": str(tmp_path)}) as world:
        assert data_of(await world.client.get("/session", headers=cookie))["name"] == "me"
        assert (await world.client.get("/jobs", headers=cookie)).status_code == 200
        bearer = {"Authorization": f"Bearer {made['key']}"}
        await world.client.post(f"/keys/{made['keyId']}/rotate", json={"overlapSeconds": 0}, headers=bearer)
        assert (await world.client.get("/jobs", headers=cookie)).status_code == 401


async def test_executions_say_who_triggered_them(tmp_path: Path) -> None:
    """However somebody asked for them, by the name of the key and over a restart; nobody for a timer's."""
    served = {"server": {"key": KEY}, "store": {"data": str(tmp_path)}}
    async with running(**served) as world:
        admin = world.caller(headers={"Authorization": f"Bearer {KEY}"})
        made = data_of(await admin.post("/keys", json={"name": "Anna", "role": "editor"}), 201)
        anna = world.caller(headers={"Authorization": f"Bearer {made['key']}"})
        for job, period in (("calls", "external"), ("fires", "100ms")):
            posted = definition(jobId=job, timer={"dueTime": "0s", "period": period}, overlapPolicy="allow")
            data_of(await admin.post(f"/jobs/{job}", json=posted), 201)
        data_of(await anna.post("/jobs/calls/trigger"))
        data_of(await anna.post("/executions/calls%231/replay", json={"params": {}}))
        data_of(await anna.post("/bulk/jobs", json={"action": "trigger", "select": {"jobIds": ["calls"]}}))
        data_of(await admin.post("/jobs/calls/trigger?delaySeconds=3600"))
        await world.advance(0.2)
        span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00.200Z", "which": "all"}
        data_of(await anna.post("/jobs/fires/backfill", json=span))
    async with running(**served) as world:
        admin = world.caller(headers={"Authorization": f"Bearer {KEY}"})
        calls = data_of(await admin.get("/executions?jobId=calls"))["items"]
        assert [one["triggeredByName"] for one in calls] == ["admin", "Anna", "Anna", "Anna"]
        fires = data_of(await admin.get("/executions?jobId=fires"))["items"]
        named = {(one["triggeredBy"], one["triggeredByName"]) for one in fires}
        assert named == {("timer", None), ("backfill", "Anna")}
        assert made["key"] not in str(calls + fires)
