"""Public collections of bodies and strings through the whole service, to a real target (SPEC section 10)."""

import base64
import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.conformance_data import Row
from tests.wire.service import World, data_of, definition, pointers

LEAST_SHARE = 0.85
"""Of the strings are taken at least: a test that looks at those alone looks at something."""
JSON = {"content-type": "application/json"}
PATHS = (
    "/jobs/j/trigger",
    "/jobs/new",
    "/jobs/j/update",
    "/jobs",
    "/timers/preview",
    "/jobs/j/feedback/1?token=x",
)


@pytest.fixture
def strings(conformance: Any, request: pytest.FixtureRequest) -> list[Row]:
    """Every third one of the naughty strings; `--long`: all."""
    found: list[Row] = conformance("naughty_strings.jsonl")
    return found[:: 1 if request.config.getoption("--long") else 3]


async def post(client: httpx.AsyncClient, path: str, value: Any) -> httpx.Response:
    """Posts JSON, lone surrogates as they come."""
    content = json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")
    return await client.post(path, content=content, headers=JSON)


async def test_bodies_are_parsed_or_refused(world: World, conformance: Any) -> None:
    """What must parse is never 400, what must not is always 4xx, nothing is 5xx, and nothing is left over."""
    data_of(await world.client.post("/jobs/j", json=definition(overlapPolicy="allow")), 201)
    for row in conformance("json_bodies.jsonl"):
        body = base64.b64decode(row["body_base64"])
        for path in PATHS:
            answer = await world.client.post(path, content=body, headers=JSON)
            assert answer.status_code < 500, (row["id"], path)
            if not answer.is_success:
                pointers(answer)
            if row["kind"] == "y":
                assert answer.status_code != 400, (row["id"], path)
            elif row["kind"] == "n" and (body or path != "/jobs/j/trigger"):
                assert 400 <= answer.status_code < 500, (row["id"], path)
    listed = data_of(await world.client.get("/jobs"))["items"]
    assert [(one["jobId"], one["revision"]) for one in listed] == [("j", 1)]
    await world.settle()
    assert all(entry[0] == "ready" for entry in world.log)


async def test_free_text_is_kept_as_it_is(world: World, strings: list[Row]) -> None:
    """In each free-text field of a definition: stored and returned unchanged, or 4xx; found by it as well."""
    for row in strings:
        text, job_id = row["string"], row["id"]
        posted = definition(
            jobId=job_id,
            objectId=text,
            jobName=text,
            jobDescription=text,
            creator=text,
            creatorName=text,
            labels={"k": text, text.replace(":", ".") or "empty": "v"},
            notification=[{"url": "service://jobsclient/told", "name": text, "stateEquals": [text, "500"]}],
            retry=[{"errorEquals": text}],
            paramsSchema={"description": text, "properties": {text: {}}},
        )
        answer = await post(world.client, f"/jobs/{job_id}", posted)
        assert answer.status_code in (201, 400, 422), (job_id, answer.text)
        if answer.status_code != 201:
            pointers(answer)
            assert (await world.client.get(f"/jobs/{job_id}")).status_code == 404
            continue
        shown = data_of(await world.client.get(f"/jobs/{job_id}"))
        assert shown["definition"] == posted
        assert (shown["jobName"], shown["objectId"], shown["creator"]) == (text, text, text)
        assert shown["labels"] == posted["labels"]
        for query in (f"creator={quote(text)}", f"objectId={quote(text)}", f"label=k:{quote(text)}"):
            items = data_of(await world.client.get(f"/jobs?limit=500&{query}"))["items"]
            assert job_id in [one["jobId"] for one in items], (job_id, query)
        found = data_of(await world.client.get(f"/jobs?limit=500&text={quote(text)}"))["items"]
        assert job_id in [one["jobId"] for one in found]


async def test_parameters_and_bodies_reach_the_target_as_they_are(world: World, strings: list[Row]) -> None:
    """A parameter through a template, and a body's own text: never cut or interpreted (SPEC section 4)."""
    step = {
        "url": "service://jobswork/run/${$.n}?q=${$.text}",
        "body": {"text": "${$.text}|json", "in": "<${$.text}>"},
    }
    data_of(await world.client.post("/jobs/j", json=definition(request=[step], overlapPolicy="allow")), 201)
    sent = []
    for number, row in enumerate(strings):
        answer = await post(world.client, "/jobs/j/trigger", {"text": row["string"], "n": number})
        assert answer.status_code in (200, 400, 422), row["id"]
        if answer.status_code == 200:
            sent.append((number, row["string"]))
    await world.settle()
    came = {int(one.path.rpartition("/")[2]): one for one in world.target.at("/run")}
    assert len(sent) > LEAST_SHARE * len(strings)
    for number, text in sent:
        one = came[number]
        assert one.json == {"text": text, "in": f"<{text}>"}, text
        assert one.query.get("q", "") == text, text


async def test_what_a_target_says_is_told_as_it_is(world: World, strings: list[Row]) -> None:
    """Texts of a feedback pass through to notification and history unchanged (SPEC sections 5, 7)."""
    step = {"url": "service://jobswork/run?to=${schedulingFeedbackUrl}"}
    note = [{"url": "service://jobsclient/told"}]
    made = definition(request=[step], notification=note) | {"async": True}
    data_of(await world.client.post("/jobs/j", json=made), 201)
    started = data_of(await world.client.post("/jobs/j/trigger"))
    await world.settle()
    url = world.target.seen[0].query["to"]
    expected = []
    for row in strings:
        text = row["string"]
        said = {"message": text, "progress": "1/2", "data": {text: text}, "datetime": text}
        answer = await post(world.client, url, said)
        assert answer.status_code in (200, 400, 422), (row["id"], answer.text)
        await world.settle()
        if answer.status_code == 200:
            expected.append(said)
    told = [one.json["response"] for one in world.target.at("/told")]
    assert [{key: one[key] for key in expected[0]} for one in told] == expected
    data_of(await post(world.client, url, {"status": "succeed"}))
    full = await world.ended(started["executionId"])
    assert len(full["attempts"][0]["feedback"]) == len(expected) + 1


async def test_strings_in_paths_and_queries_are_found_or_refused(world: World, strings: list[Row]) -> None:
    """As an id, a filter or a cursor a string is one, or a 4xx (SPEC section 10)."""
    for row in strings:
        text = quote(row["string"], safe="", errors="replace")
        made = await world.client.post(f"/jobs/{text}", json=definition())
        assert made.status_code == 201 or 400 <= made.status_code < 500, row["id"]
        if made.status_code == 201:
            assert made.json()["data"]["jobId"] == row["string"]
            data_of(await world.client.delete(f"/jobs/{text}"))
        for path in (
            f"/jobs?text={text}",
            f"/jobs?label={text}",
            f"/jobs?cursor={text}",
            f"/executions?error={text}",
            f"/executions?cursor={text}",
            f"/executions/{text}",
            f"/deliveries?event={text}",
            f"/upcoming?from={text}",
            f"/upcoming?cursor={text}",
            f"/main/getChildJobLogs?parentJobId={text}&execution=1",
            f"/main/execution?jobId={text}",
        ):
            answer = await world.client.get(path)
            assert answer.status_code in (200, 404, 422), (row["id"], path, answer.text)
        for path in (f"/deliveries/{text}/resend", f"/executions/{text}/replay"):
            assert (await world.client.post(path)).status_code in (404, 405, 422), (row["id"], path)
        family = await world.client.delete(f"/main/destroyByParentJob?parentJobId={text}")
        assert family.status_code in (404, 422), row["id"]
