"""Alerts of a running service: what is sent, how often, and what `GET /alerts` shows (section 14)."""

import re
import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from scheduler_service.domain.public_events import Occurrence
from scheduler_service.system_jobs.system_job_definitions import NAMES
from tests.rows import each_row
from tests.unit.docs.pages import read
from tests.wire.chats import DingTalk, Feishu, MakeChat, Slack, TeamsWorkflow, WeCom
from tests.wire.service import World, data_of, definition, running
from tests.wire.target import HELD, Seen

HOOK = "service://jobswork/hook"


@asynccontextmanager
async def alerting(*alerts: dict[str, Any], **settings: Any) -> AsyncIterator[World]:
    """A service with these alerts, whose messages go to the target at `/hook`."""
    given = [{"url": HOOK, **alert} for alert in alerts]
    async with running(alerts=given, **settings) as world:
        yield world


async def create(world: World, job_id: str, **members: Any) -> None:
    """A job that calls the target at `/run` when it is triggered."""
    request = [{"url": f"service://jobswork/run/{job_id}"}]
    posted = definition(jobName=job_id, **{"request": request, **members})
    data_of(await world.client.post(f"/jobs/{job_id}", json=posted), 201)


async def run(world: World, job_id: str) -> None:
    """One execution, to its end."""
    started = await world.client.post(f"/jobs/{job_id}/trigger", json={})
    await world.ended(data_of(started)["executionId"])


async def told(
    world: World, holds: Callable[[list[Seen]], bool], *, seconds: int = 60
) -> list[dict[str, Any]]:
    """The messages, once `holds` is true of them; the clock runs on meanwhile."""
    for _ in range(seconds):
        if holds(world.target.at("/hook")):
            break
        await world.service.jobs.flush()  # it is written at times of its own
        await world.advance(1)
    found = world.target.at("/hook")
    assert holds(found), (found, world.log)
    return [one.json for one in found]


def many(count: int) -> Callable[[list[Seen]], bool]:
    """At least so many."""
    return lambda found: len(found) >= count


async def fail(world: World, job_id: str = "nightly") -> None:
    """A new job, whose execution fails."""
    world.target.always("/run", 500)
    await create(world, job_id)
    await run(world, job_id)


async def fail_and_tell(world: World, job_id: str = "nightly") -> Seen:
    """The one message of it."""
    await fail(world, job_id)
    await told(world, many(1))
    (seen,) = world.target.at("/hook")
    return seen


async def test_a_failed_execution_is_told() -> None:
    """Within seconds, with its job, execution and error, and one sentence for a chat."""
    async with alerting({"name": "ops", "on": ["finalFailed"]}) as world:
        message = (await fail_and_tell(world)).json
        assert (message["alert"], message["kind"], message["jobId"]) == ("ops", "finalFailed", "nightly")
        assert (message["error"], message["count"]) == ("500", 1)
        assert message["text"].startswith("[ops] The job nightly failed in its execution 1 (500")
        shown = data_of(await world.client.get(f"/executions/{message['executionId']}"))
        assert shown["state"] == "terminated"


async def test_a_job_fails_three_times_and_recovers() -> None:
    """`failing` is told once, `recovered` once, with what has recovered and since when."""
    async with alerting({"on": ["failing"], "minIntervalSeconds": 0}) as world:
        events: list[Occurrence] = []
        world.service.telemetry.occurrences.subscribe(events.append)
        world.target.always("/run", 500)
        await create(world, "nightly")
        for _ in range(2):
            await run(world, "nightly")
        await world.advance(5)
        assert not world.target.at("/hook")
        for _ in range(2):
            await run(world, "nightly")
            await world.advance(3)
        (message,) = await told(world, many(1))
        assert (message["kind"], message["subject"]) == ("failing", "nightly")
        assert "failed 3 times in a row" in message["text"]
        (line,) = data_of(await world.client.get("/alerts"))["open"]
        assert (line["kind"], line["subject"], line["since"]) == ("failing", "nightly", message["since"])
        world.target.always("/run", 200)
        await run(world, "nightly")
        message = (await told(world, many(2)))[1]
        assert (message["kind"], message["of"], message["subject"]) == ("recovered", "failing", "nightly")
        assert message["since"] == line["since"]
        assert data_of(await world.client.get("/alerts"))["openCount"] == 0
        found = [one.kind.value for one in events if one.kind.value in ("failing", "recovered")]
        assert found == ["failing", "recovered"]


