"""Settings and variables that change between two starts: each job stays one, and answers each command.

The settings are read from their model, so that a new one is swept as well (SPEC section 2).
"""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError

from scheduler_service.domain.turn_events import Created
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.settings import Settings
from tests.wire.service import World, data_of, definition, running

VARIABLES = {"SHOP": "shop.test", "BASE": "service://jobswork", "QUEUE": "queue://work", "TOKEN": "a"}
FILED = {"FILED": "b"}
ELSEWHERE = frozenset({
    "server.port", "server.workers", "server.key", "server.trusted_user_header", "store.url", "store.data",
    "contexts.url", "database.url", "egress.client_certificates", "services.static", "signing.",
    "traces.exporter", "traces.endpoint", "traces.certificate", "traces.client_certificate",
    "traces.client_key", "env", "env_file", "alerts",
    "limits.tenant_jobs", "limits.tenant_executions_per_minute", "limits.tenant_waiting",
})  # fmt: skip
"""Where a service listens and stores, what it calls with: other folders, other processes, other tests; and
what tenants may have in all: a trigger beyond it is refused."""
OTHERS: tuple[object, ...] = (
    "http://else.test", "else", "UTC", "203.0.113.1", ("203.0.113.1",), ("http://else.test",), ("else",),
    {"else": "x"}, {"else": ("http://else.test",)}, ({"errorEquals": "500"},), {"failed": 1}, 1, 0, None,
    (), {},
)  # fmt: skip
CALL = {"url": "http://${SHOP}/run"}
HERE = {"url": "${BASE}/run"}
NOTE = {"url": "${BASE}/note", "headers": {"X-Token": "${TOKEN}"}, "body": "${FILED}"}
LATER = {"timer": {"startAt": "2026-03-01 09:00:00"}}
JOBS: dict[str, dict[str, Any]] = {
    "called": {"request": [CALL], "qos": 1},
    "opening": {"request": [{"url": "${BASE}"}]},
    "chained": {"request": [{**HERE, "respEnvName": "a"}, {"url": "http://${SHOP}/${a.id}"}]},
    "slow": {"request": [{**HERE, "timeoutSeconds": 50}], "timeoutSeconds": 55},
    "direct": {"request": [{"url": "http://127.0.0.1:9/run"}], "retry": [{"errorEquals": "*"}], "qos": 1},
    "daily": {"timer": {"period": "0 0 9 * * ?"}, "request": [HERE]},
    "paris": {"timer": {"period": "@daily", "timezone": "Europe/Paris"}, "request": [HERE]},
    "steady": {"timer": {"dueTime": "2026-02-01 09:00:00", "period": "P1M"}, "request": [CALL]},
    "once": {**LATER, "request": [CALL]},
    "ending": {"timer": {"period": "5m", "endAt": "2026-03-01 09:00:00"}, "request": [CALL]},
    "checked": {"async": True, "checkUrl": "http://${SHOP}/check", "request": [HERE], "qos": 1},
    "reported": {"async": True, "request": [{**HERE, "body": "${schedulingFeedbackUrl}"}], "qos": 1},
    "cancelled": {"cancelUrl": CALL, "async": True, "request": [HERE], "qos": 1, "timeoutSeconds": 500},
    "noted": {"request": [HERE], "notification": [NOTE, CALL], "qos": 1},
    "queued": {"request": [{"url": "${QUEUE}", "body": "${TOKEN}"}], "qos": 1},
    "shared": {"request": [{"url": "queue://${SHOP}", "parallelism": 2}], "qos": 1},
    "serving": {"request": [{"url": "${BASE}/run", "route": "round_robin"}]},
    "gated": {"request": [{"url": "service://{serviceGateway}/shop/run"}]},
    "child": {"parentJob": "called", "parentJobExecution": 1, "request": [CALL]},
    "asked": {"paramsSchema": {"type": "object"}, "request": [HERE], "historyDetail": "none"},
    "manual": {"startPolicy": "manual", "timer": {"period": "@hourly"}, "request": [CALL]},
    "disabled": {"disabled": True, "timer": {"period": "@hourly"}, "request": [CALL]},
}
DECLARED = {"jobId": "declared", **definition(request=[CALL])}
SYSTEM = ("alert.ops", "check-timers")
ALERT = {"name": "ops", "on": ["finalFailed"], "url": "${BASE}/hook", "body": "${TOKEN}"}
READS = ("", "/next", "/firings", "/revisions", "/executions", "/retry-plan?error=500")
LISTS = (
    "/jobs?timers=true&definitions=true", "/jobs?system=true", "/executions", "/upcoming", "/stats",
    "/deliveries", "/alerts", "/queues", "/services", "/services/shop/drift", "/settings",
)  # fmt: skip


