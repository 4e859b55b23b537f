"""Alerts to chats: each gets what its documents say, and its own refusal is no delivery (SPEC section 14)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.rows import each_row
from tests.wire.chats import Chat, DingTalk, Feishu, MakeChat, Slack, TeamsConnector, TeamsWorkflow, WeCom
from tests.wire.service import World, data_of, definition, running

SECRET = "SECab12cd34ef56"
CONSOLE = "https://jobs.example/console/#/executions/"
CHATS: tuple[tuple[str, MakeChat, dict[str, Any]], ...] = (
    ("slack", Slack, {}),
    ("teams", TeamsWorkflow, {}),
    ("teams", TeamsConnector, {}),
    ("dingtalk", DingTalk, {"secret": SECRET}),
    ("wecom", WeCom, {}),
    ("feishu", Feishu, {"secret": SECRET}),
)


@asynccontextmanager
async def chatting(chat: Chat, *alerts: dict[str, Any], **settings: Any) -> AsyncIterator[World]:
    """A service whose alerts go to this robot at `/hook`; the job `nightly` fails."""
    given = [{"url": "service://jobswork/hook", "on": ["finalFailed"], **alert} for alert in alerts]
    settings = {"server": {"external_url": "https://jobs.example"}, **settings}
    async with running(alerts=given, **settings) as world:
        world.target.always("/hook", chat)
        world.target.always("/run", 500)
        yield world


async def fail(world: World, *job_ids: str) -> None:
    """An execution of each of these jobs fails."""
    for job_id in job_ids:
        posted = definition(jobName=job_id)
        await world.client.post(f"/jobs/{job_id}", json=posted)
        started = await world.client.post(f"/jobs/{job_id}/trigger", json={})
        await world.ended(data_of(started)["executionId"])
    await world.service.jobs.flush()


async def deliveries(world: World, alert: str = "ops") -> list[dict[str, Any]]:
    """Those of an alert, with their tries."""
    await world.service.jobs.flush()
    answer = await world.client.get(f"/deliveries?jobId=alert.{alert}")
    items: list[dict[str, Any]] = data_of(answer)["items"]
    return items


@each_row(("name", "make", "options"), CHATS)
async def test_each_chat_takes_its_message(name: str, make: MakeChat, options: dict[str, str]) -> None:
    """Its form and its signature are those of the documents; it has the job, why, and the way to it."""
    chat = make(**options, keyword="[ops]")
    async with chatting(chat, {"name": "ops", "format": name, **options}) as world:
        await fail(world, "nightly")
        await world.advance(10)
        assert [one["state"] for one in await deliveries(world)] == ["delivered"], chat.came
        (seen,) = chat.taken
        text = seen.body.decode()
        assert "The job nightly failed in its execution 1" in text
        assert CONSOLE in text
        assert SECRET not in text


@each_row(
    ("name", "chat", "alert", "fault"),
    [
        ("dingtalk", DingTalk(secret="SECother"), {"secret": SECRET}, "310000: sign not match"),
        ("dingtalk", DingTalk(secret=SECRET), {}, "310000: sign not match"),
        ("dingtalk", DingTalk(keyword="urgent"), {}, "310000: keywords not in content"),
        (
            "wecom",
            WeCom(secret="other"),
            {"url": "service://jobswork/hook?key=one"},
            "93000: invalid webhook url",
        ),
        ("feishu", Feishu(secret="other"), {"secret": SECRET}, "19021: sign match fail or timestamp"),
        ("feishu", Feishu(keyword="urgent"), {}, "19024: Key Words Not Found"),
    ],
)
async def test_a_success_with_an_error_code_is_no_delivery(
    name: str, chat: Chat, alert: dict[str, str], fault: str
) -> None:
    """It is tried again by the rules, stays in the outbox, and says what the receiver said."""
    settings = {"notification": {"retries": 1, "interval_seconds": 1}}
    async with chatting(chat, {"name": "ops", "format": name, **alert}, **settings) as world:
        await fail(world, "nightly")
        await world.advance(10)
        (delivery,) = await deliveries(world)
        assert (delivery["state"], chat.taken, len(chat.came)) == ("outbox", [], 2)
        for attempt in delivery["attempts"]:
            assert attempt["status"] == 200
            assert attempt["fault"].startswith(fault), attempt


@each_row(
    ("name", "chat", "status", "fault"),
    [
        ("slack", Slack(), 410, "channel_is_archived"),
        ("teams", TeamsConnector(), 200, "Webhook message delivery failed with error"),
    ],
)
async def test_what_is_refused_comes_when_it_may(name: str, chat: Chat, status: int, fault: str) -> None:
    """A later try is taken, under the same id."""
    chat.is_archived = True
    settings = {"notification": {"retries": 3, "interval_seconds": 5}}
    async with chatting(chat, {"name": "ops", "format": name}, **settings) as world:
        await fail(world, "nightly")
        await world.advance(4)
        chat.is_archived = False
        await world.advance(10)
        (delivery,) = await deliveries(world)
        assert delivery["state"] == "delivered"
        assert delivery["attempts"][0]["status"] == status
        assert delivery["attempts"][0]["fault"].startswith(fault)
        assert len({one.headers["webhook-id"] for one in world.target.at("/hook")}) == 1


@each_row(("name", "make"), [("dingtalk", DingTalk), ("slack", Slack)])
async def test_no_robot_has_more_than_it_takes(name: str, make: MakeChat) -> None:
    """Several alerts to one robot, and many jobs: what is too much is gathered, and each job is told of."""
    chat = make()
    alerts = [{"name": one, "format": name, "minIntervalSeconds": 0} for one in ("ops", "team", "boss")]
    async with chatting(chat, *alerts) as world:
        jobs = [f"job{number}" for number in range(9)]
        await fail(world, *jobs)
        await world.advance(130)
        assert len(chat.taken) == len(chat.came), "none was refused"
        assert len(chat.came) < 2 * len(jobs), "alerts to one robot share the messages of a minute"
        told = dict.fromkeys(("ops", "team", "boss"), 0)
        for seen in world.target.at("/hook"):
            (alert,) = [one for one in told if f"[{one}]" in seen.body.decode()]
            told[alert] += 1
        assert all(told.values()), told
        for alert in told:
            listed = await deliveries(world, alert)
            assert {one["state"] for one in listed} == {"delivered"}


async def test_a_secret_is_named_in_the_path_and_signs() -> None:
    """`${secrets.NAME}`, in the address of a robot, whose path is its secret, and as what signs."""
    values = {"HOOK": "T00000/B11111/abcdefgh", "SIGN": SECRET}
    alert = {
        "name": "ops",
        "format": "feishu",
        "url": "service://jobswork/hook/${secrets.HOOK}",
        "secret": "${secrets.SIGN}",
    }
    chat = Feishu(secret=SECRET)
    async with chatting(chat, alert, secrets={"default": values}) as world:
        await fail(world, "nightly")
        await world.advance(10)
        (seen,) = chat.taken
        assert seen.path == "/hook/T00000/B11111/abcdefgh"
        (delivery,) = await deliveries(world)
        assert delivery["url"].endswith("/hook/***")
        execution = (await world.client.get("/executions?jobId=alert.ops&system=true")).text
        paths = ("/jobs/alert.ops", "/alerts", "/settings", "/deliveries?jobId=alert.ops")
        found = [execution, *[(await world.client.get(path)).text for path in paths], repr(world.log)]
        assert [text for text in found if SECRET in text or "abcdefgh" in text] == []
        assert "${secrets.HOOK}" in found[2]


async def test_a_secret_that_is_missing_is_named() -> None:
    """The message waits in the outbox for it."""
    chat = DingTalk(secret=SECRET)
    alert = {"name": "ops", "format": "dingtalk", "secret": "${secrets.SIGN}"}
    settings = {"notification": {"retries": 0}}
    async with chatting(chat, alert, **settings) as world:
        await fail(world, "nightly")
        await world.advance(10)
        (delivery,) = await deliveries(world)
        assert (delivery["state"], chat.came) == ("outbox", [])
        assert delivery["attempts"][0]["fault"] == "template"


async def test_a_body_of_its_own_is_signed_and_judged() -> None:
    """With templates, as that of any alert."""
    chat = DingTalk(secret=SECRET)
    body = {"msgtype": "markdown", "markdown": {"title": "t", "text": "${trigger.text} ${trigger.link}"}}
    alert = {"name": "ops", "format": "dingtalk", "secret": SECRET, "body": body}
    async with chatting(chat, alert) as world:
        await fail(world, "nightly")
        await world.advance(10)
        (seen,) = chat.taken
        assert seen.json["markdown"]["text"].startswith("[ops] The job nightly failed")
        assert CONSOLE in seen.json["markdown"]["text"]


@pytest.mark.parametrize("base", [None, "https://jobs.example/"])
async def test_a_message_of_json_has_the_link(base: str | None) -> None:
    """Where the service is reached from outside; null elsewhere."""
    async with running(
        alerts=[{"name": "ops", "on": ["finalFailed"], "url": "service://jobswork/hook"}],
        server={} if base is None else {"external_url": base},
    ) as world:
        world.target.always("/run", 500)
        await fail(world, "nightly")
        await world.advance(10)
        (seen,) = world.target.at("/hook")
        expected = None if base is None else f"{CONSOLE}{seen.json['executionId']}"
        assert seen.json["link"] == expected