async def test_jobs_of_other_tenants_are_for_admins() -> None:
    """The alerts are the operator's; whoever only reads in `default` sees what is of it, or of no tenant."""
    key = "the-key-of-the-settings"
    async with alerting({"on": ["failing"], "minIntervalSeconds": 0}, server={"key": key}) as world:
        world.target.always("/run", 500)
        admin = {"Authorization": f"Bearer {key}"}
        keys = {}
        for role, tenant in (("viewer", "default"), ("editor", "acme")):
            wanted = {"name": role, "role": role, "tenant": tenant}
            made = data_of(await world.client.post("/keys", json=wanted, headers=admin), 201)
            keys[role] = {"Authorization": f"Bearer {made['key']}"}
        for own in (admin, keys["editor"]):
            world.client.headers.update(own)
            await create(world, "nightly")
            for _ in range(3):
                await run(world, "nightly")
        await told(world, many(2))
        shown = [data_of(await world.client.get("/alerts", headers=of)) for of in (admin, keys["viewer"])]
        assert [(len(one["open"]), one["openCount"]) for one in shown] == [(2, 2), (1, 1)]
        assert (await world.client.get("/alerts")).status_code == 404


async def test_labels_and_ids_choose_jobs() -> None:
    """`label` is compared with the labels of a job, `jobId` with its id."""
    of_a_team = {"name": "team", "on": ["finalFailed"], "label": "team:billing"}
    of_a_job = {"name": "one", "on": ["finalFailed"], "jobId": "other"}
    async with alerting(of_a_team, of_a_job) as world:
        world.target.always("/run", 500)
        await create(world, "bill", labels={"team": "billing"})
        await create(world, "other", labels={"team": "ops"})
        await create(world, "third")
        for job_id in ("bill", "other", "third"):
            await run(world, job_id)
        await told(world, many(2))
        await world.advance(15)
        messages = [one.json for one in world.target.at("/hook")]
        assert sorted((one["alert"], one["jobId"]) for one in messages) == [
            ("one", "other"),
            ("team", "bill"),
        ]


async def test_a_firing_that_waits_is_overdue_while_it_waits() -> None:
    """Not only when it begins at last; then it has recovered."""
    async with alerting({"on": ["overdue"], "overdueSeconds": 5, "minIntervalSeconds": 0}) as world:
        world.target.answers("/run", HELD)
        timer = {"dueTime": "1s", "period": "R2/PT3S"}
        await create(world, "slow", timer=timer, overlapPolicy="queue", timeoutSeconds=1_000)
        (message,) = await told(world, many(1))
        assert (message["kind"], message["subject"], message["latenessMs"]) == ("overdue", "slow", None)
        world.target.release()
        message = (await told(world, many(2)))[1]
        assert (message["kind"], message["of"]) == ("recovered", "overdue")


async def test_a_notification_that_is_given_up_is_told() -> None:
    """Once, however often the outbox tries it again; the messages of alerts are no subject of alerts."""
    async with alerting(
        {"on": ["undeliverable"], "minIntervalSeconds": 0},
        {"name": "dead", "on": ["undeliverable"], "url": "service://jobswork/dead"},
        notification={"retries": 1, "interval_seconds": 1, "outbox_seconds": 5},
    ) as world:
        world.target.always("/told", 503)
        world.target.always("/dead", 503)
        entry = {"url": "service://jobswork/told", "stateEquals": "finalSucceed"}
        await create(world, "nightly", qos=1, notification=[entry])
        await run(world, "nightly")
        (message,) = await told(world, many(1))
        assert (message["kind"], message["jobId"]) == ("undeliverable", "nightly")
        await world.advance(30)
        assert len(world.target.at("/told")) > 3
        assert len(world.target.at("/hook")) == 1
        states = data_of(await world.client.get("/deliveries?jobId=alert.dead"))["items"]
        assert [one["state"] for one in states] == ["outbox"]
        answer = await world.client.post(f"/deliveries/{states[0]['deliveryId']}/dismiss", json={})
        assert answer.status_code == 200


