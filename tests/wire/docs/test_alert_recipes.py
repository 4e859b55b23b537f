"""The recipes of docs/alerts.md: each reaches its chat, which is a server here (SPEC section 14)."""

import re
import tomllib
from typing import Any

from tests.rows import each_row
from tests.unit.docs.pages import read
from tests.wire.chats import DingTalk, Feishu, MakeChat, Slack, TeamsWorkflow, WeCom
from tests.wire.service import data_of, running

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
