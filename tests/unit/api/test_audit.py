"""The audit over the API: each change has a line, with a name and the difference (SPEC section 14)."""

import ast
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from scheduler_service.api.application import OPERATIONS
from scheduler_service.api.audit_writing import SAFE, Way
from scheduler_service.api.request import ApiOperation
from scheduler_service.domain.audit_acts import Act, ActKind, ActOutcome, AuditEntry, OwnAct
from scheduler_service.domain.effects import Call
from scheduler_service.domain.turn_events import CallEnded
from scheduler_service.domain.wire import Answer
from scheduler_service.engine.program import Surroundings
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain
from scheduler_service.security.key_ring import KeyRing
from scheduler_service.security.secrets import SecretMasks
from scheduler_service.services.registry import DeclarationsFull
from tests.manual_clock import ManualClock
from tests.rows import each_row
from tests.unit.api.stores import START
from tests.unit.api.world import World, declared, definition, pointers, put, start
from tests.unit.security.memory_keys import MemoryKeys

KEY = "a-key-of-this-service"
CANARY = "canary-7f3a-91c2"
ROOT = Path(__file__).resolve().parents[3]

NO_CHANGE = {
    "previewTimer": "tries",
    "previewCalendar": "tries",
    "readDates": "tries",
    "previewTemplate": "tries",
    "checkDefinition": "tries",
    "compareDefinitions": "reads",
    "previewService": "reads",
    "showOutlook": "tries",
    "reportFeedback": "the work of a target",
    "claimWork": "the work of an instance",
    "renewLease": "the work of an instance",
    "completeWork": "the work of an instance",
    "putInstance": "the work of an instance",
    "takeHeartbeat": "the work of an instance",
    "signOut": "ends nothing of the service",
}
"""The operations that may change something and are not audited, and why."""

TESTED_ALONE = {"signIn", "releaseExecution", "backfillJob"}
Change = tuple[str, str, object]
CALLS: dict[str, Change] = {
    "createJob": ("POST", "/jobs/fresh", definition()),
    "createJobs": ("POST", "/jobs", [{"jobId": "fresh", **definition()}]),
    "updateJob": ("POST", "/jobs/j1/update", definition(jobName="another")),
    "switchJob": ("PUT", "/jobs/j1?active=0", None),
    "destroyJob": ("DELETE", "/jobs/j1", None),
    "destroyJobBySourcePath": ("DELETE", "/job/j1", None),
    "triggerJob": ("POST", "/jobs/idle/trigger", {}),
    "cancelExecution": ("POST", "/executions/EXECUTION/cancel", {"reason": "wrong day"}),
    "replayExecution": ("POST", "/executions/EXECUTION/replay", {}),
    "destroyFamily": ("DELETE", "/main/destroyByParentJob?parentJobId=j1", None),
    "tryDefinition": ("POST", "/definitions/try", {"definition": definition(), "params": {}}),
    "changeManyJobs": ("POST", "/bulk/jobs", {"action": "pause", "select": {"jobIds": ["j1"]}}),
    "changeManyExecutions": (
        "POST",
        "/bulk/executions",
        {"action": "cancel", "select": {"executionIds": ["EXECUTION"]}},
    ),
    "resendDelivery": ("POST", "/deliveries/waiting/resend", {}),
    "dismissDelivery": ("POST", "/deliveries/waiting/dismiss", {}),
    "cleanHistory": ("DELETE", "/main/schedule/clean?retainExecutionCount=3", None),
    "pauseQueue": ("POST", "/queues/letters/pause", None),
    "putService": ("PUT", "/services/shipping", {"address": "http://127.0.0.1:9"}),
    "removeService": ("DELETE", "/services/billing", None),
    "pauseService": ("POST", "/services/billing/pause", None),
    "resumeService": ("POST", "/services/billing/resume", None),
    "removeInstance": ("DELETE", "/services/billing/instances/i", None),
}
"""A change by each operation; what is not here is written down as its request, which is the rule."""

CHANGING = [one for one in OPERATIONS if one.method not in SAFE]