async def test_a_lost_instance_is_told_and_that_it_is_back() -> None:
    """By its service and id; it is said once, however long it is away."""
    async with alerting({"on": ["instanceLost"], "minIntervalSeconds": 0}) as world:
        instance = "/services/billing/instances/b-1"
        registration = {"address": world.target.url}
        assert (await world.client.put(instance, json=registration)).is_success
        (message,) = await told(world, many(1))
        assert (message["kind"], message["subject"]) == ("instanceLost", "billing/b-1")
        assert (await world.client.put(instance, json=registration)).is_success
        message = (await told(world, many(2)))[1]
        assert (message["kind"], message["of"]) == ("recovered", "instanceLost")


async def test_an_instance_of_any_tenant_is_told() -> None:
    """By its tenant, too; that another tenant has one of this name online is not its end."""
    alert = {"on": ["instanceLost"], "minIntervalSeconds": 0}
    opened = {"server": {"key": "the-key-of-the-settings"}, "egress": {"allow": ["127.0.0.0/8"]}}
    async with alerting(alert, **opened) as world:
        admin = world.caller(headers={"Authorization": "Bearer the-key-of-the-settings"})
        wanted = {"name": "ann", "role": "editor", "service": "billing", "tenant": "acme"}
        key = data_of(await admin.post("/keys", json=wanted), 201)["key"]
        acme = world.caller(headers={"Authorization": f"Bearer {key}"})
        instance, registration = "/services/billing/instances/b-1", {"address": world.target.url}
        data_of(await acme.put(instance, json=registration), 201)
        (message,) = await told(world, many(1))
        assert (message["kind"], message["subject"]) == ("instanceLost", "acme|billing/b-1")
        assert "The instance acme|billing/b-1 is lost" in message["text"]
        data_of(await admin.put(instance, json=registration), 201)
        await world.advance(5)
        assert len(world.target.at("/hook")) == 1
        assert (await acme.put(instance, json=registration)).is_success
        message = (await told(world, lambda seen: any(one.json["of"] != one.json["kind"] for one in seen)))[
            -1
        ]
        assert (message["kind"], message["subject"]) == ("recovered", "acme|billing/b-1")


async def test_an_alert_has_a_body_of_its_own_and_hides_its_headers() -> None:
    """Templates are those of notifications; a header's value, a query and a hook's path are sent alone."""
    path = "2c96f3b8d1e04a57"
    alert = {
        "name": "chat",
        "on": ["finalFailed"],
        "url": f"{HOOK}?key=a-secret&to=${{trigger.jobId}}",
        "headers": {"Authorization": "Bearer ${TOKEN}", "X-Plain": "plain-secret"},
        "body": {"text": "${trigger.text}", "count": "${trigger.count}|json"},
    }
    hook = {"name": "hook", "on": ["finalFailed"], "jobId": "weekly", "url": f"{HOOK}/{path}"}
    async with alerting(alert, hook, env={"default": {"TOKEN": "s3cret"}}) as world:
        seen = await fail_and_tell(world)
        assert seen.headers["authorization"] == "Bearer s3cret"
        assert (sorted(seen.json), seen.json["count"]) == (["count", "text"], 1)
        assert seen.query == {"key": "a-secret", "to": "nightly"}
        shown = data_of(await world.client.get("/jobs/alert.chat"))
        assert shown["definition"]["notification"][0]["url"] == f"{HOOK}?***"
        (delivery,) = data_of(await world.client.get("/deliveries?jobId=alert.chat"))["items"]
        assert delivery["url"].endswith("/hook?***")
        await fail(world, "weekly")
        await told(world, lambda found: any(one.path == f"/hook/{path}" for one in found))
        jobs = ("/jobs/alert.hook", "/jobs/alert.chat/revisions")
        lists = ("/executions?jobId=alert.chat", "/deliveries?jobId=alert.hook")
        paths = (*jobs, *lists, "/alerts", "/settings")
        found = [(await world.client.get(path)).text for path in paths]
        assert all('"chat"' in text for text in found[4:])
        assert '"deliveryId"' in found[3]
        secrets = ("a-secret", "plain-secret", path)
        assert [text for text in (*found, repr(world.log)) if any(one in text for one in secrets)] == []


