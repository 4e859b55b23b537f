"""Many definitions in one request: each is created, updated or refused on its own (SPEC section 10)."""

import asyncio
import json
from typing import Any

import httpx
import msgspec
import pytest

from scheduler_service.engine.program import GROUP_BYTES, weigh
from scheduler_service.ports.errors import StoreUnavailable
from tests.rows import each_row
from tests.unit.api.world import World, definition, pointers


def named(job_id: str, **members: Any) -> dict[str, Any]:
    return {"jobId": job_id, **definition(**members)}


async def test_many_definitions_each_on_its_own(client: httpx.AsyncClient, world: World) -> None:
    """One result per item, in order; the text of each is kept as posted (SPEC section 10)."""
    await client.post("/jobs/old", json=definition())
    await client.post("/jobs/same", json=definition())
    body = [named("new"), named("bad", qos=7), named("old", jobName="x"), named("same"), 5, definition()]
    response = await client.post("/jobs", json=body)
    assert response.status_code == 200
    items = response.json()["data"]["items"]
    assert [item["status"] for item in items] == [
        "created",
        "refused",
        "refused",
        "unchanged",
        "refused",
        "refused",
    ]
    assert items[1]["problem"]["errors"][0]["pointer"] == "/qos"
    assert items[2]["problem"]["status"] == 409
    assert items[4]["jobId"] is None
    assert items[5]["problem"]["errors"][0]["pointer"] == "/jobId"
    updated = await client.post("/jobs?onExisting=update", json=[named("old", jobName="x")])
    assert updated.json()["data"]["items"][0]["status"] == "updated"


async def test_two_definitions_of_one_job_go_in_order(client: httpx.AsyncClient) -> None:
    """In order: the second one of an array meets the first."""
    response = await client.post("/jobs", json=[named("a"), named("a", jobName="b")])
    assert [item["status"] for item in response.json()["data"]["items"]] == ["created", "refused"]


@pytest.mark.parametrize("wrong", [b'{"jobId": "b", ', b'{"jobName": nul}', b'"\xff"', b"1e999", b"[" * 64])
async def test_an_array_that_is_no_json_creates_nothing(
    client: httpx.AsyncClient, world: World, wrong: bytes
) -> None:
    """The whole is read before any of it counts, however well the beginning is known (RFC 8259)."""
    headers = {"content-type": "application/json"}
    known = json.dumps(named("a")).encode()
    await client.post("/jobs", content=b"[%s]" % known, headers=headers)
    again = known.replace(b'"a"', b'"b"', 1)
    ending = b"]" * 65 if wrong.startswith(b"[") else b"]"
    answer = await client.post("/jobs", content=b"[%s, %s%s" % (again, wrong, ending), headers=headers)
    assert answer.status_code in (400, 422)
    assert list(world.documents) == ["a"]


async def test_an_array_that_weighs_much_is_created_in_groups(client: httpx.AsyncClient) -> None:
    """Still nothing of it where it is no JSON, and two of one job go in order."""
    labels = {f"label-{number}": "x" for number in range(300)}
    assert (await client.post("/jobs/first", json=definition(labels=labels))).status_code == 201
    count = 2 * GROUP_BYTES // weigh(json.dumps(labels).encode())
    many = [{"jobId": f"j{number}", **definition(labels=labels)} for number in range(count)]
    text = json.dumps([*many, many[0]])
    kind = {"content-type": "application/json"}
    wrong = await client.post("/jobs", content=text[:-1] + ',{"jobId":}]', headers=kind)
    assert (wrong.status_code, pointers(wrong)) == (400, [(f"/{count + 1}", "malformed")])
    assert (await client.get("/jobs/j0")).status_code == 404
    done = await client.post("/jobs", content=text, headers=kind)
    assert [item["status"] for item in done.json()["data"]["items"]] == ["created"] * count + ["unchanged"]


async def test_an_array_has_at_most_a_thousand(client: httpx.AsyncClient) -> None:
    """At most 1,000 definitions; anything but an array is refused (SPEC section 10)."""
    assert (await client.post("/jobs", json=[1] * 1_001)).status_code == 422
    assert (await client.post("/jobs", json=definition())).status_code == 422
    assert (await client.post("/jobs", json=[])).json()["data"] == {"items": []}


