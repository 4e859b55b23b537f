"""Keys of services and of labels: they see and change their part alone (SPEC section 14)."""

import json
from typing import Any

import pytest

from scheduler_service.security.key_ring import KeyRing
from tests.manual_clock import ManualClock
from tests.unit.api.stores import START
from tests.unit.api.world import World, definition, pointers
from tests.unit.security.memory_keys import MemoryKeys

ADMIN = {"Authorization": "Bearer the-key-of-the-settings"}
PLAIN = {name: value for name, value in definition().items() if not name.startswith("creator")}
SHOP, OTHER = "/services/shop", "/services/other"


class Part:
    """A tenant with a key for a part of it, and jobs inside and outside."""

    def __init__(self) -> None:
        clock = ManualClock(wall=START)
        ring = KeyRing(table=MemoryKeys(), clock=clock)
        self.world = World(admin_key="the-key-of-the-settings", key_ring=ring, clock=clock)
        self.client = self.world.client()
        self.own: dict[str, str] = {}
        self.taken = 0

    async def take(self, **members: Any) -> None:
        """A key for a part."""
        self.taken += 1
        wanted = {"name": f"part {self.taken}", "role": "editor", **members}
        made = (await self.client.post("/keys", json=wanted, headers=ADMIN)).json()["data"]
        self.own = {"Authorization": f"Bearer {made['key']}"}

    async def ask(self, method: str, path: str, body: Any = None, *, by: dict[str, str] | None = None) -> Any:
        """The answer; by the owner of the key unless somebody else asks."""
        content = None if body is None else json.dumps(body)
        headers = {**(self.own if by is None else by), "content-type": "application/json"}
        return await self.client.request(method, path, content=content, headers=headers)

    async def status(self, method: str, path: str, body: Any = None) -> int:
        """What the owner of the key is answered."""
        return int((await self.ask(method, path, body)).status_code)

    async def ids(self, path: str) -> list[str]:
        """The jobs in a list."""
        items = (await self.ask("GET", path)).json()["data"]["items"]
        return sorted({item["jobId"] for item in items})


@pytest.fixture
def part() -> Part:
    return Part()


async def make_others(part: Part, **members: Any) -> str:
    """A job outside, and its execution."""
    assert (await part.ask("POST", "/jobs/theirs", definition(**members), by=ADMIN)).status_code == 201
    started = await part.ask("POST", "/jobs/theirs/trigger", by=ADMIN)
    return str(started.json()["data"]["executionId"])


async def judge(part: Part, execution: str, own: str) -> None:
    """The job `theirs` is not there for this key, wherever it asks; the job `own` is."""
    for method, path in (
        ("GET", "/jobs/theirs"),
        ("GET", "/jobs/theirs/next"),
        ("GET", "/jobs/theirs/revisions"),
        ("GET", "/jobs/theirs/executions"),
        ("PUT", "/jobs/theirs?active=0"),
        ("POST", "/jobs/theirs/trigger"),
        ("DELETE", "/jobs/theirs"),
        ("GET", f"/executions/{execution}"),
        ("GET", f"/executions/{execution}/log"),
        ("POST", f"/executions/{execution}/cancel"),
        ("GET", "/executions/theirs%23last"),
        ("GET", "/executions/theirs%231"),
        ("POST", f"/executions/{execution}/replay"),
        ("GET", "/executions/nobody-1"),
    ):
        assert await part.status(method, path) == 404, (method, path)
    assert await part.status("POST", "/jobs/theirs/update", PLAIN) == 404
    looked = await part.ask("POST", "/definitions/check", {**PLAIN, "jobId": "theirs"})
    assert (looked.status_code, pointers(looked)) in (
        (409, [("/jobId", "not_free")]),
        (403, [("/labels", "scope")]),
    )
    taken = await part.ask("POST", "/jobs/theirs", PLAIN)
    assert (taken.status_code, pointers(taken)) == (409, [("/jobId", "not_free")])
    assert taken.json()["detail"] == "the id 'theirs' is not free for this key; choose another"
    many = await part.ask(
        "POST", "/jobs?onExisting=update", [{**PLAIN, "jobId": "theirs"}, {**PLAIN, "jobId": "new"}]
    )
    assert many.status_code == 200, many.text
    problems = [item["problem"]["status"] for item in many.json()["data"]["items"] if item["problem"]]
    assert problems in ([409], [403, 403]), "without the labels none is made"
    if problems == [409]:
        assert await part.status("DELETE", "/jobs/new") == 200
    assert await part.ids("/jobs") == [own]
    assert await part.ids("/jobs?creator=1") == []
    counted = (await part.ask("GET", "/counts/jobs")).json()["data"]
    assert (counted["total"]["value"], counted["cannotRunJobs"]) == (1, [])
    outcomes = await part.ask("GET", f"/outcomes?jobId=theirs&jobId={own}")
    assert [one["jobId"] for one in outcomes.json()["data"]["items"]] == [own]
    assert set(await part.ids("/upcoming")) <= {own}
    assert await part.ids("/upcoming?jobId=theirs") == []
    planned = (await part.ask("GET", "/counts/upcoming?buckets=120")).json()["data"]
    everybody = (await part.ask("GET", "/counts/upcoming?buckets=120", by=ADMIN)).json()["data"]
    assert 2 * planned["total"]["value"] == everybody["total"]["value"] > 0
    for verb in ("resend", "dismiss"):
        assert await part.status("POST", f"/deliveries/{execution}-0/{verb}") == 404
    assert await part.ids("/deliveries") == []
    assert part.world.catalogue.entries["theirs"].state == "active"