async def test_a_header_is_sent_and_shown_nowhere(tmp_path: Path) -> None:
    """Its job has `***` wherever it is shown; a start sends the value that the settings have then."""
    store = {"data": str(tmp_path), "durability": "process"}
    for job, secret in (("nightly", "Bearer first-secret"), ("weekly", "Bearer second-secret")):
        alert = {"name": "chat", "on": ["finalFailed"], "headers": {"Authorization": secret, "X-Key": secret}}
        async with alerting(alert, store=store) as world:
            seen = await fail_and_tell(world, job)
            assert (seen.headers["authorization"], seen.headers["x-key"]) == (secret, secret)
            shown = data_of(await world.client.get("/jobs/alert.chat"))
            assert shown["definition"]["notification"][0]["headers"] == {
                "Authorization": "***",
                "X-Key": "***",
            }
            execution = f"/executions/{shown['uid']}-{shown['executeNumber']}"
            found = [
                (await world.client.get(path)).text
                for path in (
                    "/jobs/alert.chat",
                    "/jobs/alert.chat/revisions",
                    "/deliveries?jobId=alert.chat",
                    "/executions?jobId=alert.chat",
                    execution,
                    f"{execution}/requests",
                    "/jobs?system=true",
                    "/alerts",
                    "/settings",
                )
            ]
            assert [text for text in (*found, repr(world.log)) if "-secret" in text] == []


async def test_a_header_is_sent_by_the_outbox_too(tmp_path: Path) -> None:
    """A message that lay there over a restart has its header."""
    alert = {"name": "chat", "on": ["finalFailed"], "headers": {"Authorization": "Bearer a-secret"}}
    settings = {
        "store": {"data": str(tmp_path), "durability": "process"},
        "notification": {"retries": 1, "interval_seconds": 1, "outbox_seconds": 5},
    }
    async with alerting(alert, **settings) as world:
        world.target.always("/hook", 503)
        await fail(world)
        await told(world, many(2))
        assert "a-secret" not in (await world.client.get("/deliveries?jobId=alert.chat")).text
    async with alerting(alert, **settings) as world:
        await told(world, many(1))
        (seen,) = world.target.at("/hook")
        assert seen.headers["authorization"] == "Bearer a-secret"


async def test_the_job_of_an_alert_rests_without_it(tmp_path: Path) -> None:
    """The next start pauses it, also where no alert is left; one that comes back works again."""
    store = {"data": str(tmp_path), "durability": "process"}
    ops, chat = ({"name": name, "on": ["finalFailed"], "url": HOOK} for name in ("ops", "chat"))
    for alerts in ([ops, chat], [chat], [], [ops]):
        async with running(alerts=alerts, store=store) as world:
            listed = data_of(await world.client.get("/jobs?system=true"))["items"]
            found = {one["jobId"] for one in listed if one["state"] == "active"}
            assert found - set(NAMES) == {f"alert.{alert['name']}" for alert in alerts}
            if alerts == [ops]:
                message = (await fail_and_tell(world)).json
                assert message["alert"] == "ops"
                assert (await world.client.put("/jobs/alert.ops", params={"active": 0})).is_success
    async with running(alerts=[ops], store=store) as world:
        assert data_of(await world.client.get("/jobs/alert.ops"))["state"] == "paused"


@each_row(
    ("alert", "said"),
    [
        ({"url": "http://10.0.0.1/x"}, "alerts.0.url: "),
        ({"url": "nonsense"}, "alerts.0.url: "),
        ({"url": "${CHAT}/send"}, "alerts.0.url: ${CHAT} cannot be in the start of a url: the environment"),
        ({"body": "${nothing"}, "alerts.0.body: "),
        ({"headers": {"Host": "x"}}, "alerts.0.headers.Host: "),
    ],
)
async def test_an_alert_that_cannot_be_sent_is_named(alert: dict[str, Any], said: str) -> None:
    """It does not keep the service from its start, nor the others from being sent (SPEC section 2)."""
    ops = {"name": "ops", "on": ["finalFailed"], **alert}
    well = {"name": "well", "on": ["finalFailed"]}
    async with alerting(ops, well, egress={"allow": ["127.0.0.1"]}) as world:
        lines = [keys for event, keys in world.log if event == "alert_not_sent"]
        assert [(line["alert"], line["error"].startswith(said)) for line in lines] == [("ops", True)], lines
        shown = data_of(await world.client.get("/alerts"))["configured"]
        assert [one["trouble"] for one in shown] == [lines[0]["error"], None]
        message = (await fail_and_tell(world)).json
        assert message["alert"] == "well"


