"""How long lists are, and how they are sorted (SPEC section 10)."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from scheduler_service.api.application import OPERATIONS
from scheduler_service.api.bulk_actions import read_filter
from scheduler_service.api.parameters import MOST_REPEATED, Parameter
from scheduler_service.api.query_filters import JOB_FILTERS
from scheduler_service.api.request import LONGEST_IN_PATH, ApiOperation
from scheduler_service.api.responses import HIDDEN_FAULT, ApiProblem
from scheduler_service.domain.execution import ExecutionState
from scheduler_service.ports.errors import StoreError, StoreStopping, StoreUnavailable, StoreUncertain
from tests.rows import each_row
from tests.unit.api.world import World, definition, pointers


async def test_a_list_has_fifty_unless_more_is_asked(client: httpx.AsyncClient) -> None:
    """`limit` is 50 where none is given, and at most 500 (SPEC section 10)."""
    named = [{"jobId": f"j{number:03}", **definition()} for number in range(501)]
    await client.post("/jobs", json=named)
    plain = (await client.get("/jobs")).json()["data"]
    assert (len(plain["items"]), plain["nextCursor"] is None) == (50, False)
    most = (await client.get("/jobs?limit=500")).json()["data"]
    assert (len(most["items"]), most["nextCursor"] is None) == (500, False)


@pytest.mark.parametrize(
    ("path", "name", "values"),
    [
        ("/deliveries", "state", "pending, delivered, failed, outbox, superseded, dismissed"),
        ("/executions", "state", ", ".join(ExecutionState)),
        ("/executions", "triggeredBy", "timer, manual, replay"),
        ("/jobs/j1/executions", "state", ", ".join(ExecutionState)),
        ("/jobs/j1/executions", "triggeredBy", "timer, manual, replay"),
        ("/jobs", "state", "active, paused, finished, destroyed"),
        ("/jobs", "kind", "one_time, timing, timeing, cron, external"),
        ("/jobs", "sort", "jobId, -jobId"),
        ("/jobs", "system", "0, 1, true or false"),
    ],
)
@pytest.mark.parametrize("given", ["nonsense", "PENDING", ""])
async def test_a_filter_of_known_values_names_them(
    client: httpx.AsyncClient, path: str, name: str, values: str, given: str
) -> None:
    """Another value is 422 and not an empty list (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition())
    response = await client.get(path, params={name: given})
    assert (response.status_code, pointers(response)) == (422, [(f"/{name}", "invalid")])
    assert values in response.json()["detail"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "1769907600",
            "'2026-02-01T01:00:00Z': moments are written so (RFC 3339)",
        ),
        ("2026-10-01", "; write '2026-10-01 00:00:00'"),
        ("tomorrow", "write it like 2023-10-01 09:00:01 or 2023-10-01T09:00:01+08:00"),
    ],
)
async def test_what_is_no_moment_is_told_once_with_its_remedy(
    client: httpx.AsyncClient, given: str, said: str
) -> None:
    """As in a definition (SPEC section 3)."""
    detail = (await client.get("/executions", params={"from": given})).json()["detail"]
    assert detail.startswith(f"from {given!r} is not a time; write it like ")
    assert detail.endswith(said)
    assert detail.count(given) == (2 if given in said else 1)


IN_QUERY = [(one, parameter) for one in OPERATIONS for parameter in one.query]
IN_PATH = [(one, name) for one in OPERATIONS for name in re.findall(r"\{(\w+)\}", one.path)]
KNOWN = {"requestCounts": "1"}


def fill(operation: ApiOperation, **given: str) -> str:
    """The path of an operation, with something for each of its parameters."""
    return re.sub(r"\{(\w+)\}", lambda found: given.get(found[1], KNOWN.get(found[1], "j1")), operation.path)


SPANS = [one for one in OPERATIONS if {"from", "to"} <= {parameter.name for parameter in one.query}]


@each_row("operation", SPANS, ids=lambda one: one.name)
async def test_a_span_begins_before_it_ends(client: httpx.AsyncClient, operation: ApiOperation) -> None:
    """Nothing is between its ends else; 422 rather than an empty list."""
    await client.post("/jobs/j1", json=definition())
    is_of_days = any(one.schema.get("format") == "date" for one in operation.query)
    rest = "" if is_of_days else "T00:00:00Z"
    query = {"from": f"2026-10-02{rest}", "to": f"2026-10-01{rest}"}
    refused = await client.request(operation.method, fill(operation), params=query)
    assert (refused.status_code, pointers(refused)) == (422, [("/from", "range")])


@each_row(("operation", "parameter"), IN_QUERY, ids=lambda one: one.name)
async def test_each_query_parameter_has_a_length(
    client: httpx.AsyncClient, operation: ApiOperation, parameter: Parameter
) -> None:
    """One more letter is 422, with the name and the limit."""
    query = f"?{parameter.name}={'a' * (parameter.longest + 1)}"
    refused = await client.request(operation.method, fill(operation) + query)
    assert (refused.status_code, pointers(refused)) == (422, [(f"/{parameter.name}", "too_long")])
    assert f"at most {parameter.longest:,}" in refused.json()["detail"]


@each_row(("operation", "name"), IN_PATH, ids=lambda one: getattr(one, "name", one))
async def test_each_path_parameter_has_a_length(
    client: httpx.AsyncClient, operation: ApiOperation, name: str
) -> None:
    path = fill(operation, **{name: "a" * (LONGEST_IN_PATH + 1)})
    refused = await client.request(operation.method, path, json={})
    assert (refused.status_code, pointers(refused)) == (422, [(f"/{name}", "too_long")])