@each_row("operation", CHANGING, ids=lambda one: one.name)
def test_each_operation_that_changes_something_is_audited_or_named(operation: ApiOperation) -> None:
    """Nobody adds a route whose changes nobody sees: what is not audited stands in a list with its reason."""
    assert (operation.audit_way is Way.NONE) == (operation.name in NO_CHANGE)
    if operation.audit_way in (Way.TURN, Way.HANDLER):
        assert operation.name in CALLS or operation.name in TESTED_ALONE


@pytest.mark.parametrize("name", CALLS)
async def test_each_change_has_a_line(name: str) -> None:
    """With the name of the caller, the peer's address, the operation and its thing, before it is answered."""
    world = World()
    async with world.client() as client:
        execution = await _prepare(client)
        method, path, body = msgspec.json.decode(
            msgspec.json.encode(CALLS[name]).replace(b"EXECUTION", execution.encode())
        )
        before = set(world.audit.lines)
        answer = await client.request(method, path, json=body)
        assert answer.status_code < 300, answer.text
        lines = [line for key, line in world.audit.lines.items() if key not in before]
    own = [line for line in lines if line["operation"] == name]
    assert own, lines
    for line in own:
        assert (line["who"], line["address"], line["via"]) == ("alice", "127.0.0.1", "api")
        assert (line["tenant"], line["outcome"]) == ("default", "done")
        assert line["status"] in (200, 201)
        assert line["subject"] or line["kind"] in ("history", "jobs")


async def _prepare(client: httpx.AsyncClient) -> str:
    """Jobs, a service and an execution that runs."""
    execution = await start(client, "j1")
    await client.post("/jobs/idle", json=definition())
    await put(client, status=201)
    await client.put("/services/billing/instances/i", json={"address": "http://127.0.0.1:9"})
    return execution


async def test_a_line_has_the_difference_of_an_update(client: httpx.AsyncClient) -> None:
    """Values of headers are masked, and those of named members; other values are as they are."""
    step = {
        "url": "http://target.test/run",
        "method": "POST",
        "headers": {"X-Tie": "blue"},
        "body": {"pin": 1},
    }
    await client.post("/jobs/j1", json=definition(request=[step]))
    changed = step | {"headers": {"X-Tie": "b", "X-New": "n"}, "body": {"pin": "two"}}
    await client.post("/jobs/j1/update", json=definition(jobName="better", request=[changed]))
    line = await _newest(client)
    assert (line["operation"], line["jobId"], line["status"]) == ("updateJob", "j1", 200)
    assert (line["fromRevision"], line["revision"], line["truncated"]) == (1, 2, False)
    assert line["difference"] == [
        {"pointer": "/jobName", "before": "a job", "after": "better"},
        {"pointer": "/request/0/headers/X-Tie", "before": "***", "after": "***"},
        {"pointer": "/request/0/headers/X-New", "before": None, "after": "***"},
        {"pointer": "/request/0/body/pin", "before": "***", "after": "***"},
    ]


async def test_a_pause_says_what_was_asked(client: httpx.AsyncClient) -> None:
    """In the query or in the body; a pause of a paused job changes nothing, and has no line."""
    await client.post("/jobs/j1", json=definition())
    await client.put("/jobs/j1?active=0&drain=true")
    await client.put("/jobs/j1?active=0")
    lines = (await client.get("/audit?operation=switchJob")).json()["data"]["items"]
    assert [line["given"] for line in lines] == [{"active": 0, "drain": True, "misfire": "skip"}]


async def test_what_was_refused_or_repeated_has_no_line(client: httpx.AsyncClient, world: World) -> None:
    """A turn that was refused, and one whose Idempotency-Key is known, change nothing."""
    again = {"Idempotency-Key": "once"}
    await client.post("/jobs/j1", json=definition(), headers=again)
    await client.post("/jobs/j1", json=definition(), headers=again)
    await client.post("/jobs/j1", json=definition(jobName="other"))
    await client.post("/jobs/none/trigger")
    await client.post("/queues/letters/pause", headers=again)
    await client.post("/queues/letters/pause", headers=again)
    assert [line["operation"] for line in world.audit.lines.values()] == ["createJob", "pauseQueue"]