async def test_a_job_of_somebody_else_is_not_taken_over(tmp_path: Path) -> None:
    """An alert whose job id is in use is named, and sends nothing; the job stays what it is."""
    async with running(store={"data": str(tmp_path)}) as world:
        await create(world, "alert.ops")
    async with alerting({"name": "ops", "on": ["finalFailed"]}, store={"data": str(tmp_path)}) as world:
        (shown,) = data_of(await world.client.get("/alerts"))["configured"]
        assert shown["trouble"] == "a job has the id 'alert.ops'; give the alert another name"
        await fail(world)
        await world.advance(5)
        assert data_of(await world.client.get("/jobs/alert.ops"))["executeNumber"] == 0


async def test_nothing_is_lost_or_said_twice_over_a_restart(tmp_path: Path) -> None:
    """What failed before the stop is said after it, what was said is not, and a recovery is found."""
    alert = {"name": "ops", "on": ["failing", "finalFailed"], "failingCount": 1, "minIntervalSeconds": 0}
    store = {"data": str(tmp_path), "durability": "process"}
    async with alerting(alert, store=store) as world:
        world.target.always("/run", 500)
        await create(world, "told")
        await create(world, "untold")
        await run(world, "told")
        messages = await told(world, many(2))
        assert sorted(one["kind"] for one in messages) == ["failing", "finalFailed"]
        await run(world, "untold")
    async with alerting(alert, store=store) as world:
        messages = await told(world, many(2))
        assert {one["subject"] for one in messages} == {"untold"}
        await world.advance(15)
        assert len(world.target.at("/hook")) == 2
        await run(world, "told")
        (message,) = [one for one in await told(world, many(3)) if one["kind"] == "recovered"]
        assert (message["subject"], message["of"]) == ("told", "failing")


SIGNS = "SECab12cd34ef56"
CHATS: dict[str, MakeChat] = {
    "slack": Slack,
    "teams": TeamsWorkflow,
    "dingtalk": DingTalk,
    "wecom": WeCom,
    "feishu": Feishu,
}


def recipes() -> dict[str, dict[str, Any]]:
    """By its format each alert of the section, at the target of the test instead of its host."""
    section = read("docs/alerts.md").partition("## To a chat")[2].partition("\n## ")[0]
    blocks = re.findall("```toml\n(.*?)```", section, re.DOTALL)
    alerts = [alert for block in blocks for alert in tomllib.loads(block)["alerts"]]
    at_target = "service://jobswork"
    return {one["format"]: {**one, "url": re.sub("https://[^/]+", at_target, one["url"])} for one in alerts}


@each_row("name", list(CHATS))
async def test_each_recipe_reaches_its_chat(name: str) -> None:
    """With its secrets, under whatever name; the keyword that a robot asks for is the alert's name."""
    alert = recipes()[name]
    named = re.findall(r"\$\{secrets\.(\w+)\}", alert["url"] + alert.get("secret", ""))
    secrets = {one: SIGNS if one.endswith("_SIGN") else f"hook-of-{one}" for one in named}
    chat = CHATS[name](secret=SIGNS if "secret" in alert else None, keyword=name)
    job = {
        "jobName": "nightly",
        "creator": "docs",
        "creatorName": "docs",
        "timer": {"period": "external"},
        "request": [{"url": "service://jobswork/run"}],
    }
    async with running(alerts=[alert], secrets={"default": secrets}) as world:
        for first in ("services", "robot", "powerautomate", "cgi-bin", "open-apis"):
            world.target.always(f"/{first}", chat)
        world.target.always("/run", 500)
        data_of(await world.client.post("/jobs/nightly", json=job), 201)
        started = await world.client.post("/jobs/nightly/trigger", json={})
        await world.ended(data_of(started)["executionId"])
        await world.service.jobs.flush()
        await world.advance(10)
        (seen,) = chat.taken
        assert f"hook-of-{named[0]}" in (*seen.query.values(), *seen.path.split("/"))
