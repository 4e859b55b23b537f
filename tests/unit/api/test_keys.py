"""Keys of callers over the API: who makes them, what they may do, and when they end (SPEC section 14)."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any

import httpx
import pytest

from scheduler_service.domain.audit_acts import AuditEntry
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.security.key_ring import KeyRing
from scheduler_service.security.secrets import SecretMasks
from tests.manual_clock import ManualClock
from tests.rows import each_row
from tests.unit.api.stores import START
from tests.unit.api.world import World, definition, pointers
from tests.unit.security.memory_keys import MemoryKeys

ADMIN = {"Authorization": "Bearer the-key-of-the-settings"}
LATER = "2027-01-01T00:00:00Z"


class Keyed:
    """A service whose callers need keys; `admin_key` None: until one is made, none."""

    def __init__(
        self,
        admin_key: str | None = "the-key-of-the-settings",
        table: MemoryKeys | None = None,
        **deps: Any,
    ) -> None:
        self.table, self.clock = table or MemoryKeys(), ManualClock(wall=START)
        self.ring = KeyRing(table=self.table, clock=self.clock)
        self.world = World(admin_key=admin_key, key_ring=self.ring, clock=self.clock, **deps)
        self.client = self.world.client()

    async def make(self, *, by: Mapping[str, str] = ADMIN, **members: Any) -> tuple[str, dict[str, str]]:
        """The id of a new key, and the header of its owner."""
        wanted = {"name": f"key {len(self.table.rows)}", "role": "viewer", **members}
        answer = await self.client.post("/keys", json=wanted, headers=by)
        assert answer.status_code == 201, answer.text
        data = answer.json()["data"]
        return data["keyId"], {"Authorization": f"Bearer {data['key']}"}

    async def status(self, path: str, of: Mapping[str, str], method: str = "GET", **more: Any) -> int:
        """What a caller is answered there."""
        return (await self.client.request(method, path, headers=dict(of), **more)).status_code


@pytest.fixture
def keyed() -> Keyed:
    return Keyed()


async def test_a_key_is_shown_once(keyed: Keyed) -> None:
    """With who made it, and in no list; its answer is kept by no cache."""
    answer = await keyed.client.post(
        "/keys",
        json={"name": "ci", "role": "editor", "labels": ["team:ops"], "expiresAt": LATER},
        headers=ADMIN,
    )
    assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")
    made = answer.json()["data"]
    text = made.pop("key")
    assert text.startswith("pk_")
    assert answer.headers["location"] == f"/keys/{made['keyId']}"
    assert made["expiresAt"] == "2027-01-01T00:00:00.000Z"
    assert (made["createdBy"], made["kind"], made["state"]) == ("admin", "person", "living")
    listed = await keyed.client.get("/keys", headers=ADMIN)
    assert listed.json()["data"] == {"items": [made], "nextCursor": None}
    read = await keyed.client.get(f"/keys/{made['keyId']}", headers=ADMIN)
    assert read.json()["data"] == made
    secret = text.removeprefix(f"pk_{made['keyId']}_")
    for shown in (listed.text, read.text, str(keyed.world.logged), str(keyed.table.rows)):
        assert secret not in shown


@each_row(
    ("members", "pointer"),
    [
        ({"role": "owner"}, "/role"),
        ({"name": ""}, "/name"),
        ({"name": "two\nlines"}, "/name"),
        ({"name": "next\x85line"}, "/name"),
        ({"name": "ann\u202enimda"}, "/name"),
        ({"name": " Admin"}, "/name"),
        ({"name": "ad\u200bmin"}, "/name"),
        ({"labels": ["team:\u202eops"]}, "/labels/0"),
        ({"name": "check-timers"}, "/name"),
        ({"name": f"pk_{'a' * 16}_{'b' * 43}"}, "/name"),
        ({"role": "admin", "service": "billing"}, "/role"),
        ({"role": "admin", "labels": ["team:ops"]}, "/role"),
        ({"labels": ["team"]}, "/labels/0"),
        ({"service": "a b"}, "/service"),
        ({"tenant": "a|b"}, "/tenant"),
        ({"expiresAt": "soon"}, "/expiresAt"),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, "/expiresAt"),
        ({"secret": "mine"}, "/secret"),
    ],
)
async def test_what_no_key_can_be_is_refused(members: dict[str, Any], pointer: str) -> None:
    """422, and nothing is made."""
    keyed = Keyed()
    answer = await keyed.client.post("/keys", json={"name": "a", "role": "viewer", **members}, headers=ADMIN)
    assert (answer.status_code, [where for where, _ in pointers(answer)]) == (422, [pointer])
    assert not keyed.table.rows


async def test_no_tenant_differs_from_another_by_case_alone(keyed: Keyed) -> None:
    """Settings read DEFAULT as default, and people read both as one."""
    await keyed.make(tenant="Acme")
    for tenant in ("acme", "DEFAULT"):
        posted = {"name": "a", "role": "viewer", "tenant": tenant}
        answer = await keyed.client.post("/keys", json=posted, headers=ADMIN)
        assert (answer.status_code, pointers(answer)) == (409, [("/tenant", "case")])
    await keyed.make(tenant="Acme")


async def test_two_living_keys_of_a_tenant_have_two_names(keyed: Keyed) -> None:
    """The audit and lists know them by these, as people read them. The problem names the key."""
    first, _ = await keyed.make(name="Ann Lee", tenant="acme")
    for name in ("Ann Lee", " ann  lee", "ＡＮＮ Lee", "ann\u200b lee"):
        posted = {"name": name, "role": "viewer", "tenant": "acme"}
        answer = await keyed.client.post("/keys", json=posted, headers=ADMIN)
        assert (answer.status_code, pointers(answer)) == (409, [("/name", "conflict")])
        assert first in answer.json()["detail"]
    await keyed.make(name="Ann Lee", tenant="other")
    await keyed.client.delete(f"/keys/{first}", headers=ADMIN)
    await keyed.make(name="Ann Lee", tenant="acme")


async def test_labels_that_are_written_as_of_a_job_are_answered_with_their_form(keyed: Keyed) -> None:
    """A job has a map of them, a key a list."""
    posted = {"name": "a", "role": "viewer", "labels": {"team": "ops"}}
    answer = await keyed.client.post("/keys", json=posted, headers=ADMIN)
    assert answer.json()["detail"] == 'labels must be an array, not an object; write ["NAME:VALUE"]'


async def test_a_role_may_do_what_it_says(keyed: Keyed) -> None:
    """And what the roles before it may; 403 names both. The jobs of a key have its name as creator."""
    _, viewer = await keyed.make(role="viewer")
    _, operator = await keyed.make(role="operator")
    _, editor = await keyed.make(role="editor", name="ed")
    _, admin = await keyed.make(role="admin")
    plain = {name: value for name, value in definition().items() if not name.startswith("creator")}
    made = await keyed.client.post("/jobs/j1", json=plain, headers=editor)
    assert made.json()["data"]["definition"]["creator"] == "ed"
    for method, path, least in (
        ("GET", "/jobs/j1", 0),
        ("POST", "/jobs/j1/trigger", 1),
        ("POST", "/jobs/j1/update", 2),
        ("GET", "/keys", 3),
    ):
        for rank, of in enumerate((viewer, operator, editor, admin)):
            body = plain if path.endswith("update") else None
            found = await keyed.status(path, of, method, json=body)
            assert found == (200 if rank >= least else 403), (path, rank)
    refused = await keyed.client.post("/jobs/j1/trigger", headers=viewer)
    assert pointers(refused) == [("/Authorization", "role")]
    assert {"operator", "viewer"} <= set(refused.json()["detail"].replace(";", "").split())


async def test_a_revoked_key_is_unknown(keyed: Keyed) -> None:
    """At once where it is revoked, sessions too; the key of the settings goes on."""
    key_id, of = await keyed.make(role="admin")
    text = of["Authorization"].removeprefix("Bearer ")
    signed_in = await keyed.client.post("/session", json={"key": text})
    assert (signed_in.status_code, signed_in.json()["data"]["keyId"]) == (200, key_id)
    assert await keyed.status("/jobs", {}) == 200, "by the cookie"
    assert await keyed.status(f"/keys/{key_id}", ADMIN, "DELETE") == 200
    assert await keyed.status("/jobs", {}) == 401
    assert await keyed.status("/jobs", of) == 401
    assert (await keyed.client.get("/session")).json()["data"]["role"] is None
    assert (await keyed.client.post("/session", json={"key": text})).status_code == 401
    assert await keyed.status(f"/keys/{key_id}", ADMIN, "DELETE") == 200, "it stays revoked"
    lines = (await keyed.client.get("/audit?operation=revokeKey", headers=ADMIN)).json()["data"]["items"]
    assert [line["subject"] for line in lines] == [key_id], "and nothing was done"
    assert await keyed.status(f"/keys/{key_id}/rotate", ADMIN, "POST") == 409
    assert (await keyed.client.get(f"/keys/{key_id}", headers=ADMIN)).json()["data"]["state"] == "revoked"
    assert await keyed.status("/keys/0000000000000000", ADMIN) == 404


async def test_strangers_do_not_learn_which_jobs_exist(keyed: Keyed) -> None:
    """Feedback without its token is answered alike, and limited as wrong keys are (SPEC section 5)."""
    made = await keyed.client.post("/jobs/there", json=definition(), headers=ADMIN)
    assert made.status_code == 201
    asked = [(name, token) for name in ("there", "absent") for token in ("", "?token=x")]
    for headers, expected in (({}, [403] * 4), (ADMIN, [403, 403, 404, 404])):
        answers = [
            await keyed.client.post(f"/jobs/{name}/feedback/1{token}", json={}, headers=headers)
            for name, token in asked
        ]
        assert [one.status_code for one in answers] == expected
        if not headers:
            assert len({one.json()["detail"] for one in answers}) == 1
            assert len({str(one.json()["errors"]) for one in answers}) == 1
    for _ in range(20):
        last = await keyed.client.post("/jobs/absent/feedback/1?token=x", json={})
    assert (last.status_code, "retry-after" in last.headers) == (429, True)
    assert (await keyed.client.post("/jobs/absent/feedback/1", json={}, headers=ADMIN)).status_code == 404


async def test_a_key_is_rotated_without_a_gap(keyed: Keyed) -> None:
    """Both texts are valid while they overlap; a session of the old one ends with it."""
    key_id, old = await keyed.make()
    await keyed.client.post("/session", json={"key": old["Authorization"].removeprefix("Bearer ")})
    answer = await keyed.client.post(f"/keys/{key_id}/rotate", json={"overlapSeconds": 60}, headers=ADMIN)
    data = answer.json()["data"]
    new = {"Authorization": f"Bearer {data['key']}"}
    assert (data["keyId"], data["rotations"]) == (key_id, 1)
    assert [await keyed.status("/jobs", of) for of in (old, new, {})] == [200, 200, 200]
    again = await keyed.client.post(f"/keys/{key_id}/rotate", json={"overlapSeconds": 1}, headers=ADMIN)
    assert (again.status_code, pointers(again)) == (409, [("/overlapSeconds", "conflict")])
    keyed.clock.advance(60_000)
    assert [await keyed.status("/jobs", of) for of in (old, new, {})] == [401, 200, 401]


async def test_a_key_ends_at_its_end(keyed: Keyed) -> None:
    """With its sessions, which say so before."""
    _, of = await keyed.make(expiresAt=LATER)
    text = of["Authorization"].removeprefix("Bearer ")
    keyed.clock.advance(1_798_761_600_000 - START - 1_000)
    signed_in = await keyed.client.post("/session", json={"key": text})
    assert signed_in.json()["data"]["expiresAt"] == "2027-01-01T00:00:00.000Z"
    assert [await keyed.status("/jobs", one) for one in (of, {})] == [200, 200]
    keyed.clock.advance(1_000)
    assert [await keyed.status("/jobs", one) for one in (of, {})] == [401, 401]


async def test_an_admin_manages_the_keys_of_its_tenant() -> None:
    """One of the tenant `default` those of all; another tenant's key is 404 (SPEC section 14)."""
    keyed = Keyed()
    own, shop = await keyed.make(role="admin", tenant="shop")
    other, _ = await keyed.make(tenant="default")
    inner, _ = await keyed.make(by=shop)
    listed = (await keyed.client.get("/keys", headers=shop)).json()["data"]["items"]
    assert [one["keyId"] for one in listed] == [own, inner]
    assert [await keyed.status(f"/keys/{one}", shop) for one in (inner, other)] == [200, 404]
    assert await keyed.status(f"/keys/{other}", shop, "DELETE") == 404
    assert await keyed.status(f"/keys/{other}/rotate", shop, "POST") == 404
    wanted = {"name": "a", "role": "viewer", "tenant": "default"}
    assert await keyed.status("/keys", shop, "POST", json=wanted) == 403
    assert await keyed.status("/keys?tenant=default", shop) == 403
    assert await keyed.status(f"/keys/{inner}", ADMIN) == 200
    of_shop = (await keyed.client.get("/keys?tenant=shop&limit=1", headers=ADMIN)).json()["data"]
    assert [one["keyId"] for one in of_shop["items"]] == [own]
    cursor = of_shop["nextCursor"]
    rest = await keyed.client.get(f"/keys?tenant=shop&cursor={cursor}", headers=ADMIN)
    assert [one["keyId"] for one in rest.json()["data"]["items"]] == [inner]