async def test_a_change_by_request_is_asked_for_first(client: httpx.AsyncClient, world: World) -> None:
    """Where the audit cannot be written, nothing is done: 503; jobs can be paused all the same."""
    await client.post("/jobs/j1", json=definition())
    world.audit.fault = StoreUnavailable("the disk is full")
    answer = await client.post("/queues/letters/pause")
    assert answer.status_code == 503
    array = await client.post("/jobs", json=[{"jobId": "new", **definition()}])
    assert array.json()["data"]["items"][0]["problem"]["status"] == 503
    assert "new" not in world.catalogue.entries
    assert (await client.put("/jobs/j1?active=0")).status_code == 200
    world.audit.fault = None
    assert not (await client.get("/queues")).json()["data"]["items"]


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [(StoreUnavailable("it is away"), "refused"), (StoreUncertain("it does not say"), "unknown")],
)
async def test_a_line_says_what_became_of_it(
    client: httpx.AsyncClient, world: World, fault: Exception, outcome: str
) -> None:
    """Of a store that was away nothing was changed; of one that did not say nobody knows."""

    async def fail(*_: object) -> None:
        raise fault

    world.registry.pauses.pause = fail  # type: ignore[method-assign]
    assert (await client.post("/queues/letters/pause")).status_code == 503
    (line,) = world.audit.lines.values()
    assert (line["outcome"], line["status"], line["subject"]) == (outcome, 503, "letters")


async def test_a_declaration_that_has_no_room_is_refused_in_its_line(
    client: httpx.AsyncClient, world: World
) -> None:
    """As the answer says: nothing was changed."""

    async def fail(*_: object, **__: object) -> None:
        raise DeclarationsFull(size=3, others=100, most=100)

    world.registry.register = fail  # type: ignore[method-assign]
    answer = await client.put("/services/shop", json={"timers": []})
    assert (answer.status_code, pointers(answer)) == (413, [("/timers", "too_large")])
    (line,) = world.audit.lines.values()
    assert (line["outcome"], line["status"], line["subject"]) == ("refused", 413, "shop")


@each_row(
    ("method", "path", "owner"),
    [("PUT", "/services/shop?force=true", "reconcile"), ("POST", "/queues/letters/pause", "queues")],
)
async def test_what_fails_after_a_change_is_not_said_to_be_undone(method: str, path: str, owner: str) -> None:
    """The service is registered, the queue paused: `unknown` in the answer and in the line."""
    world = World()

    async def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable("the disk is full")

    at = getattr(world.deps.services, owner)
    setattr(at, {"reconcile": "apply", "queues": "figures"}[owner], fail)
    async with world.client() as client:
        answer = await client.request(method, path, json={})
    assert (answer.status_code, pointers(answer)) == (503, [("", "unknown")])
    (line,) = world.audit.lines.values()
    assert (line["outcome"], line["status"]) == ("unknown", 503)


async def test_an_array_has_one_line_with_its_jobs(client: httpx.AsyncClient) -> None:
    """Those that it created; an update of one is a turn of its own, with its difference."""
    await client.post("/jobs/known", json=definition())
    items = [{"jobId": name, **definition(jobName="new")} for name in ("a", "known", "b")]
    await client.post("/jobs?onExisting=update", json=items)
    update, array = (await client.get("/audit?limit=2")).json()["data"]["items"]
    assert (array["kind"], array["items"], array["given"]) == ("jobs", ["a", "b"], {"onExisting": "update"})
    assert (update["jobId"], update["operation"]) == ("known", "createJobs")
    await client.post("/jobs", json=[{"jobId": "a", **definition(jobName="new")}])
    assert len((await client.get("/audit?operation=createJobs")).json()["data"]["items"]) == 2


async def test_a_bulk_request_has_its_own_line_and_those_of_its_jobs(client: httpx.AsyncClient) -> None:
    """A dry run has none."""
    for name in ("a", "b"):
        await client.post(f"/jobs/{name}", json=definition())
    body = {"action": "pause", "select": {"filter": {}}}
    await client.post("/bulk/jobs", json=body | {"dryRun": True})
    await client.post("/bulk/jobs", json=body)
    lines = (await client.get("/audit?operation=changeManyJobs")).json()["data"]["items"]
    assert sorted(line["jobId"] or "" for line in lines) == ["", "a", "b"]
    (whole,) = (line for line in lines if line["kind"] == "operation")
    assert whole["given"] == {"action": "pause", "filter": {}}