@each_row("name", ["If-Match", "X-Service", "Idempotency-Key"])
async def test_each_header_has_a_length(client: httpx.AsyncClient, name: str) -> None:
    refused = await client.post("/jobs/j1/update", json=definition(), headers={name: '"' + "1" * 1_024})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == f"/{name}"


async def test_a_parameter_is_repeated_so_often_and_no_more(client: httpx.AsyncClient) -> None:
    label = "label=" + quote("a:b")
    read = await client.get("/jobs?" + "&".join([label] * MOST_REPEATED))
    refused = await client.get("/jobs?" + "&".join([label] * (MOST_REPEATED + 1)))
    assert read.status_code == 200
    assert (refused.status_code, pointers(refused)) == (422, [("/label", "too_many")])


async def test_the_description_names_each_length(client: httpx.AsyncClient) -> None:
    """In OpenAPI every text has `maxLength`, every number a maximum."""
    paths = (await client.get("/openapi.json")).json()["paths"]
    described = [
        one for path in paths.values() for operation in path.values() for one in operation["parameters"]
    ]
    assert len(described) > len(IN_QUERY)
    assert [one["name"] for one in described if not _is_bounded(one["schema"])] == []


def _is_bounded(schema: dict[str, Any]) -> bool:
    match schema["type"]:
        case "array":
            return "maxItems" in schema and _is_bounded(schema["items"])
        case "string":
            return "maxLength" in schema
        case _:
            return "maximum" in schema


@pytest.mark.parametrize(
    "fault",
    [
        StoreUnavailable("The store /srv/data/state.db cannot be read: disk I/O error."),
        StoreUnavailable("Nothing was written to data/state.db: database or disk is full."),
        StoreUncertain("Whether redis://store:6379/0 holds the write is unknown: reset."),
        StoreUnavailable(
            "the history in PostgreSQL at store.corp:6379 cannot be reached: connection failed: "
            'password authentication failed for user "punctual"'
        ),
    ],
)
async def test_no_answer_names_a_file(world: World, fault: StoreError) -> None:
    """Where the store is, and what it said, is in the log alone."""
    world.fault = fault
    async with world.client() as client:
        one = await client.post("/jobs/j1", json=definition())
        many = await client.post("/jobs", json=[{"jobId": "a", **definition()}])
    for answer in (one, many):
        assert HIDDEN_FAULT in answer.text
        assert "state.db" not in answer.text
        assert "6379" not in answer.text
        assert "punctual" not in answer.text
    assert ("store_failed", {"requests": 1, "error": str(fault)}) in world.logged


async def test_an_array_that_the_store_failed_is_one_request(world: World) -> None:
    """However many items it has."""
    world.fault = StoreUnavailable("full")
    async with world.client() as client:
        answer = await client.post("/jobs", json=[{"jobId": name, **definition()} for name in "abc"])
    assert [item["problem"]["status"] for item in answer.json()["data"]["items"]] == [503] * 3
    assert world.deps.shown.store_faults.counts == {"requests": 1}


@pytest.mark.parametrize("order", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
async def test_an_array_that_a_stop_cuts_off_tells_of_the_store_all_the_same(
    world: World, order: tuple[int, ...]
) -> None:
    """What failed some of its items is counted, whatever became of the others."""
    faults = (StoreUnavailable("full"), StoreStopping("this node is stopping"))
    world.faults = [faults[one] for one in order]
    async with world.client() as client:
        await client.post("/jobs", json=[{"jobId": name, **definition()} for name in "abc"])
    assert ("store_failed", {"requests": 1, "error": "full"}) in world.logged


async def test_a_process_that_stops_is_no_fault_of_the_store(world: World) -> None:
    """Callers hear when to ask again; the log has no line of it."""
    world.fault = StoreStopping("this node is stopping; ask again in a moment")
    async with world.client() as client:
        one = await client.post("/jobs/j1", json=definition())
        many = await client.post("/jobs", json=[{"jobId": "a", **definition()}])
    assert one.status_code == many.json()["data"]["items"][0]["problem"]["status"] == 503
    assert one.json()["detail"] == "nothing was done: this node is stopping; ask again in a moment"
    assert [event for event, _ in world.logged if event == "store_failed"] == []
    # What the service words for callers says when to ask again
    world.fault = StoreUnavailable("worker process 1 does not answer; ask again", is_public=True)
    async with world.client() as client:
        answer = await client.post("/jobs/j1", json=definition())
    assert answer.json()["detail"] == "nothing was done: worker process 1 does not answer; ask again"


class Counted(list[str]):
    """A list that counts how many of its items are given out."""

    given = 0

    def __iter__(self) -> Iterator[str]:
        for item in super().__iter__():
            self.given += 1
            yield item


async def test_of_a_long_list_no_more_is_read_than_may_be(client: httpx.AsyncClient) -> None:
    """A filter of a hundred thousand labels held the event loop for half a second before it was refused."""
    labels = Counted(["team:ops"] * 1_000)
    with pytest.raises(ApiProblem, match="more than 50 times"):
        read_filter({"label": labels}, JOB_FILTERS)
    looked_at = 1_000  # whether each is a text
    assert labels.given == looked_at + MOST_REPEATED + 1
    # A long list in a filter is refused
    for label, code in ((["a:b"] * 100_000, "too_many"), (["a" * 1_025], "too_long")):
        body = {"action": "trigger", "select": {"filter": {"label": label}}, "dryRun": True}
        refused = await client.post("/bulk/jobs", json=body)
        assert (refused.status_code, pointers(refused)) == (422, [("/select/filter/label", code)])