async def judge_destroyed(part: Part, own: dict[str, Any]) -> None:
    """The id of a destroyed job is taken on each way to a job; its owner has it."""
    assert (await part.ask("DELETE", "/jobs/theirs", by=ADMIN)).status_code == 200
    taken = await part.ask("POST", "/jobs/theirs", own)
    assert (taken.status_code, pointers(taken)) == (409, [("/jobId", "not_free")])
    assert taken.json()["detail"] == "the id 'theirs' is not free for this key; choose another"
    for path in ("/definitions/compare", "/jobs?onExisting=update", "/jobs"):
        wanted = [{**own, "jobId": "theirs"}, {**own, "jobId": "free"}]
        answer = await part.ask("POST", path, wanted)
        refused, made = answer.json()["data"]["items"]
        assert (refused["status"], refused["problem"]["errors"][0]["code"]) == ("refused", "not_free"), path
        assert made["problem"] is None
    assert await part.status("DELETE", "/jobs/free") == 200
    for method, path in (("GET", "/jobs/theirs"), ("GET", "/jobs/theirs/executions")):
        assert await part.status(method, path) == 404
    assert await part.status("POST", "/jobs/theirs/update", own) == 404
    assert part.world.catalogue.entries["theirs"].state == "destroyed"
    assert (await part.ask("POST", "/jobs/theirs", definition(), by=ADMIN)).status_code == 201


async def test_a_key_of_a_service_sees_that_service_alone(part: Part) -> None:
    """Its jobs, which it declares or makes with that key, its instances and its queue."""
    await part.take(service="shop")
    execution = await make_others(part, timer={"period": "1h"})
    made = await part.ask("POST", "/jobs/mine", {**PLAIN, "timer": {"period": "1h"}})
    assert made.json()["data"]["definition"]["creator"] == "shop"
    assert (await part.ask("POST", "/jobs/foreign", definition())).status_code == 403
    await judge(part, execution, "mine")
    assert await part.status("POST", "/jobs/mine/trigger") == 200
    timers = [{**PLAIN, "jobId": "declared"}]
    assert await part.status("PUT", SHOP, {"timers": timers}) == 201
    assert await part.ids("/jobs") == ["declared", "mine"]
    refused = await part.ask("PUT", SHOP, {"timers": [{**definition(), "jobId": "declared"}]})
    assert (refused.status_code, pointers(refused)) == (422, [("/timers/0/creator", "scope")])
    forced = await part.ask("PUT", f"{SHOP}?force=true", {"timers": timers})
    assert (forced.status_code, pointers(forced)) == (403, [("/force", "scope")])
    assert (await part.ask("PUT", OTHER, {}, by=ADMIN)).status_code == 201
    for path in (OTHER, f"{OTHER}/drift", "/queues/other"):
        assert await part.status("GET", path) == 404, path
    instance = {"address": "http://127.0.0.1:9000"}
    assert await part.status("PUT", f"{SHOP}/instances/i", instance) == 201
    assert await part.status("POST", f"{SHOP}/instances/i/heartbeat") == 200
    assert await part.status("PUT", f"{OTHER}/instances/i", instance) == 404
    assert await part.status("POST", "/queues/other/claim", {"instanceId": "i"}) == 404
    listed = (await part.ask("GET", "/services")).json()["data"]["items"]
    assert [one["name"] for one in listed] == ["shop"]
    for queue in ("shop", "other"):
        assert (await part.ask("POST", f"/queues/{queue}/pause", by=ADMIN)).status_code == 200
    queues = (await part.ask("GET", "/queues")).json()["data"]["items"]
    assert [one["name"] for one in queues] == ["shop"]
    assert await part.status("GET", "/counts/queues") == 200
    for path in ("/keys", "/nodes", "/stats", "/audit", "/settings"):
        assert await part.status("GET", path) == 403, path
    await judge_destroyed(part, PLAIN)