async def test_an_array_under_a_key_is_answered_as_before(client: httpx.AsyncClient, world: World) -> None:
    """The same answer again, though the jobs exist now (SPEC section 10)."""
    headers = {"Idempotency-Key": "k"}
    first = await client.post("/jobs", json=[named("a")], headers=headers)
    again = await client.post("/jobs", json=[named("a")], headers=headers)
    assert again.json() == first.json()
    other = await client.post("/jobs", json=[named("b")], headers=headers)
    assert pointers(other) == [("/Idempotency-Key", "key_reused")]
    world.wall += 86_400_001
    assert (await client.post("/jobs", json=[named("b")], headers=headers)).status_code == 200


async def test_a_key_is_for_one_body_also_at_once(client: httpx.AsyncClient) -> None:
    """Of simultaneous arrays with one key one is created; a repetition gets the same answer."""
    headers = {"Idempotency-Key": "k"}
    posts = [client.post("/jobs", json=[named(job)], headers=headers) for job in ("a", "b", "a", "c")]
    answers = await asyncio.gather(*posts)
    created = [answer for answer in answers if answer.status_code == 200]
    assert [answer.json()["data"]["items"][0]["status"] for answer in created] == ["created"] * len(created)
    assert len({answer.content for answer in created}) == 1
    listed = (await client.get("/jobs")).json()["data"]["items"]
    assert len(listed) == 1
    refused = [answer for answer in answers if answer.status_code != 200]
    assert [pointers(answer) for answer in refused] == [[("/Idempotency-Key", "key_reused")]] * len(refused)


async def test_a_refusal_that_passes_is_not_kept_under_a_key(client: httpx.AsyncClient, world: World) -> None:
    """Who repeats the array wants what was away then to be tried again; other bodies stay refused."""
    headers = {"Idempotency-Key": "k"}
    world.fault = StoreUnavailable("away")
    first = await client.post("/jobs", json=[named("a")], headers=headers)
    assert first.json()["data"]["items"][0]["problem"]["status"] == 503
    world.fault = None
    other = await client.post("/jobs", json=[named("b")], headers=headers)
    assert pointers(other) == [("/Idempotency-Key", "key_reused")]
    again = await client.post("/jobs", json=[named("a")], headers=headers)
    assert again.json()["data"]["items"][0]["status"] == "created"


async def test_an_item_that_cannot_be_compared_is_refused_alone(
    client: httpx.AsyncClient, world: World
) -> None:
    """One with `***` needs the job that is stored; those beside it are made."""

    async def fail(job_id: str) -> None:
        raise StoreUnavailable("away")

    masked = [{"url": "http://a.test/", "headers": {"Cookie": "***"}}]
    world.catalogue.get = fail  # type: ignore[method-assign, assignment]
    sent = [named("a", request=masked), named("b")]
    one, other = (await client.post("/jobs", json=sent)).json()["data"]["items"]
    assert (one["jobId"], one["problem"]["status"], other["status"]) == ("a", 503, "created")


async def test_a_key_outlives_a_crash_within_its_request(client: httpx.AsyncClient, world: World) -> None:
    """It is durable before anything is done: another body is refused, the same one is done to its end."""
    headers = {"Idempotency-Key": "k"}
    await client.post("/jobs", json=[named("a")], headers=headers)
    begun = {key: msgspec.structs.replace(kept, answer=b"") for key, kept in world.store.kept.items()}
    world.store.kept.update(begun)  # as a process leaves it that dies over the array
    other = await client.post("/jobs", json=[named("b")], headers=headers)
    assert pointers(other) == [("/Idempotency-Key", "key_reused")]
    again = await client.post("/jobs", json=[named("a"), named("c")], headers={"Idempotency-Key": "other"})
    assert [item["status"] for item in again.json()["data"]["items"]] == ["unchanged", "created"]
    same = await client.post("/jobs", json=[named("a")], headers=headers)
    assert same.json()["data"]["items"][0]["status"] == "unchanged"


async def compared(
    client: httpx.AsyncClient, *definitions: Any, **headers: str
) -> list[tuple[str, int | None]]:
    """Of each definition what applying it would do, and the revision of its job."""
    answer = await client.post("/definitions/compare", json=definitions, headers=headers)
    assert answer.status_code == 200
    return [(item["status"], item["revision"]) for item in answer.json()["data"]["items"]]