async def test_nobody_is_called_as_the_service_itself() -> None:
    """No key can be called so, and a user of the machine or of a proxy who is, is marked."""
    clock = ManualClock(wall=START)
    ring = KeyRing(table=MemoryKeys(), clock=clock)
    world = World(user=" System", key_ring=ring, clock=clock)
    async with world.client() as client:
        await client.post("/queues/letters/pause")
        refused = await client.post("/keys", json={"name": "SYSTEM", "role": "admin"})
    assert (refused.status_code, pointers(refused)) == (422, [("/name", "reserved")])
    whos = {line["who"] for line in world.audit.lines.values()}
    assert whos == {" System (a caller)"}


async def test_a_registration_that_changes_nothing_has_no_line(client: httpx.AsyncClient) -> None:
    """Services register again and again; what they declare is done by the system, in their name."""
    await put(client, declared("daily"), status=201)
    await put(client, declared("daily"))
    await put(client, declared("daily"), address="http://127.0.0.1:9")
    lines = (await client.get("/audit?service=billing")).json()["data"]["items"]
    assert [(line["operation"], line["who"], line["via"]) for line in lines] == [
        ("putService", "alice", "api"),
        ("check-timers", "system", "system"),
        ("putService", "alice", "api"),
    ]
    address = lines[0]["difference"]
    assert address == [{"pointer": "/address", "before": None, "after": "http://127.0.0.1:9"}]


async def test_who_triggered_and_cancelled_is_with_the_execution(client: httpx.AsyncClient) -> None:
    """In order, with the name of each."""
    execution = await start(client)
    await client.post(f"/executions/{execution}/cancel", json={"reason": "wrong day"})
    shown = (await client.get(f"/executions/{execution}")).json()["data"]["acts"]
    assert [(one["operation"], one["who"], one["via"]) for one in shown] == [
        ("triggerJob", "alice", "api"),
        ("cancelExecution", "alice", "api"),
    ]
    (cancel,) = (await client.get("/audit?operation=cancelExecution")).json()["data"]["items"]
    assert (cancel["executionId"], cancel["given"]) == (execution, {"reason": "wrong day"})


async def test_signing_in_is_written_down() -> None:
    """With the address, and with the name of the key where it was the right one; never with the key."""
    world = World(admin_key=KEY)
    marked = {"X-Punctual-Console": "1", "Origin": "https://jobs.example"}
    async with world.client("192.0.2.1", base_url="https://jobs.example", headers=marked) as client:
        await client.post("/session", json={"key": "not-the-right-one"})
        world.audit.fault = StoreUnavailable("away")
        assert (await client.post("/session", json={"key": KEY})).status_code == 200
        world.audit.fault = None
        await client.post("/session", json={"key": KEY})
    refused, done = world.audit.lines.values()
    assert (refused["who"], refused["outcome"], refused["status"]) == ("", "refused", 401)
    assert (done["who"], done["outcome"], done["address"]) == ("admin", "done", "192.0.2.1")
    assert [event for event, _ in world.logged] == ["audit_not_written"]
    assert KEY.encode() not in msgspec.json.encode([str(refused), str(done)])


async def test_another_tenant_s_lines_are_not_listed(client: httpx.AsyncClient, world: World) -> None:
    """Nor by an id of an execution."""
    entry = AuditEntry(
        entry_id="1",
        tenant="acme",
        at=1,
        act=Act("pauseQueue", "eve"),
        kind=ActKind.QUEUE,
        subject="letters",
        outcome=ActOutcome.DONE,
    )
    await world.audit.put(entry)
    assert (await client.get("/audit")).json()["data"]["items"] == []


async def test_filters_are_checked(client: httpx.AsyncClient) -> None:
    """As those of other lists."""
    assert pointers(await client.get("/audit?from=yesterday")) == [("/from", "invalid")]
    assert pointers(await client.get("/audit?name=x"))[0][0] == "/name"


async def _newest(client: httpx.AsyncClient) -> Any:
    return (await client.get("/audit?limit=1")).json()["data"]["items"][0]


async def test_who_releases_an_execution_is_with_it() -> None:
    """One that a debug switch holds."""
    world = World(surroundings=Surroundings(hold_triggered=True))
    async with world.client() as client:
        execution = await start(client)
        assert (await client.post(f"/executions/{execution}/release")).status_code == 200
        (line,) = (await client.get("/audit?operation=releaseExecution")).json()["data"]["items"]
    assert (line["executionId"], line["kind"], line["jobId"]) == (execution, "execution", "j1")