async def test_what_is_done_to_keys_of_another_tenant_is_in_its_audit() -> None:
    """Beside the line of the caller's own tenant: who made, rotated and revoked them, or was refused."""
    masks = SecretMasks(sources=(), environments={"shop": {"TOKEN": "of-the-shop"}})
    keyed = Keyed(secret_masks=masks)
    _, shop = await keyed.make(role="admin", tenant="shop")
    key_id, _ = await keyed.make(tenant="shop", name="with of-the-shop")
    calls = (("POST", f"/keys/{key_id}/rotate"), ("DELETE", f"/keys/{key_id}"))
    assert [await keyed.status(path, ADMIN, method) for method, path in calls] == [200, 200]
    assert await keyed.status(f"/keys/{key_id}", ADMIN, "DELETE") == 200  # changes nothing
    assert await keyed.status(f"/keys/{key_id}/rotate", ADMIN, "POST") == 409
    await keyed.make(by=shop)
    lines = (await keyed.client.get("/audit", headers=shop)).json()["data"]["items"]
    assert [(one["operation"], one["who"], one["outcome"], one["status"]) for one in lines] == [
        ("makeKey", "key 0", "done", 201),
        ("rotateKey", "admin", "refused", 409),
        ("revokeKey", "admin", "done", 200),
        ("rotateKey", "admin", "done", 200),
        ("makeKey", "admin", "done", 201),
        ("makeKey", "admin", "done", 201),
    ]
    assert {one["subject"] for one in lines[1:5]} == {key_id}
    assert lines[4]["given"]["name"] == "with ***"
    own = (await keyed.client.get("/audit", headers=ADMIN)).json()["data"]["items"]
    assert [one["operation"] for one in own] == [one["operation"] for one in lines[1:]]


