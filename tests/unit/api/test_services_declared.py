"""Declared jobs over the API: made, changed, kept, overridden and removed (SPEC section 11)."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from scheduler_service.domain.registered_services import Service
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.services.instances import Instances
from scheduler_service.services.registry import NO_TIMERS, Registry, TimerDeclaration, digest_of
from tests.rows import each_row
from tests.unit.api.world import PATH, World, declared, definition, pointers, put

JSON = {"Content-Type": "application/json"}


async def scan(world: World) -> dict[str, int]:
    """What one run of check-timers did, without what it did not do."""
    return {name: count for name, count in (await world.scan()).items() if count and name != "services"}


async def leave(world: World, client: httpx.AsyncClient, *timers: dict[str, Any], **members: Any) -> None:
    """Declares jobs while the store of jobs fails, which leaves them to the next scan."""
    world.fault = StoreUnavailable("the disk is full")
    await put(client, *timers, **members)
    world.fault = None


async def drift(client: httpx.AsyncClient) -> list[tuple[str, str, str]]:
    items = (await client.get(f"{PATH}/drift")).json()["data"]["items"]
    return [(item["jobId"], item["kind"], item["action"]) for item in items]


async def test_a_scan_finds_what_another_node_registered(world: World) -> None:
    """Its table is shared: the scan reads it anew, and makes the jobs (SPEC sections 11, 13)."""
    other = Registry(table=world.table, instances=Instances(), clock=world)
    text = json.dumps([declared("a")]).encode()
    service = Service(tenant="default", name="billing")
    await other.register(service, TimerDeclaration(digest_of(text), text))
    assert await scan(world) == {"created": 1}
    await other.register(service, NO_TIMERS)
    assert await scan(world) == {"paused": 1}


async def test_a_service_is_the_creator_of_its_jobs(world: World, client: httpx.AsyncClient) -> None:
    """`creator` may be left out: it is the service; what is said of it stays (SPEC sections 2, 11)."""
    anonymous = {name: value for name, value in declared("a").items() if not name.startswith("creator")}
    read = await put(client, anonymous, declared("b"), status=201)
    assert [(one["creator"], one["creatorName"]) for one in read["timers"]] == [
        ("billing", "billing"),
        ("1", "one"),
    ]
    await world.scan()
    assert (await client.get("/jobs/a")).json()["data"]["creator"] == "billing"


@pytest.mark.parametrize("path", [PATH, f"{PATH}/instances/a"])
async def test_more_than_all_services_may_declare_is_413(
    world: World, client: httpx.AsyncClient, path: str
) -> None:
    """With what it is, what there is, the limit and the remedy; the declaration of before stays in force."""
    await put(client, declared("a"), declared("b"), status=201)
    await Registry(table=world.table, instances=Instances(), clock=world).register(
        Service(tenant="default", name="other"), TimerDeclaration(b"x", bytes((16 << 20) - 1_000))
    )
    refused = await client.put(path, json={"timers": [declared("c", jobDescription="x" * 2_000)]})
    assert refused.status_code == 413
    assert pointers(refused) == [("/timers", "too_large")]
    assert "16,776,216, together more than 16,777,216; " in refused.json()["detail"]
    assert "services.declared_bytes" in refused.json()["detail"]
    shown = (await client.get(PATH)).json()["data"]
    assert [one["jobId"] for one in shown["timers"]] == ["a", "b"]
    assert shown["instances"] == []
    await put(client, declared("a"))


@each_row("path", [PATH, f"{PATH}/instances/a"])
async def test_an_object_is_no_larger_because_it_holds_timers(path: str) -> None:
    """1 MiB for an object, 4 MiB for an array: only `timers` may have more (SPEC section 10)."""
    world = World(body_bytes=1_000, array_bytes=4_000)
    timers = [declared("a", jobDescription="x" * 700), declared("b", jobDescription="x" * 700)]
    async with world.client() as client:
        assert (await client.put(path, json={"timers": timers})).status_code == 201
        for large in (
            {"tags": ["x" * 100] * 10},
            {"timers": timers, "tags": ["x" * 100] * 10},
            {"timers": timers * 3},
            [timers],
        ):
            response = await client.put(path, json=large)
            assert (response.status_code, pointers(response)) == (413, [("", "too_large")])
        long = await client.put(path, json={"timers": [*timers, declared("c", jobDescription="x" * 1_000)]})
        assert (long.status_code, pointers(long)) == (413, [("/timers/2", "too_large")])
        twice = f'{{"timers": {json.dumps(timers)}, "timers": []}}'.encode()
        refused = await client.put(path, content=twice, headers=JSON)
        assert (refused.status_code, pointers(refused)) == (422, [("/timers", "repeated")])
        wrong = await client.put(path, content=b"x" * 1_001, headers=JSON)
        assert wrong.status_code == 413
        assert (await client.put(path, content=b"[]", headers=JSON)).status_code == 422


@each_row("path", [PATH, f"{PATH}/instances/a"])
async def test_a_large_registration_means_what_a_small_one_does(path: str) -> None:
    """Its timers are split and read one by one: the same answers, and the same declaration."""
    world = World(body_bytes=40_000)
    timers = [declared("a"), declared("b", labels={"x": "y" * 34_000})]
    text = json.dumps(timers)
    async with world.client() as client:
        for body, status in ((text, 201), (text, 200)):
            content = f'{{"tags":["t"],"timers":{body}}}'.encode()
            response = await client.put(path, content=content, headers=JSON)
            assert response.status_code == status, response.text
        read = (await client.get(PATH)).json()["data"]
        assert [one["jobId"] for one in read["timers"]] == ["a", "b"]
        for wrong, found in (
            (text[:-1] + ",1]", (422, [("/timers/2", "type")])),
            (text[:-1] + ',{"jobId":}]', (400, [("", "malformed")])),
            (text[:-1] + "," + "[" * 64 + "]" * 64 + "]", (422, [("", "too_deep")])),
            (text[:-1] + "," + ",".join(["{}"] * 999) + "]", (422, [("/timers", "range")])),
            (
                text[:-1] + f",{text[1:-1]}" + "]",
                (422, [(f"/timers/{n}/jobId", "duplicate") for n in (2, 3)]),
            ),
        ):
            response = await client.put(path, content=f'{{"timers":{wrong}}}'.encode(), headers=JSON)
            assert (response.status_code, pointers(response)) == found, wrong[-40:]


async def test_an_instance_declares_jobs_for_its_service(world: World, client: httpx.AsyncClient) -> None:
    """Full registration with the declared jobs; a repetition is not checked again (SPEC section 13)."""
    path, said = f"{PATH}/instances/a", {"timers": [declared("a")]}
    assert (await client.put(path, json={"timers": [{}]})).status_code == 422
    assert (await client.get(PATH)).status_code == 404
    assert (await client.put(path, json=said)).status_code == 201
    assert (await client.put(path, json=said)).status_code == 200
    assert world.table.writes == 2  # the service, and what was done about its job
    assert await scan(world) == {}
    assert (await client.get("/jobs/a")).status_code == 200


@pytest.mark.parametrize("path", [PATH, f"{PATH}/instances/a"])
async def test_what_was_declared_before_is_not_judged_again(
    path: str, world: World, client: httpx.AsyncClient
) -> None:
    """Nor is a job of it that stays as it is beside a new one (SPEC section 2); a changed one is."""
    old = declared("a", jobName="a\tjob")
    text = json.dumps([old]).encode()
    service = Service(tenant="default", name="billing")
    await world.registry.register(service, TimerDeclaration(digest_of(text), text))
    await world.scan()
    same = await client.put(path, content=b'{"timers":%s}' % text, headers=JSON)
    assert (same.is_success, same.json()["warnings"]) == (True, [])
    changed = await client.put(path, json={"timers": [old | {"maxRetries": 1}]})
    assert (changed.status_code, pointers(changed)) == (422, [("/timers/0/jobName", "control")])
    more = await client.put(path, json={"timers": [old, declared("b")]})
    warned = [(one["pointer"], one["code"]) for one in more.json()["warnings"]]
    assert (more.status_code, warned) == (200, [("/timers/0/jobName", "control")])
    assert (await client.get("/jobs/b")).status_code == 200


async def test_a_declaration_that_was_not_read_replaces_none(world: World) -> None:
    """Another node declares others, or removes the service, while one is compared with what was in force."""
    service, registry = Service(tenant="default", name="billing"), world.registry
    new, unread = TimerDeclaration(b"new", b'[{"jobId": "b"}]'), TimerDeclaration(b"old")
    await registry.register(service, new)
    assert (await registry.register(service, unread))[0].digest == b"new"
    assert await registry.timers("default", "billing") == new.text
    await registry.remove("default", "billing")
    assert (await registry.register(service, unread))[0].digest == b""


@pytest.mark.parametrize("path", [PATH, f"{PATH}/instances/a"])
async def test_a_registration_is_scanned_at_once(path: str, world: World, client: httpx.AsyncClient) -> None:
    """Its jobs exist when it is answered; changed ones are updated, removed ones paused (SPEC section 13)."""
    first = await client.put(path, json={"timers": [declared("a"), declared("b")]})
    assert (first.status_code, first.json()["warnings"]) == (201, [])
    assert [(await client.get(f"/jobs/{job}")).status_code for job in "ab"] == [200, 200]
    await client.put(path, json={"timers": [declared("a", maxRetries=1)]})
    assert (await client.get("/jobs/a")).json()["data"]["revision"] == 2
    assert (await client.get("/jobs/b")).json()["data"]["state"] == "paused"
    assert (await drift(client), await scan(world)) == ([("b", "removed", "none")], {})


@pytest.mark.parametrize("path", [PATH, f"{PATH}/instances/a"])
async def test_a_registration_that_brings_nothing_new_is_not_scanned(
    path: str, world: World, client: httpx.AsyncClient
) -> None:
    """It is repeated every 30 s: a repetition, or one without timers, reads nothing (SPEC section 13)."""
    await client.put(path, json={"timers": [declared("a")]})
    assert world.table.scans == 1
    for again in ({"timers": [declared("a")]}, {}, {"tags": ["x"]}):
        assert (await client.put(path, json=again)).status_code == 200
    assert world.table.scans == 1


async def test_instances_that_come_together_are_scanned_once(world: World, client: httpx.AsyncClient) -> None:
    """And the job is there for each of them when it is answered (SPEC section 13)."""

    async def register(name: str) -> int:
        await client.put(f"{PATH}/instances/{name}", json={"timers": [declared("a")]})
        return (await client.get("/jobs/a")).status_code

    assert await asyncio.gather(*(register(f"i{number}") for number in range(30))) == [200] * 30
    assert world.table.scans == 1


async def test_jobs_that_could_not_be_made_come_with_the_next_registration(
    world: World, client: httpx.AsyncClient
) -> None:
    """The registration holds, and its answer says what is missing."""
    world.fault = StoreUnavailable("the disk is full")
    response = await client.put(PATH, json={"timers": [declared("a")]})
    warnings = [(one["pointer"], one["code"]) for one in response.json()["warnings"]]
    assert (response.status_code, warnings) == (201, [("/timers", "not_scanned")])
    world.fault = None
    again = await client.put(PATH, json={"timers": [declared("a")]})
    assert again.json()["warnings"] == []
    assert (await client.get("/jobs/a")).status_code == 200


async def test_declared_jobs_are_made_changed_and_removed(world: World, client: httpx.AsyncClient) -> None:
    """New entries create, changed ones update, removed ones are paused, then destroyed (SPEC section 11)."""
    await leave(world, client, declared("a"), declared("b"), status=201, graceSeconds=10)
    assert await drift(client) == [("a", "missing", "create"), ("b", "missing", "create")]
    assert await scan(world) == {"created": 2}
    assert (await drift(client), await scan(world)) == ([], {})
    await leave(world, client, declared("a", maxRetries=1), graceSeconds=10)
    assert await drift(client) == [("a", "changed", "update"), ("b", "removed", "pause")]
    assert await scan(world) == {"updated": 1, "paused": 1}
    writes = world.table.writes
    assert (await scan(world), world.table.writes) == ({}, writes)
    job = (await client.get("/jobs/a")).json()["data"]
    assert (job["revision"], job["definition"]["maxRetries"]) == (2, 1)
    assert (await client.get("/jobs/b")).json()["data"]["state"] == "paused"
    (left,) = (await client.get(f"{PATH}/drift")).json()["data"]["items"]
    assert (left["kind"], left["destroyAt"]) == ("removed", "2026-01-01T00:00:10.000Z")
    world.wall += 9_999
    assert await scan(world) == {}
    world.wall += 1
    assert await drift(client) == [("b", "expired", "destroy")]
    assert await scan(world) == {"destroyed": 1}
    assert (await client.get("/jobs/b")).status_code == 404
    assert (await drift(client), await scan(world)) == ([], {})


async def test_one_that_is_declared_again_goes_on(world: World, client: httpx.AsyncClient) -> None:
    """Within its grace period it is the same life, running again (SPEC section 11)."""
    await leave(world, client, declared("a"), status=201)
    await scan(world)
    uid = (await client.get("/jobs/a")).json()["data"]["uid"]
    await leave(world, client)
    await scan(world)
    await leave(world, client, declared("a"))
    assert await scan(world) == {"activated": 1}
    job = (await client.get("/jobs/a")).json()["data"]
    assert (job["uid"], job["state"], await drift(client)) == (uid, "active", [])


@pytest.mark.parametrize("is_scanned_again", [True, False])
async def test_one_that_a_crash_left_paused_is_still_the_scan_s_own(
    world: World, client: httpx.AsyncClient, is_scanned_again: bool
) -> None:
    """Paused by the scan, which ended before it noted that: declared again, it runs (SPEC section 11)."""
    await leave(world, client, declared("a"), status=201)
    await scan(world)
    notes = dict(world.table.notes)
    await leave(world, client)
    assert await scan(world) == {"paused": 1}
    world.table.notes = notes
    if is_scanned_again:
        assert await scan(world) == {}
    await leave(world, client, declared("a"))
    assert await scan(world) == {"activated": 1}
    assert (await client.get("/jobs/a")).json()["data"]["state"] == "active"


async def test_a_job_destroyed_behind_its_back_comes_again(world: World, client: httpx.AsyncClient) -> None:
    """A job destroyed or lost is created again, with a new life (SPEC section 11)."""
    await put(client, declared("a"), status=201)
    await scan(world)
    first = (await client.get("/jobs/a")).json()["data"]["uid"]
    await client.delete("/jobs/a")
    assert await drift(client) == [("a", "lost", "create")]
    assert await scan(world) == {"created": 1}
    assert (await client.get("/jobs/a")).json()["data"]["uid"] != first


async def test_one_that_has_finished_is_not_lost(world: World, client: httpx.AsyncClient) -> None:
    """It runs once, also when it is cleaned away afterwards (SPEC section 11)."""
    await put(client, declared("once", timer=None), status=201)
    await scan(world)
    await world.answer_calls()
    assert (await client.get("/jobs/once")).json()["data"]["state"] == "finished"
    assert await scan(world) == {}
    await client.delete("/jobs/once")
    assert (await scan(world), await drift(client)) == ({}, [("once", "finished", "none")])
    assert (await client.get("/jobs/once")).status_code == 404


async def test_an_edit_is_an_override_until_the_declaration_changes(
    world: World, client: httpx.AsyncClient
) -> None:
    """Kept, and shown as drift with what differs (SPEC section 11)."""
    await leave(world, client, declared("a", maxRetries=1), status=201)
    await scan(world)
    await client.post("/jobs/a/update", json=definition(maxRetries=7, labels={"by": "hand"}))
    assert await scan(world) == {}
    (item,) = (await client.get(f"{PATH}/drift")).json()["data"]["items"]
    assert (item["kind"], item["action"], item["destroyAt"]) == ("overridden", "none", None)
    assert item["differences"] == [
        {"pointer": "/labels/by", "declared": None, "stored": "hand"},
        {"pointer": "/maxRetries", "declared": 1, "stored": 7},
    ] or item["differences"] == [
        {"pointer": "/maxRetries", "declared": 1, "stored": 7},
        {"pointer": "/labels/by", "declared": None, "stored": "hand"},
    ]
    await leave(world, client, declared("a", maxRetries=2))
    assert await scan(world) == {"updated": 1}
    assert (await client.get("/jobs/a")).json()["data"]["definition"]["maxRetries"] == 2


async def test_an_edit_back_is_no_drift(world: World, client: httpx.AsyncClient) -> None:
    """An edit back to the declaration is no override any more."""
    await put(client, declared("a"), status=201)
    await scan(world)
    await client.post("/jobs/a/update", json=definition(maxRetries=7))
    await client.post("/jobs/a/update", json=definition())
    assert await drift(client) == []
    assert await scan(world) == {}


async def test_force_applies_the_declaration_at_once(world: World, client: httpx.AsyncClient) -> None:
    """Over edits, pauses and jobs that were made elsewhere (SPEC section 11)."""
    await client.post("/jobs/b", json=definition(maxRetries=9))
    await put(client, declared("a"), declared("b"), status=201)
    await scan(world)
    await client.post("/jobs/a/update", json=definition(maxRetries=7))
    await client.put("/jobs/a?active=0")
    assert await drift(client) == [("a", "overridden", "none"), ("b", "foreign", "none")]
    response = await client.put(f"{PATH}?force=1", json={})
    assert response.status_code == 200
    job = (await client.get("/jobs/a")).json()["data"]
    assert (job["state"], "maxRetries" in job["definition"]) == ("active", False)
    assert "maxRetries" not in (await client.get("/jobs/b")).json()["data"]["definition"]
    assert await drift(client) == []
    await leave(world, client)
    assert await scan(world) == {"paused": 2}


async def test_whether_a_job_runs_is_shown_where_it_differs(world: World, client: httpx.AsyncClient) -> None:
    """A job that is declared with `active: 0` and was started, one that was paused, and an edited one."""
    await leave(world, client, declared("a", active=0), declared("b"), declared("c"), status=201)
    assert await scan(world) == {"created": 3}
    assert await drift(client) == []
    await client.put("/jobs/a?active=1")
    await client.put("/jobs/b?active=0")
    await client.post("/jobs/c/update", json=definition(maxRetries=7))
    await client.put("/jobs/c?active=0")
    assert await scan(world) == {}
    items = (await client.get(f"{PATH}/drift")).json()["data"]["items"]
    assert [(item["jobId"], item["kind"], item["action"]) for item in items] == [
        ("a", "started", "none"),
        ("b", "paused", "none"),
        ("c", "overridden", "none"),
    ]
    switched = {"pointer": "/active", "declared": True, "stored": False}
    edited = {"pointer": "/maxRetries", "declared": 5, "stored": 7}
    found = [item["differences"] for item in items]
    assert found == [[switched | {"declared": False, "stored": True}], [switched], [edited, switched]]
    assert (await client.put(f"{PATH}?force=1", json={})).status_code == 200
    assert await drift(client) == []
    assert (await client.get("/jobs/a")).json()["data"]["state"] == "paused"


async def test_keep_lets_the_stored_definition_win(world: World, client: httpx.AsyncClient) -> None:
    """`onChange: keep`, as 000 and 002 have it (SPEC section 11)."""
    await put(client, declared("a"), status=201, onChange="keep")
    await scan(world)
    await put(client, declared("a", maxRetries=1), onChange="keep")
    assert (await scan(world), await drift(client)) == ({}, [("a", "kept", "none")])
    assert (await client.get("/jobs/a")).json()["data"]["revision"] == 1
    await put(client, declared("a", maxRetries=1))
    assert await scan(world) == {"updated": 1}


async def test_a_switch_of_disabled_is_an_edit(world: World, client: httpx.AsyncClient) -> None:
    """A declaration carries `disabled`; a switch by hand is an override (SPEC section 11)."""
    await put(client, declared("a", disabled=True), status=201)
    await scan(world)
    assert (await client.put("/jobs/a?disabled=false")).json()["data"]["disabled"] is False
    assert (await scan(world), await drift(client)) == ({}, [("a", "overridden", "none")])
    (item,) = (await client.get(f"{PATH}/drift")).json()["data"]["items"]
    assert item["differences"] == [{"pointer": "/disabled", "declared": True, "stored": False}]
    await leave(world, client, declared("a", disabled=True, maxRetries=1))
    assert await scan(world) == {"updated": 1}
    assert (await client.get("/jobs/a")).json()["data"]["disabled"] is True


async def test_manual_ones_are_created_paused(world: World, client: httpx.AsyncClient) -> None:
    """`startPolicy: manual`: a person starts them, and a changed declaration does not (SPEC section 11)."""
    await leave(world, client, declared("a", startPolicy="manual", active=1), status=201)
    assert await scan(world) == {"created": 1}
    assert (await client.get("/jobs/a")).json()["data"]["state"] == "paused"
    assert await drift(client) == []
    await leave(world, client, declared("a", startPolicy="manual", active=1, maxRetries=1))
    assert await scan(world) == {"updated": 1}
    assert (await client.get("/jobs/a")).json()["data"]["state"] == "paused"
    await client.put("/jobs/a?active=1")
    await leave(world, client, declared("a", startPolicy="manual", active=1, maxRetries=2))
    assert await scan(world) == {"updated": 1}
    assert (await client.get("/jobs/a")).json()["data"]["state"] == "active"


async def test_two_services_do_not_fight_over_a_job(world: World, client: httpx.AsyncClient) -> None:
    """The first to declare it owns it; the other one sees drift."""
    await put(client, declared("a"), status=201)
    await scan(world)
    await client.put("/services/shop", json={"timers": [declared("a", maxRetries=3)]})
    assert await scan(world) == {}
    items = (await client.get("/services/shop/drift")).json()["data"]["items"]
    assert [(one["jobId"], one["kind"]) for one in items] == [("a", "foreign")]
    await client.put("/services/shop", json={"timers": []})
    assert await scan(world) == {}


async def test_a_removed_service_takes_its_jobs_along(world: World, client: httpx.AsyncClient) -> None:
    """Paused at the next scan, destroyed after its grace, then nothing is left of it (SPEC section 11)."""
    await put(client, declared("a"), status=201, graceSeconds=10)
    await scan(world)
    await client.delete(PATH)
    assert await scan(world) == {"paused": 1}
    world.wall += 10_000
    assert await scan(world) == {"destroyed": 1}
    await scan(world)
    assert (world.table.rows, world.table.notes) == ({}, {})


async def test_a_wiped_scheduler_has_all_jobs_again(world: World, client: httpx.AsyncClient) -> None:
    """The next registration brings back what is declared (SPEC section 11)."""
    said = {"timers": [declared(f"job-{number}") for number in range(120)]}
    await client.put(f"{PATH}/instances/a", json=said)
    await scan(world)
    fresh = World()
    async with fresh.client() as other:
        await other.put(f"{PATH}/instances/a", json=said)
        assert (await other.get("/jobs/job-119")).status_code == 200
        assert (await scan(fresh), await drift(other)) == ({}, [])


async def test_the_table_of_services_lost_alone_changes_nothing(
    world: World, client: httpx.AsyncClient
) -> None:
    """Jobs say themselves who declares them: they are known again, not made twice (SPEC section 11)."""
    await leave(world, client, declared("a"), declared("b"), status=201)
    await scan(world)
    uid = (await client.get("/jobs/a")).json()["data"]["uid"]
    world.table.__init__()  # type: ignore[misc]
    await world.registry.load()
    await leave(world, client, declared("a"), declared("b", maxRetries=1), status=201)
    assert await scan(world) == {"updated": 1}
    assert (await client.get("/jobs/a")).json()["data"]["uid"] == uid
    await leave(world, client, declared("a"))
    assert await scan(world) == {"paused": 1}


async def test_a_store_that_fails_is_tried_again(world: World, client: httpx.AsyncClient) -> None:
    """What could not be done is said, and done by the next scan (SPEC sections 8, 11)."""
    await leave(world, client, declared("a"), status=201)
    world.fault = StoreUnavailable("the disk is full")
    with pytest.raises(StoreUnavailable, match="1 declared jobs"):
        await world.scan()
    world.fault = None
    assert await scan(world) == {"created": 1}
    world.table.is_down = True
    with pytest.raises(StoreUnavailable):
        await world.scan()
    refused = await client.put(PATH, json={"timers": []})
    assert refused.status_code == 503
    world.table.is_down = False
    assert await scan(world) == {}


async def test_a_note_that_is_lost_does_nothing_twice(world: World, client: httpx.AsyncClient) -> None:
    """A scan that dies between a turn and its note: a `one_time` job does not run again (SPEC section 11)."""
    await leave(world, client, declared("once", timer=None), status=201)
    await scan(world)
    await leave(world, client, declared("once", timer=None, maxRetries=1))
    before = dict(world.table.notes)
    assert await scan(world) == {"updated": 1}
    calls = len(world.effects)
    world.table.notes = before
    assert await scan(world) == {}
    assert len(world.effects) == calls
    assert (await client.get("/jobs/once")).json()["data"]["revision"] == 2


async def test_drift_is_paged(world: World, client: httpx.AsyncClient) -> None:
    """Like every list (SPEC section 10)."""
    await leave(world, client, declared("a"), declared("b"), declared("c"), status=201)
    page = (await client.get(f"{PATH}/drift?limit=2")).json()["data"]
    assert [one["jobId"] for one in page["items"]] == ["a", "b"]
    cursor = page["nextCursor"]
    page = (await client.get(f"{PATH}/drift?limit=2&cursor={cursor}")).json()["data"]
    assert ([one["jobId"] for one in page["items"]], page["nextCursor"]) == (["c"], None)
    for path in (f"{PATH}/drift?cursor=zz", f"/services?cursor={cursor}"):
        refused = await client.get(path)
        assert (refused.status_code, [pointer for pointer, _ in pointers(refused)]) == (422, ["/cursor"])
