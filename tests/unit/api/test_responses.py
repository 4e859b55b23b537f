"""Refusals are problem details with status and pointer (SPEC section 10, RFC 9457); health of the service."""

import asyncio
import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import httpx
import pytest

from client_sdk.models import Problem
from scheduler_service.api.responses import PIECE_BYTES, LongAnswer, succeed
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUnavailable, StoreUncertain
from tests.rows import each_row
from tests.unit.api.world import PATH, World, definition, pointers


async def test_an_answer_lists_a_hundred_errors(client: httpx.AsyncClient) -> None:
    """A body with very many errors is not answered by as many: the detail says how many more there are."""
    body = definition() | {f"x{index}": 1 for index in range(1_000)}
    problem = (await client.post("/jobs/j1", json=body)).json()
    assert len(problem["errors"]) == 100
    assert problem["detail"].endswith("; and 999 more")


async def test_unknown_paths_and_methods_are_problems(client: httpx.AsyncClient) -> None:
    """404 and 405 of unknown routes are problems too (SPEC section 10)."""
    for path in ("/nothing", "/jobs/", "/jobs/a/b/c"):
        response = await client.get(path)
        assert (response.status_code, pointers(response)) == (404, [("", "no_route")])
        assert response.headers["cache-control"] == "no-store"
    patched = await client.patch("/jobs/j1")
    assert patched.status_code == 405
    assert patched.headers["allow"] == "DELETE, GET, POST, PUT"
    pointers(patched)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (StoreUnavailable("the disk is full"), "unavailable"),
        (StoreConflict("another writer was first"), "unavailable"),
        (StoreUncertain("no answer"), "unknown"),
    ],
)
async def test_a_store_that_fails_is_503(
    client: httpx.AsyncClient, world: World, fault: StoreError, code: str
) -> None:
    """503: nothing was done, or code `unknown` where that is not known (SPEC section 10)."""
    world.fault = fault
    response = await client.post("/jobs/j1", json=definition())
    assert (response.status_code, pointers(response)) == (503, [("", code)])
    assert response.headers["retry-after"] == "1"
    bulk = await client.post("/jobs", json=[{"jobId": "a", **definition()}])
    assert bulk.json()["data"]["items"][0]["problem"]["errors"][0]["code"] == code
    world.fault = None
    assert (await client.get("/jobs/j1")).status_code == 404