async def test_definitions_are_compared_and_nothing_is_done(client: httpx.AsyncClient, world: World) -> None:
    """New, another, the same, wrong: as a creation would answer, without a turn (SPEC section 10)."""
    for job_id in ("old", "same"):
        await client.post(f"/jobs/{job_id}", json=definition())
    await client.post("/jobs/old/update", json=definition(jobName="y"))
    turns, lines = world.turns, len(world.audit.lines)
    body = [named("new"), named("old", jobName="x"), named("same", maxRetries=5), named("bad", qos=7), 5]
    expected = [("created", None), ("updated", 2), ("unchanged", 1), ("refused", None), ("refused", None)]
    assert await compared(client, *body) == expected
    assert (world.turns, len(world.audit.lines), list(world.documents)) == (turns, lines, ["old", "same"])
    answer = (await client.post("/definitions/compare", json=body)).json()["data"]["items"]
    assert answer[3]["problem"]["errors"][0]["pointer"] == "/qos"
    wrong = await client.post(
        "/definitions/compare", content=b"[{]", headers={"content-type": "application/json"}
    )
    assert wrong.status_code == 400


async def test_a_definition_without_creator_is_compared_with_that_of_its_job(
    client: httpx.AsyncClient,
) -> None:
    """As an update keeps it; and `active` counts where a definition names it (SPEC section 2)."""
    nobody = {key: value for key, value in definition().items() if not key.startswith("creator")}
    await client.post("/jobs/a", json=nobody | {"creator": "x", "creatorName": "X", "active": 0})
    assert await compared(client, nobody | {"jobId": "a"}) == [("unchanged", 1)]
    assert await compared(client, nobody | {"jobId": "a", "active": False}) == [("unchanged", 1)]
    assert await compared(client, nobody | {"jobId": "a", "active": 1}) == [("updated", 1)]
    # An array does what the comparison says; who does not want updates gets none
    for active, status, state in (
        (None, "unchanged", "paused"),
        (1, "updated", "active"),
        (1, "unchanged", "active"),
    ):
        for policy, done in (("refuse", "unchanged"), ("update", status)):
            item = nobody | {"jobId": "a"} | ({} if active is None else {"active": active})
            posted = await client.post("/jobs", params={"onExisting": policy}, json=[item])
            assert posted.json()["data"]["items"][0]["status"] == done
        assert (await client.get("/jobs/a")).json()["data"]["state"] == state


OWN = [
    {"request": [{"url": "service:/x"}]},
    {"request": [{"url": "service://{serviceName}/x"}]},
    {"request": [{"url": "service://{serviceGateway}/{serviceName}/x"}]},
    {"notification": [{"url": "service:/x"}]},
    {"async": True, "checkUrl": "service:/x"},
    {"cancelUrl": {"url": "service:/x"}},
]


@each_row("members", OWN)
async def test_who_owns_a_job_is_judged_by_every_door(members: dict[str, Any]) -> None:
    """What creation refuses of a job without owner, check, comparison and array refuse (SPEC section 9)."""
    world = World()
    async with world.client() as client:
        body = named("a", **members)

        async def ask(sender: str) -> list[Any]:
            headers = {"X-Service": sender} if sender else {}
            (foreseen,) = await compared(client, body, **headers)
            checked = await client.post("/definitions/check", json=body, headers=headers)
            posted = await client.post("/jobs?onExisting=update", json=[body], headers=headers)
            (item,) = posted.json()["data"]["items"]
            return [checked.status_code, foreseen[0], item["status"]]

        refused = await client.post("/definitions/check", json=body)
        assert pointers(refused) == pointers(await client.post("/jobs/a", json=body))
        assert await ask("") == [422, "refused", "refused"]
        assert await ask("shop") == [200, "created", "created"]
        assert await ask("") == [200, "unchanged", "unchanged"]
        assert await ask("till") == [200, "updated", "updated"]


async def test_a_job_of_a_service_is_compared_with_the_options_that_it_has(client: httpx.AsyncClient) -> None:
    """A file does not name them: an update leaves them as they are (SPEC section 13)."""
    await client.put("/services/s", json={"options": {"maxRetries": 3}})
    await client.post("/jobs/a", json=definition(), headers={"X-Service": "s"})
    assert await compared(client, named("a")) == [("unchanged", 1)]
    assert await compared(client, named("a", jobName="x")) == [("updated", 1)]