async def test_nothing_is_done_to_a_key_whose_tenant_s_audit_cannot_be_written(keyed: Keyed) -> None:
    """The line of the caller's own tenant says that it was refused."""
    key_id, shop = await keyed.make(tenant="shop", role="admin")
    put, audit = keyed.world.audit.put, keyed.world.audit

    async def fail_there(entry: AuditEntry) -> None:
        if entry.tenant == "shop":
            raise StoreUnavailable("the disk is full")
        await put(entry)

    audit.put = fail_there  # type: ignore[method-assign]
    assert await keyed.status(f"/keys/{key_id}", ADMIN, "DELETE") == 503
    assert await keyed.status("/jobs", shop) == 200
    (line, _) = (await keyed.client.get("/audit", headers=ADMIN)).json()["data"]["items"]
    assert (line["operation"], line["outcome"], line["status"]) == ("revokeKey", "refused", 503)


async def test_with_the_first_key_everybody_needs_one() -> None:
    """So it is an admin's; this machine is served without any before. The last admin's key stays."""
    keyed = Keyed(admin_key=None)
    assert await keyed.status("/jobs", {}) == 200
    refused = await keyed.client.post("/keys", json={"name": "a", "role": "viewer"})
    assert (refused.status_code, pointers(refused)) == (409, [("/role", "first_key")])
    key_id, admin = await keyed.make(by={}, role="admin")
    assert await keyed.status("/jobs", {}) == 401
    assert await keyed.status("/jobs", admin) == 200
    far = httpx.AsyncClient(
        transport=httpx.ASGITransport(keyed.world.api, client=("192.0.2.1", 1)), base_url="https://jobs.test"
    )
    assert (await far.get("/jobs", headers=admin)).status_code == 200
    last = await keyed.client.delete(f"/keys/{key_id}", headers=admin)
    assert (last.status_code, pointers(last)) == (409, [("/keyId", "last_admin")])
    other, second = await keyed.make(by=admin, role="admin")
    assert await keyed.status(f"/keys/{key_id}", second, "DELETE") == 200
    lasting, third = await keyed.make(by=second, role="admin")
    there = Keyed(admin_key=None, table=keyed.table)
    await there.ring.load()
    revoking = (
        keyed.status(f"/keys/{lasting}", second, "DELETE"),
        there.status(f"/keys/{other}", third, "DELETE"),
    )
    assert sorted(await asyncio.gather(*revoking)) == [200, 409], "at one moment, at two nodes"
    await keyed.ring.load()
    left, own = (other, second) if await keyed.status("/keys", second) == 200 else (lasting, third)
    await keyed.make(by=own, role="admin", expiresAt="2100-01-01T00:00:00Z")
    assert await keyed.status(f"/keys/{left}", own, "DELETE") == 409, "the other one ends by itself"
    keyed.table.rows.clear()
    assert await keyed.status("/jobs", {}) == 401, "what was closed stays closed"