@pytest.fixture(scope="module")
def first_life(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a service that had a job of every kind, most of them with an execution that is open."""
    folder = tmp_path_factory.mktemp("first")
    asyncio.run(_live(folder))
    return folder


async def _live(folder: Path) -> None:
    async with running(**told(folder)) as world:
        data_of(await world.client.put("/services/shop", json={"timers": [DECLARED]}), 201)
        for job_id, members in JOBS.items():
            answer = await world.client.post(f"/jobs/{job_id}", json=definition(**members))
            assert answer.status_code == 201, (job_id, answer.text)
            await world.client.post(f"/jobs/{job_id}/trigger", json={})
            await world.settle()
        tried = {"definition": definition(request=[CALL])}
        data_of(await world.client.post("/definitions/try", json=tried), 201)
        await world.settle()


def told(folder: Path, **changed: Any) -> dict[str, Any]:
    """The settings of the first life over `folder`; `changed` groups win."""
    file = folder.parent / "env.sh"
    file.write_text("".join(f"{name}={value}\n" for name, value in FILED.items()), encoding="utf-8")
    given = {
        "store": {"data": str(folder), "durability": "process"},
        "env": {"default": VARIABLES},
        "env_file": str(file),
        "alerts": [ALERT],
        "egress": {"allow": ["127.0.0.1"], "follow": ["http://shop.test"]},
        "services": {"gateway": "http://gate.test"},
        "defaults": {"timezone": "Asia/Shanghai"},
    }
    return given | changed


def changes() -> Iterator[Any]:
    """All groups of settings at once, all variables and alerts taken away; for `--long` each by itself."""
    told_there = Settings.model_validate(told(Path("first")))
    groups: dict[str, Any] = {}
    for name in Settings.model_fields:
        group = getattr(told_there, name)
        if not isinstance(group, BaseModel) or f"{name}." in ELSEWHERE:
            continue
        changed = {
            member: _another(group, name, member)
            for member in type(group).model_fields
            if f"{name}.{member}" not in ELSEWHERE
        }
        groups[name] = given_of(name, changed)
        yield pytest.param({name: groups[name]}, id=name, marks=pytest.mark.long)
    yield pytest.param(groups, id="all groups")
    for variable in VARIABLES:
        rest = {name: value for name, value in VARIABLES.items() if name != variable}
        yield pytest.param({"env": {"default": rest}}, id=f"without {variable}", marks=pytest.mark.long)
    moved = dict.fromkeys(VARIABLES, "http://127.0.0.1:9")
    yield pytest.param({"env": {"default": moved}}, id="variables of another kind", marks=pytest.mark.long)
    yield pytest.param({"env_file": None}, id="without the file of variables", marks=pytest.mark.long)
    bare = {"env": {}, "env_file": None}
    yield pytest.param(bare | {"alerts": []}, id="without variables and alerts", marks=pytest.mark.long)
    yield pytest.param(bare | {"egress": None}, id="restored elsewhere", marks=pytest.mark.long)
    elsewhere = bare | {"egress": None, "alerts": []}
    yield pytest.param(elsewhere, id="restored elsewhere without alerts", marks=pytest.mark.long)


def given_of(name: str, changed: dict[str, Any]) -> dict[str, Any]:
    """The group as it is given; where jobs are stored stays as it was."""
    return changed if name != "store" else {"store": changed}


def _another(group: BaseModel, name: str, member: str) -> object:
    """Another value that the setting may have, a number rather a smaller one."""
    now = getattr(group, member)
    field = type(group).model_fields[member]
    offered: list[object] = [*OTHERS, *_choices(field.annotation)]
    if isinstance(now, bool):
        offered = [not now]
    elif isinstance(now, int | float):
        offered = [type(now)(now / 2), now + 1, 0.5]
    for value in offered:
        try:
            made = type(group).model_validate({**group.model_dump(), member: value})
        except ValidationError:
            continue
        if getattr(made, member) != now:
            return value
    raise AssertionError(f"give OTHERS a value that the setting {name}.{member} may have, besides {now!r}")


def _choices(annotation: object) -> Iterator[object]:
    for one in get_args(annotation):
        if get_origin(one) is None and isinstance(one, str | int):
            yield one
        else:
            yield from _choices(one)


@pytest.mark.parametrize("changed", [*changes()])
async def test_each_job_answers_each_command(
    changed: dict[str, Any], first_life: Path, tmp_path: Path
) -> None:
    """The service starts; each job answers reads and commands, runs after an update, and can be destroyed."""
    folder = tmp_path / "second"
    shutil.copytree(first_life, folder)
    given = told(folder, **{name: value for name, value in changed.items() if name != "store"})
    given["store"] |= changed.get("store", {}).get("store", {})
    async with running(**given) as world:
        await world.settle()
        for path in LISTS:
            assert (await world.client.get(path)).status_code in (200, 404), path
        for job_id in (*JOBS, "declared", *SYSTEM):
            await _command(world, job_id)
        for job_id in (*JOBS, "declared"):
            await _heal(world, job_id)
        failed = [
            line for line in world.log if line[0] in ("turn_failed", "job_not_woken", "alarm_not_taken")
        ]
    assert failed == []


async def test_what_follows_from_settings_is_computed_anew(tmp_path: Path) -> None:
    """The next firing, what is planned and the alarm, where the default zone changed between two starts."""
    store = {"data": str(tmp_path), "durability": "process"}
    daily = {"period": "0 0 9 * * ?"}
    local = {"dueTime": "2026-01-01 09:00:00", "period": "0s"}
    async with running(store=store) as world:
        for job_id, timer in (("daily", daily), ("local", local), ("paused", daily)):
            data_of(await world.client.post(f"/jobs/{job_id}", json=definition(timer=timer)), 201)
        data_of(await world.client.put("/jobs/paused?active=0"))
    async with running(store=store, defaults={"timezone": "Asia/Shanghai"}) as world:
        moment = "2026-01-01T01:00:00.000Z"
        for job_id in ("daily", "local"):
            assert data_of(await world.client.get(f"/jobs/{job_id}"))["nextFireTime"] == moment
        upcoming = data_of(await world.client.get("/upcoming?to=2026-01-01T02:00:00Z"))["items"]
        assert {(one["jobId"], one["plannedAt"]) for one in upcoming} == {
            ("daily", moment),
            ("local", moment),
        }
        world.clock.advance(3_590_000)
        await world.advance(70)
        for job_id in ("daily", "local"):
            (firing,) = data_of(await world.client.get(f"/jobs/{job_id}/firings"))["items"]
            assert (firing["plannedAt"], firing["outcome"]) == (moment, "fired")
        noted = data_of(await world.client.get("/jobs/check-timers"))
    async with running(store=store, defaults={"timezone": "Asia/Shanghai"}) as world:
        again = data_of(await world.client.get("/jobs/check-timers"))
    assert (again["labels"], again["revision"]) == (noted["labels"], noted["revision"])


async def test_jobs_that_cannot_run_are_named_by_each_start(tmp_path: Path) -> None:
    """One line of the log for each, until it is mended, or its variable is back."""
    store = {"data": str(tmp_path), "durability": "process"}
    env = {"default": {"SHOP": "shop.test"}}
    async with running(store=store, env=env) as world:
        for job_id, step in (("shop", CALL), ("well", {"url": "service://jobswork/run"})):
            data_of(await world.client.post(f"/jobs/{job_id}", json=definition(request=[step])), 201)
        near = definition(request=[{"url": "http://127.0.0.1:9/run"}])
        data_of(await world.client.post("/jobs/near", json=near), 201)
        large = definition(request=[CALL | {"body": "x" * 70_000}])
        data_of(await world.client.post("/jobs/large", json=large), 201)
    elsewhere = {"deny": ["127.0.0.1"]}
    for given, named in (
        ({}, ["large", "shop"]),
        ({}, ["large", "shop"]),
        ({"env": env, "egress": elsewhere}, ["near"]),
        ({"env": env}, []),
    ):
        async with running(store=store, **given) as world:
            lines = [keys for event, keys in world.log if event == "job_blocked"]
            counts = data_of(await world.client.get("/counts/jobs"))
            listed = data_of(await world.client.get("/jobs"))["items"]
            read = [data_of(await world.client.get(f"/jobs/{one['jobId']}")) for one in listed]
        assert [line["jobId"] for line in lines] == named
        for shown in (listed, read):
            assert sorted(one["jobId"] for one in shown if one["cannotRun"]) == named
        assert [one["jobId"] for one in counts["cannotRunJobs"]] == named
        assert counts["cannotRun"] == len(named)


UNREAD: dict[str, dict[str, Any]] = {
    "coloured": {"colour": "red"},
    "odd": {"request": [HERE, {"url": "http://127.0.0.1:9", "speed": 7}]},
    "nowhere": {"request": [], "maxRetries": -1},
    "martian": {"timer": {"period": "@hourly", "timezone": "Mars/Base"}, "request": [HERE]},
    "thirtieth": {"timer": {"period": "0 0 0 32 * ?"}, "request": [HERE]},
    "unchecked": {"async": True, "checkUrl": {"url": "http://a.test", "method": "PUT"}, "request": [HERE]},
}


async def test_what_a_newer_program_no_longer_reads_answers_each_command(tmp_path: Path) -> None:
    """What an earlier program stored is a job, whatever this one would say of it (SPEC section 2)."""
    given = told(tmp_path / "folder")
    async with running(**given) as world:
        rooms = world.service
        for job_id, members in UNREAD.items():
            text = json.dumps({"jobId": job_id, **definition(**members)}).encode()
            made = Definition(text, await rooms.compiler.stored(text, "default"))
            assert made.program.problems, job_id
            await rooms.host(job_id, Command(Created(uid="", key=b""), made))
    async with running(**given) as world:
        await world.settle()
        shown = {one: data_of(await world.client.get(f"/jobs/{one}")) for one in UNREAD}
        assert {one["state"] for one in shown.values()} == {"active"}
        assert (shown["martian"]["kind"], shown["martian"]["nextFireTime"]) == ("cron", None)
        started = data_of(await world.client.post("/jobs/odd/trigger", json={}))
        ended = await world.ended(started["executionId"])
        assert (ended["state"], ended["error"], len(world.target.at("/run"))) == ("terminated", "template", 1)
        assert "unknown field 'speed'" in ended["attempts"][-1]["message"]
        world.clock.advance(3_660_000)
        await world.settle()
        for job_id in UNREAD:
            await _command(world, job_id)
            await _heal(world, job_id)
        assert [line for line in world.log if line[0] == "turn_failed"] == []


async def _command(world: World, job_id: str) -> None:
    for read in READS:
        await _ask(world, "GET", f"/jobs/{job_id}{read}")
    own = (409,) if job_id in SYSTEM else (200,)
    await _ask(world, "PUT", f"/jobs/{job_id}?disabled=true", own)
    if job_id not in SYSTEM:
        await _ask(world, "POST", f"/jobs/{job_id}/trigger", (409,))
    await _ask(world, "PUT", f"/jobs/{job_id}?disabled=false", own)
    shown = data_of(await world.client.get(f"/jobs/{job_id}/executions"))["items"]
    for one in shown[:1]:
        await _ask(world, "GET", f"/executions/{one['executionId']}/log")
        await _ask(world, "POST", f"/executions/{one['executionId']}/cancel", (200, 409))
        await world.settle()
        await _ask(world, "POST", f"/executions/{one['executionId']}/replay")
        await world.settle()
    await _ask(world, "PUT", f"/jobs/{job_id}?active=0")
    await _ask(world, "POST", f"/jobs/{job_id}/trigger")
    await _ask(world, "PUT", f"/jobs/{job_id}?active=1")
    await world.settle()


async def _heal(world: World, job_id: str) -> None:
    await _ask(world, "PUT", f"/jobs/{job_id}?active=0")  # which ends what runs
    answer = await world.client.post(f"/jobs/{job_id}/update", json=definition(active=1))
    assert answer.status_code == 200, (job_id, answer.text)
    await _ask(world, "POST", f"/jobs/{job_id}/trigger")
    await world.settle()
    assert data_of(await world.client.get(f"/jobs/{job_id}"))["latestExecution"]["state"] in (
        "succeeded",
        "enqueued",
    ), job_id
    await _ask(world, "DELETE", f"/jobs/{job_id}")
    await _ask(world, "GET", f"/jobs/{job_id}", (404,))


async def _ask(world: World, method: str, path: str, statuses: tuple[int, ...] = (200,)) -> None:
    answer = await world.client.request(method, path)
    assert answer.status_code in statuses, (
        method,
        path,
        answer.text,
        json.dumps(world.log[-3:], default=str),
    )
