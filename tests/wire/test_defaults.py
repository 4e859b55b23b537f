"""Defaults that the settings give: of jobs, and of services (SPEC sections 2, 6, 11, 13)."""

import json

import pytest

from scheduler_service.settings.sources import SettingsError, load_settings
from tests.rows import each_row
from tests.wire.service import data_of, definition, running
from tests.wire.target import Reply

POLICY = {"errorEquals": "500", "maxAttempts": 1, "intervalSeconds": 5}


@each_row(
    ("own", "source", "attempts"),
    [({}, "platform", 2), ({"retry": []}, "job", 1), ({"retry": [POLICY | {"maxAttempts": 2}]}, "job", 3)],
)
async def test_retries_of_the_settings(own: dict[str, object], source: str, attempts: int) -> None:
    """They are those of a job that gives none; options and the plan of retries show them."""
    async with running(defaults={"retry": [POLICY]}, history={"detail": "failures"}) as world:
        world.target.always("/run", Reply(500))
        posted = definition(request=[{"url": f"{world.target.url}/run"}], **own)
        job = data_of(await world.client.post("/jobs/j", json=posted), 201)
        shown = own.get("retry", [POLICY])
        assert job["options"]["retry"] == {"value": shown, "source": source}
        assert job["options"]["qos"] == {"value": 0, "source": "product"}
        assert job["options"]["historyDetail"] == {"value": "failures", "source": "platform"}
        plan = data_of(await world.client.get("/jobs/j/retry-plan", params={"error": "500"}))
        assert len(plan["items"]) == attempts - 1
        execution = data_of(await world.client.post("/jobs/j/trigger"))["executionId"]
        await world.advance(60)
        ended = await world.ended(execution)
    assert (ended["state"], ended["attemptCount"]) == ("terminated", attempts)


@each_row("wrong", [{"errorEquals": []}, {"errorEquals": "500", "max": 1}, {}])
async def test_a_wrong_policy_is_refused_at_the_start(wrong: dict[str, object]) -> None:
    """By its name."""
    with pytest.raises(SettingsError, match=r"defaults\.retry"):
        load_settings({}, {"PUNCTUAL_DEFAULTS__RETRY": json.dumps([wrong])})


@each_row(("posted", "shown"), [({}, "keep"), ({"onChange": "update"}, "update")])
async def test_stored_edits_may_win(posted: dict[str, object], shown: str) -> None:
    """A service that does not say whether they do has the setting; its first instance makes it so, too."""
    async with running(defaults={"on_change": "keep"}) as world:
        data_of(await world.client.put("/services/shop", json=posted), 201)
        assert data_of(await world.client.get("/services/shop"))["onChange"] == shown
        instance = {"address": world.target.url}
        data_of(await world.client.put("/services/till/instances/a", json=instance), 201)
        assert data_of(await world.client.get("/services/till"))["onChange"] == "keep"