async def test_a_pasted_key_is_its_id(keyed: Keyed) -> None:
    """People paste what they have: that key is meant, and it stands nowhere."""
    key_id, own = await keyed.make()
    text = own["Authorization"].removeprefix("Bearer ")
    answers = [
        await keyed.client.delete(f"/jobs/{text}", headers=ADMIN),
        await keyed.client.delete(f"/keys/{text}", headers=ADMIN),
        await keyed.client.post(f"/keys/{text}/rotate", headers=ADMIN),
    ]
    assert [one.status_code for one in answers] == [404, 200, 409]
    assert answers[1].json()["data"]["keyId"] == key_id
    lines = (await keyed.client.get("/audit", headers=ADMIN)).text
    assert text.removeprefix(f"pk_{key_id}_") not in lines + answers[1].text + str(keyed.world.logged)
    assert f"pk_{key_id}_***" in lines


async def test_a_body_that_comes_late_is_judged_by_then(keyed: Keyed) -> None:
    """Whoever sends it slowly keeps no right by that: of a key, of a session, of nobody, of a part."""

    async def post(of: Mapping[str, str], path: str, body: object, first: Awaitable[object]) -> int:
        async def late() -> AsyncIterator[bytes]:
            await first
            yield json.dumps(body).encode()

        headers = {**of, "content-type": "application/json"}
        return await keyed.status(path, headers, "POST", content=late())

    async def pass_a_year() -> None:
        keyed.clock.advance(366 * 86_400_000)

    way, wanted = "/keys", {"name": "intruder", "role": "admin"}
    key_id, thief = await keyed.make(role="admin")
    assert await post(thief, way, wanted, keyed.status(f"/keys/{key_id}", ADMIN, "DELETE")) == 401
    _, ending = await keyed.make(role="admin", expiresAt=LATER)
    assert await post(ending, way, wanted, pass_a_year()) == 401
    signed = await keyed.client.post("/session", json={"key": ADMIN["Authorization"].removeprefix("Bearer ")})
    console = {"cookie": signed.headers["set-cookie"].partition(";")[0], "X-Punctual-Console": "1"}
    assert await post(console, way, wanted, keyed.status("/session", console, "DELETE")) == 401
    made = await keyed.client.post("/jobs/moved", json=definition(labels={"team": "a"}), headers=ADMIN)
    assert made.status_code == 201
    _, part = await keyed.make(role="editor", labels=["team:a"])
    move = keyed.status("/jobs/moved/update", ADMIN, "POST", json=definition(labels={"team": "b"}))
    assert await post(part, "/jobs/moved/update", definition(labels={"team": "a"}), move) == 404
    keyed = Keyed(admin_key=None)
    assert await post({}, way, wanted, keyed.make(by={}, role="admin")) == 401
    assert len(keyed.table.rows) == 1