async def test_an_internal_error_shows_nothing(world: World) -> None:
    """Never a stack trace (SPEC section 10)."""

    async def break_down() -> tuple[str, ...]:
        raise RuntimeError("the secret inside")

    broken = World(ready=break_down)
    transport = httpx.ASGITransport(broken.api, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.get("/health/ready")
        assert (response.status_code, pointers(response)) == (500, [("", "internal")])
        assert "secret" not in response.text
        assert response.headers["cache-control"] == "no-store"


WARNINGS = (Problem("/timers/0", "odd", "it is odd"),)


async def never() -> Any:
    """Nothing is received."""
    raise AssertionError


async def test_it_says_what_one_piece_would_say() -> None:
    """Its length is known before, and no piece is long."""
    timers = [{"jobId": f"job-{number}"} for number in range(20_000)]
    text, data = json.dumps(timers).encode(), {"name": "billing"}
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    answer = LongAnswer(
        data, "timers", text, {"location": "/x"}, status=HTTPStatus.CREATED, warnings=WARNINGS
    )
    await answer({"type": "http"}, never, send)
    body = b"".join(message["body"] for message in sent[1:])
    whole = succeed(
        data | {"timers": timers}, {"location": "/x"}, status=HTTPStatus.CREATED, warnings=WARNINGS
    )
    assert json.loads(body) == json.loads(bytes(whole.body))
    assert sent[0]["status"] == 201
    assert dict(sent[0]["headers"]) == {
        b"location": b"/x",
        b"content-type": b"application/json",
        b"content-length": str(len(body)).encode(),
    }
    assert max(len(message["body"]) for message in sent[1:]) <= PIECE_BYTES
    assert [message["more_body"] for message in sent[1:]] == [True] * (len(sent) - 2) + [False]


async def test_the_loop_comes_between_two_pieces() -> None:
    """Also where the caller reads as fast as it is written."""
    came = 0

    async def count() -> None:
        nonlocal came
        while True:
            came += 1
            await asyncio.sleep(0)

    async def send(message: Any) -> None:
        """Never waits."""

    other = asyncio.ensure_future(count())
    await LongAnswer({"a": 1}, "b", b" " * PIECE_BYTES * 20 + b"1")({"type": "http"}, never, send)
    other.cancel()
    assert came >= 20


MINUTELY = {"dueTime": "0s", "period": "0 * * * * ?"}
NIGHTLY = {"period": "0 30 2 * * ?", "timezone": "Europe/Berlin"}

QUERIES: dict[str, list[tuple[str, str, str]]] = {
    "GET /executions": [
        ("limit=0", "/limit", "invalid"),
        ("limit=501", "/limit", "invalid"),
        ("limit=x", "/limit", "invalid"),
        ("cursor=nonsense", "/cursor", "invalid"),
        ("cursor=", "/cursor", "invalid"),
        ("state=done", "/state", "invalid"),
        ("stat=x", "/stat", "unknown_parameter"),
        ("label=x", "/label", "invalid"),
        ("from=yesterday", "/from", "invalid"),
    ],
    "GET /jobs": [
        ("limit=501", "/limit", "invalid"),
        ("cursor=x", "/cursor", "invalid"),
        ("sort=size", "/sort", "invalid"),
        ("foo=1", "/foo", "unknown_parameter"),
        ("kind=daily", "/kind", "invalid"),
        ("lastOutcome=failed", "/lastOutcome", "invalid"),
    ],
    "GET /counts/jobs": [
        ("state=failed", "/state", "invalid"),
        ("lastOutcome=failed", "/lastOutcome", "invalid"),
        ("limit=1", "/limit", "unknown_parameter"),
        ("sort=jobId", "/sort", "unknown_parameter"),
    ],
    "GET /counts/upcoming": [
        ("buckets=1001", "/buckets", "invalid"),
        ("bucketSeconds=59", "/bucketSeconds", "invalid"),
        ("from=soon", "/from", "invalid"),
    ],
    "GET /series/executions": [
        ("from=2026-01-01T00:00:00Z&to=2025-12-31T00:00:00Z", "/from", "range"),
        ("from=2025-12-23T23:59:59Z", "/from", "range"),
        ("to=2026-02-01T00:00:00Z", "/from", "range"),
        ("bucketSeconds=300", "/bucketSeconds", "range"),
        ("bucketSeconds=450", "/bucketSeconds", "invalid"),
        ("bucketSeconds=299", "/bucketSeconds", "invalid"),
        ("bucketSeconds=600&buckets=5", "/buckets", "contradiction"),
        ("buckets=0", "/buckets", "invalid"),
        ("buckets=201", "/buckets", "invalid"),
        ("state=failed&outcome=succeeded", "/outcome", "contradiction"),
        ("limit=5", "/limit", "unknown_parameter"),
    ],
    "POST /jobs/j1/trigger": [
        ("delaySeconds=-1", "/delaySeconds", "invalid"),
        ("delaySeconds=nan", "/delaySeconds", "invalid"),
        ("delaySeconds=1e3", "/delaySeconds", "invalid"),
        ("at=soon", "/at", "invalid"),
        ("at=2026-02-30T00:00:00Z", "/at", "invalid"),
        ("delaySeconds=1&at=2026-01-01T00:00:00Z", "/at", "contradiction"),
        ("reset=done", "/reset", "invalid"),
        ("reset=failed", "/reset", "no_key"),
        ("delay=1", "/delay", "unknown_parameter"),
        ("at=%ff", "", "encoding"),
        ("at=a&at=b", "/at", "invalid"),
    ],
    "PUT /jobs/j1": [
        ("active=0&disabled=true", "/disabled", "contradiction"),
        ("disabled=maybe", "/disabled", "invalid"),
        ("", "/active", "required"),
        ("active=2", "/active", "invalid"),
        ("active=1&misfire=none", "/misfire", "invalid"),
    ],
}
"""What may follow `?`, with the pointer and the code of the refusal."""

BODIES: dict[str, list[tuple[Any, str, str]]] = {
    "PUT /jobs/j1": [
        ({"disabled": "yes"}, "/disabled", "type"),
        ({}, "/active", "required"),
        ({"activ": 1}, "/activ", "unknown_field"),
    ],
    "PUT /jobs/j1?disabled=true": [({"disabled": False}, "/disabled", "contradiction")],
    "PUT /jobs/j1?active=0": [({"active": 1}, "/active", "contradiction")],
    "POST /jobs/j1": [(definition(jobId="j2"), "/jobId", "mismatch")],
    "POST /jobs/j1/trigger": [([], "", "type"), (5, "", "type"), ("x", "", "type"), (None, "", "type")],
    f"POST {PATH}/instances/a/heartbeat": [
        ({"load": -1}, "/load", "range"),
        ({"draining": "no"}, "/draining", "type"),
        ({"state": "fine"}, "/state", "unknown_field"),
    ],
    "POST /templates/preview": [
        ({"root": {}}, "/template", "required"),
        ({"template": "x", "root": []}, "/root", "type"),
        ({"template": "x", "roots": {}}, "/roots", "unknown_field"),
        ([], "", "type"),
    ],
    "POST /timers/preview": [
        ({"timer": {"dueTime": "0s", "period": "61 * * * * ?"}}, "/timer/period", "invalid"),
        ({"timer": {"period": 5}}, "/timer/period", "type"),
        ({"timer": "x"}, "/timer", "invalid"),
        ({"timer": MINUTELY, "from": "soon"}, "/from", "invalid"),
        ({"timer": MINUTELY, "until": "soon"}, "/until", "invalid"),
        ({"timer": MINUTELY, "count": 1001}, "/count", "range"),
        ({"timer": MINUTELY, "count": True}, "/count", "type"),
        ({"timers": MINUTELY}, "/timers", "unknown_field"),
        ([], "", "type"),
    ],
    "POST /timers/outlook": [
        ({"timer": {"period": "often"}}, "/timer/period", "invalid"),
        ({"timer": NIGHTLY, "days": 367}, "/days", "range"),
        ({"timer": NIGHTLY, "from": "2026-02-30"}, "/from", "invalid"),
        ({"timer": NIGHTLY, "from": "9999-12-31", "days": 1}, "/from", "range"),
    ],
}
PATHS: list[tuple[str, int, str, str]] = [
    *((f"POST /jobs/{one}", 422, "/jobId", "pattern") for one in ("-a", "a b", "a" * 129, "ä", "a%00")),
    *(
        (f"{method} /services/{name}", 422, "/name", "pattern")
        for name in ("-x", "a%20b", "a" * 129)
        for method in ("PUT", "GET", "DELETE")
    ),
    ("PUT /services/a/instances/-b", 422, "/instanceId", "pattern"),
    ("POST /jobs/none/trigger", 404, "/jobId", "absent"),
    *(
        (f"GET /executions/{one}{what}", 404, "/executionId", "absent")
        for one in ("x", "life1-1", "life1-", "-1", "life1-99999999999999999999")
        for what in ("", "/log")
    ),
]


def _cases() -> Iterator[tuple[str, Any, int, str, str]]:
    for ask, queries in QUERIES.items():
        yield from ((f"{ask}?{query}", ..., 422, pointer, code) for query, pointer, code in queries)
    for ask, bodies in BODIES.items():
        yield from ((ask, body, 422, pointer, code) for body, pointer, code in bodies)
    yield from ((ask, {} if "GET" not in ask else ..., status, *found) for ask, status, *found in PATHS)


@each_row(("ask", "body", "status", "pointer", "code"), _cases())
async def test_each_refusal_names_its_place(
    client: httpx.AsyncClient, ask: str, body: Any, status: int, pointer: str, code: str
) -> None:
    """A parameter, a member of the body, a part of the path; nothing is done."""
    await client.post("/jobs/j1", json=definition())
    method, path = ask.split(" ", 1)
    sent = (
        {} if body is ... else {"content": json.dumps(body), "headers": {"content-type": "application/json"}}
    )
    answer = await client.request(method, path, **sent)
    assert (answer.status_code, pointers(answer)[0]) == (status, (pointer, code)), answer.text
    assert (await client.get("/jobs/j1")).json()["data"]["revision"] == 1


@each_row("key", ["", "a" * 256, "tab\there"])
async def test_a_key_is_short_and_printable(client: httpx.AsyncClient, key: str) -> None:
    """A key that cannot be kept is refused by name."""
    await client.post("/jobs/j1", json=definition())
    answer = await client.post("/jobs/j1/trigger", headers={"Idempotency-Key": key})
    assert (answer.status_code, pointers(answer)) == (422, [("/Idempotency-Key", "invalid")])


async def test_figures_and_health(client: httpx.AsyncClient, world: World) -> None:
    """`/stats`, `/health/live`, `/health/ready`; 503 names what is missing (SPEC section 14)."""
    assert {"due", "waiting", "running", "byState", "lateness", "perMinute"} <= (
        await client.get("/stats")
    ).json()["data"].keys()
    assert (await client.get("/health/live")).json()["data"]["version"] == "1.2.3"
    assert (await client.get("/health/ready")).status_code == 200
    world.missing = ("store",)
    ready = await client.get("/health/ready")
    assert (ready.status_code, pointers(ready)) == (503, [("", "not_ready")])


async def test_readiness_names_each_part(client: httpx.AsyncClient, world: World) -> None:
    """In the answer and in the problem, whose form is that of all problems (SPEC sections 10, 14)."""
    part = {"name": "store", "state": "ready", "since": "2026-01-01T00:00:00.000Z", "missing": []}
    world.parts = (part,)
    assert (await client.get("/health/ready")).json()["data"]["parts"] == [part]
    world.missing = ("store",)
    world.parts = ({**part, "state": "missing"},)
    refused = await client.get("/health/ready")
    assert (refused.status_code, pointers(refused)) == (503, [("", "not_ready")])
    assert refused.json()["detail"] == "not ready yet: store"
    assert [one["state"] for one in refused.json()["parts"]] == ["missing"]


async def test_a_loop_that_stood_still_is_not_live(client: httpx.AsyncClient, world: World) -> None:
    """For as long as it stood; a short hold is told beside the answer (SPEC section 14)."""
    world.standstills.note(0.35)
    assert (await client.get("/health/live")).json()["data"]["loopHeldMs"] == 350
    world.standstills.note(12)
    stood = await client.get("/health/live")
    assert (stood.status_code, pointers(stood)) == (503, [("", "stood_still")])
    assert stood.json()["loopHeldMs"] == 12_000
    assert "12.0 s" in stood.json()["detail"]
    assert (await client.get("/health/ready")).status_code == 200
