"""Public collections of bodies and strings, and what `/openapi.json` says, through the whole service."""

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from scheduler_service.api.application import OPERATIONS
from scheduler_service.api.request import ApiOperation
from scheduler_service.app.listener import listen
from scheduler_service.http_server.server import Server
from tests.conformance_data import Row
from tests.wire.service import World, data_of, definition, pointers, running

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
    """Every sixth one of the naughty strings; `--long`: all."""
    found: list[Row] = conformance("naughty_strings.jsonl")
    return found[:: 1 if request.config.getoption("--long") else 6]


async def post(client: httpx.AsyncClient, path: str, value: Any) -> httpx.Response:
    """Posts JSON, lone surrogates as they come."""
    content = json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")
    return await client.post(path, content=content, headers=JSON)


async def test_bodies_are_parsed_or_refused(world: World, conformance: Any) -> None:
    """What must parse is never 400, what must not is 4xx, nothing 5xx; a body goes to half of the paths."""
    data_of(await world.client.post("/jobs/j", json=definition(overlapPolicy="allow")), 201)
    for number, row in enumerate(conformance("json_bodies.jsonl")):
        body = base64.b64decode(row["body_base64"])
        for path in PATHS[number % 2 :: 2]:
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


FREE = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)
FEW = settings(FREE, max_examples=2)
MANY = settings(FREE, max_examples=300)

LONGEST_WAIT = 60
ENDING = [one for one in OPERATIONS if one.media_type == "application/json"]
"""The operations whose answers end."""


def cases(operations: list[ApiOperation], usual: Callable[[ApiOperation], object]) -> list[Any]:
    """(name, settings): the `usual` operations a few times; for the long run all of them many times."""
    few = [pytest.param(one.name, FEW, id=one.name) for one in operations if usual(one)]
    return few + [
        pytest.param(one.name, MANY, id=f"{one.name}-many", marks=pytest.mark.long) for one in operations
    ]


class Served:
    """A service on a socket of loopback, in a thread of its own, and its description."""

    def __init__(self) -> None:
        self.listener = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="served")
        self.schema: Any = None

    def __enter__(self) -> "Served":
        # A second of imports, which whoever only collects tests does not need.
        import requests
        from schemathesis import openapi
        from schemathesis.checks import not_a_server_error
        from schemathesis.specs.openapi import checks

        self._checks = [
            not_a_server_error,
            checks.status_code_conformance,
            checks.content_type_conformance,
            checks.response_schema_conformance,
        ]
        self._session = requests.Session()
        self._session.trust_env = False
        self._thread.start()
        assert self._ready.wait(30)
        self.schema = openapi.from_dict(self._document)
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()
        self._loop.call_soon_threadsafe(self._server.ask_to_end)
        self._thread.join(30)

    def judge(self, name: str, chosen: settings, **drawn: Any) -> None:
        """Sends cases of the operation, and judges each answer by the description."""

        @chosen
        @given(self.schema.find_operation_by_id(name).as_strategy(**drawn))
        def each(case: Any) -> None:
            leave_out_wait(case)
            leave_open(case)
            case.call_and_validate(base_url=self.url, session=self._session, checks=self._checks)

        each()

    def fill(self) -> dict[str, str]:
        """Something for every list, and ids by which it is found."""
        noted = [{"url": "service://jobsclient/told"}]
        child = definition(timer={"period": "0 * * * * ?"}, parentJob="known")
        with httpx.Client(base_url=self.url, verify=False, trust_env=False) as client:
            client.post("/jobs/known", json=definition(notification=noted, labels={"a": "b"}))
            client.post("/jobs/child", json=child)
            client.put("/jobs/known", params={"disabled": "false"})
            execution_id = client.post("/jobs/known/trigger").json()["data"]["executionId"]
            assert client.get(f"/executions/{execution_id}").status_code == 200
        return {"jobId": "known", "executionId": execution_id, "deliveryId": f"{execution_id}-0"}

    async def _serve(self) -> None:
        async with running() as world:
            self._document = (await world.client.get("/openapi.json")).json()
            self._server = Server(world.service.api, log=lambda event, **keys: None)
            self._loop = asyncio.get_running_loop()
            self._ready.set()
            await self._server.serve([self.listener])


def is_cheap(operation: ApiOperation) -> bool:
    """Whether it names nothing that has to be there; an array of definitions takes ten seconds to draw."""
    return "{" not in operation.path and operation.name != "createJobs"


def leave_out_wait(case: Any) -> None:
    """A wait that a claim may ask for would never end: the service's clock stands still."""
    wait = case.body.get("waitSeconds") if isinstance(case.body, dict) else None
    if isinstance(wait, int | float) and 0 < wait <= LONGEST_WAIT:
        case.body["waitSeconds"] = 0


def leave_open(case: Any) -> None:
    """The first key, which is an admin's, would close the service to all that follows."""
    if isinstance(case.body, dict) and case.body.get("role") == "admin":
        case.body["role"] = "viewer"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """One service for the operations of a module."""
    with Served() as served:
        yield served


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "chosen"), cases(ENDING, is_cheap))
def test_answers_are_as_described(served: Served, name: str, chosen: settings) -> None:
    """No 5xx, no status, content type or body that the description does not name (SPEC section 10)."""
    served.judge(name, chosen)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "chosen"),
    cases([one for one in ENDING if "{" in one.path], lambda one: one.route.startswith("GET")),
)
def test_answers_about_what_is_there_are_as_described(served: Served, name: str, chosen: settings) -> None:
    """The same with ids of what exists: successes have the shape that the description gives them."""
    known = served.fill()
    path = next(one.path for one in ENDING if one.name == name)
    served.judge(name, chosen, path_parameters={key: known[key] for key in known if f"{{{key}}}" in path})


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "chosen"),
    cases([one for one in ENDING if one.query or one.body], lambda one: one.body and is_cheap(one)),
)
def test_what_is_not_as_described_is_refused_as_described(
    served: Served, name: str, chosen: settings
) -> None:
    """What the description rules out is answered by a problem that it describes (SPEC section 10)."""
    from schemathesis import GenerationMode

    served.judge(name, chosen, generation_mode=GenerationMode.NEGATIVE)