@each_row(
    ("body", "shown"),
    [
        ('{"password": "canary", "a": "\\ud800"}', '{"password": "***", "a": "?"}'),
        (
            {"password": {"value": "canary", "of": ["canary"]}, "n": 1},
            {"password": {"value": "***", "of": ["***"]}, "n": 1},
        ),
    ],
)
async def test_no_body_keeps_a_plain_credential_or_a_job(body: object, shown: object) -> None:
    """Half a surrogate pair, escaped in JSON in a text; a credential of several members: seen, updated."""
    keyed = Keyed()
    viewer, editor = [(await keyed.make(role=role))[1] for role in ("viewer", "editor")]
    posted = definition(request=[{"url": "http://a.test/", "body": body}])
    assert await keyed.status("/jobs/j1", editor, "POST", json=posted) == 201
    seen = (await keyed.client.get("/jobs/j1", headers=viewer)).json()["data"]
    assert seen["definition"]["request"][0]["body"] == shown
    assert await keyed.status("/jobs/j1/update", editor, "POST", json=definition()) == 200
    assert "canary" not in (await keyed.client.get("/audit", headers=ADMIN)).text


async def test_plain_credentials_of_a_definition_are_for_editors() -> None:
    """Others and the audit have `***`, which replaces none of them; whoever posts one is told of secrets."""
    canary, keyed = "canary-7f3a", Keyed()
    places = {"url": f"http://a.test/?api_key={canary}", "headers": {"Authorization": canary}}
    plain = definition(request=[{**places, "body": {"password": canary, "n": 1}}])
    viewer, operator, editor = [(await keyed.make(role=role))[1] for role in ("viewer", "operator", "editor")]
    made = await keyed.client.post("/jobs/j1", json=plain, headers=editor)
    told = [(one["pointer"], one["code"]) for one in made.json()["warnings"]]
    assert [one for one in told if one[1] == "plain_secret"] == [
        ("/request/0/url", "plain_secret"),
        ("/request/0/headers/Authorization", "plain_secret"),
        ("/request/0/body/password", "plain_secret"),
    ]
    declared = {"timers": [{**plain, "jobId": "d1"}]}
    assert await keyed.status("/services/s1", editor, "PUT", json=declared) == 201
    changed = definition(request=[{**places, "body": {"password": f"{canary}-2"}}])
    for job in ("j1", "d1"):
        assert await keyed.status(f"/jobs/{job}/update", editor, "POST", json=changed) == 200
    paths = ("/jobs/j1", "/jobs?definitions=true", "/jobs/j1/revisions", "/services/s1", "/services/s1/drift")
    for path in paths:
        for of in (viewer, operator, editor):
            shown = (await keyed.client.get(path, headers=of)).text
            assert ("***" in shown, canary in shown) == (of is not editor, of is editor), path
    stopped = await keyed.client.put("/jobs/j1?active=0", headers=operator)
    assert canary not in stopped.text
    audit = await keyed.client.get("/audit", headers=ADMIN)
    assert ("/request/0/body" in audit.text, canary in audit.text) == (True, False)
    seen = (await keyed.client.get("/jobs/j1", headers=viewer)).json()["data"]["definition"]
    refused = await keyed.client.post("/jobs/j1/update", json=seen, headers=editor)
    assert (refused.status_code, {code for _, code in pointers(refused)}) == (422, {"masked"})
    many = "/jobs?onExisting=update"
    for job, status in (("j1", "refused"), ("j2", "created"), ("j2", "unchanged"), ("j2", "updated")):
        sent = [{**seen, "jobId": job, "maxRetries": 1 if status == "updated" else 5}]
        (one,) = (await keyed.client.post(many, json=sent, headers=editor)).json()["data"]["items"]
        masked = [flaw["code"] for flaw in one["warnings"] if flaw["code"] == "masked"]
        assert (one["status"], len(masked)) == (status, 0 if status == "refused" else 3)
    _, part = await keyed.make(role="editor", service="other")
    hidden = {"timers": [{**seen, "jobId": "j1", "creator": "other"}]}
    assert await keyed.status("/services/other", part, "PUT", json=hidden) == 201, "as if it were not there"
    again = await keyed.client.put("/services/s1", json={"timers": [{**seen, "jobId": "d1"}]}, headers=editor)
    assert (again.status_code, pointers(again)[0]) == (422, ("/timers/0/request/0/url", "masked"))
    kept = (await keyed.client.get("/jobs/j1", headers=editor)).json()["data"]["definition"]
    assert kept["request"][0]["body"] == {"password": f"{canary}-2"}