async def test_a_service_declares_no_id_of_a_destroyed_job_of_others(part: Part) -> None:
    """Its own ones it does; with a key of the tenant any: who sees all jobs learns nothing by it."""
    await part.take(service="shop")
    await make_others(part)
    await part.ask("DELETE", "/jobs/theirs", by=ADMIN)
    timers = [{**PLAIN, "jobId": "own"}, {**PLAIN, "jobId": "theirs"}]
    instance = {"address": "http://127.0.0.1:9000"}
    for method, path in (
        ("POST", f"{SHOP}/preview"),
        ("PUT", SHOP),
        ("PUT", f"{SHOP}/instances/i"),
    ):
        refused = await part.ask(
            method, path, {**(instance if "instances" in path else {}), "timers": timers}
        )
        assert (refused.status_code, pointers(refused)) == (422, [("/timers/1/jobId", "not_free")])
    assert part.world.catalogue.entries["theirs"].state == "destroyed"
    for declared in (timers[:1], [], timers[:1]):
        assert await part.status("PUT", SHOP, {"timers": declared}) in (200, 201)
    assert await part.ids("/jobs") == ["own"]
    assert await part.status("DELETE", "/jobs/own") == 200
    assert await part.status("PUT", SHOP, {"timers": timers[:1]}) == 200
    assert (await part.ask("PUT", SHOP, {"timers": timers}, by=ADMIN)).status_code == 200
    assert "theirs" in await part.ids("/jobs")


async def test_the_drift_of_a_service_says_nothing_of_others_jobs(part: Part) -> None:
    """Declaring the id of another one's job shows that it is taken, and nothing of its definition."""
    await part.take(service="shop")
    await make_others(part, jobName="canary")
    assert await part.status("PUT", SHOP, {"timers": [{**PLAIN, "jobId": "theirs"}]}) == 201
    (own,) = (await part.ask("GET", f"{SHOP}/drift")).json()["data"]["items"]
    assert (own["kind"], own["differences"]) == ("foreign", [])
    (whole,) = (await part.ask("GET", f"{SHOP}/drift", by=ADMIN)).json()["data"]["items"]
    assert "canary" in [one["stored"] for one in whole["differences"]]


async def test_a_key_for_labels_sees_jobs_that_have_them(part: Part) -> None:
    """All of them; it makes no other jobs, and makes none of its own another one."""
    await part.take(labels=["team:ops", "stage:prod"])
    execution = await make_others(part, labels={"team": "ops"}, timer={"period": "1h"})
    labels = {"team": "ops", "stage": "prod", "more": "x"}
    own = {**PLAIN, "labels": labels, "timer": {"period": "1h"}}
    assert await part.status("POST", "/jobs/mine", own) == 201
    await judge(part, execution, "mine")
    for method, path in (("POST", "/jobs/another"), ("POST", "/jobs/mine/update")):
        refused = await part.ask(method, path, {**PLAIN, "labels": {"team": "ops"}})
        assert (refused.status_code, pointers(refused)) == (403, [("/labels", "scope")])
    assert await part.ids("/jobs?label=more:x") == ["mine"]
    for path in (SHOP, "/services", "/queues", "/queues/shop", "/counts/queues", "/stats", "/nodes"):
        assert await part.status("GET", path) == 403, path
    await judge_destroyed(part, own)


async def test_an_answer_is_repeated_to_those_alone_who_see_the_same(part: Part) -> None:
    """Under one Idempotency-Key another part asks anew; a new text, or another key for the part, does not."""
    wanted = [{**PLAIN, "jobId": "theirs"}, {**PLAIN, "jobId": "own"}]

    async def post(by: dict[str, str]) -> list[tuple[str, int | None]]:
        headers = {**by, "Idempotency-Key": "once"}
        items = (await part.client.post("/jobs", json=wanted, headers=headers)).json()["data"]["items"]
        return [(one["status"], one["problem"] and one["problem"]["status"]) for one in items]

    assert (await part.ask("POST", "/jobs/theirs", definition(), by=ADMIN)).status_code == 201
    everybody = await post(ADMIN)
    assert everybody == [("unchanged", None), ("created", None)] == await post(ADMIN)
    assert (await part.ask("DELETE", "/jobs/own", by=ADMIN)).status_code == 200
    await part.take(service="shop")
    found = await post(part.own)
    assert found != everybody
    assert {status for _, status in found} == {409}
    first = part.own
    keys = (await part.client.get("/keys", headers=ADMIN)).json()["data"]["items"]
    rotated = await part.client.post(f"/keys/{keys[0]['keyId']}/rotate", headers=ADMIN)
    await part.take(service="shop")
    lines = len(part.world.audit.lines)
    for own in (part.own, {"Authorization": f"Bearer {rotated.json()['data']['key']}"}):
        assert own != first
        assert await post(own) == found
    assert len(part.world.audit.lines) == lines, "nothing was done again"
    await part.take(service="other")
    await post(part.own)
    assert len(part.world.audit.lines) == lines + 1