async def test_no_value_of_a_secret_is_in_a_line() -> None:
    """Where somebody wrote it into a definition instead of its name, or into the reason of a cancellation."""
    masks = SecretMasks(sources=(), environments={"default": {"API_TOKEN": CANARY}})
    world = World(secret_masks=masks)
    async with world.client() as client:
        execution = await start(client)
        await client.post("/jobs/j1/update", json=definition(jobDescription=f"call it with {CANARY}"))
        await client.post(f"/executions/{execution}/cancel", json={"reason": CANARY})
        shown = (await client.get("/audit")).text
    assert "cancelExecution" in shown
    assert "call it with ***" in shown
    assert CANARY not in shown + str(world.audit.lines)
    # No begin of a secret is in a line
    masks = SecretMasks(sources=(), environments={"default": {"API_TOKEN": CANARY}})
    world, long = World(secret_masks=masks), "x" * 505 + CANARY + "y" * 100
    async with world.client() as client:
        await client.post("/jobs/j1", json=definition())
        changed = definition(jobDescription=long)
        assert (await client.post("/jobs/j1/update", json=changed)).status_code == 200
        await put(client, status=201, tags=[*(letter * 121 for letter in "abcd"), "x" * 8 + CANARY])
        shown = (await client.get("/audit")).text
    assert "x" * 505 + "*" in shown
    assert "x" * 8 + "*" in shown.replace("x" * 505, "")
    assert CANARY[:3] not in shown + str(world.audit.lines)


async def test_a_job_that_its_target_does_not_know_is_paused_by_the_system(
    client: httpx.AsyncClient, world: World
) -> None:
    """Who paused it is nobody, and the line says so."""
    await start(client)
    gone = Answer(410, (("x-job-state", "gone"),))
    (call,) = (one for one in world.effects if isinstance(one, Call))
    await world.deliver("j1", Command(CallEnded(call.token, gone)))
    line = await _newest(client)
    assert (line["operation"], line["who"], line["via"]) == ("pauseOfGone", "system", "system")
    assert (line["jobId"], line["outcome"]) == ("j1", "done")


def test_each_act_is_an_operation_or_an_own_act_and_is_told_of() -> None:
    """So a filter by it is taken: there are three places that make acts, and none has a name of its own."""
    audited = {one.name for one in OPERATIONS if one.is_audited}
    makers, changes = set(), set()
    for path in sorted((ROOT / "scheduler_service").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for call in ast.walk(ast.parse(text)) if "Act(" in text or "_with_ring(" in text else ():
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
                continue
            if call.func.id == "Act":
                makers.add((path.name, ast.unparse(call.args[0])))
            elif path.name == "database_keys.py" and call.func.id == "_with_ring" and len(call.args) > 2:
                changes.add(ast.literal_eval(call.args[2]))
    assert makers == {
        ("audit_acts.py", "operation.value"),  # an OwnAct
        ("audit_writing.py", "request.operation"),
        ("audited_commands.py", "operation"),  # an OwnAct, or one of `changes`
    }
    assert changes == {"makeKey", "revokeKey", "rotateKey"} <= audited
    parameters = next(one.query for one in OPERATIONS if one.name == "listAudit")
    (described,) = (one.description for one in parameters if one.name == "operation")
    manual = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for act in OwnAct:
        assert f"`{act}`" in described
        assert f"`{act}`" in manual


async def test_an_operation_that_no_change_is_made_by_is_refused(client: httpx.AsyncClient) -> None:
    """Rather than an empty list; those of the system and of commands are known too."""
    for name in (*(one.name for one in OPERATIONS if one.is_audited), *OwnAct):
        assert (await client.get(f"/audit?operation={name}")).status_code == 200, name
    for name in ("pauseJob", "listJobs"):
        refused = await client.get(f"/audit?operation={name}")
        assert (refused.status_code, pointers(refused)) == (422, [("/operation", "choice")])
        assert "known are backfillJob, cancelExecution, " in refused.json()["detail"]
        assert ", switchJob, " in refused.json()["detail"]
