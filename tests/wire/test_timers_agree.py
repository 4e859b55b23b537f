"""One table of timers through every door: each says the same of the same timer (SPEC section 3)."""

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from client_sdk import Client
from client_sdk.errors import Invalid
from client_sdk.models import PreviewRequest, Timer
from scheduler_service.cli.lint_and_doctor import check
from scheduler_service.cli.main import run
from tests.rows import each_row
from tests.unit.client_sdk.lines import serving
from tests.wire.service import SERVED, World, definition, pointers

DROPPED = ("/timer/dueTime", "due_time_ignored")
UNUSED = ("/timer/period", "period_ignored")
NO_PERIOD = ("/timer/period", "invalid")


class Verdict(NamedTuple):
    """What is said of a timer: its kind, None where it is refused, and the warnings or errors."""

    kind: str | None
    flaws: tuple[tuple[str, str], ...] = ()


TIMERS: tuple[tuple[dict[str, Any] | None, Verdict], ...] = (
    (None, Verdict("one_time")),
    ({}, Verdict("one_time")),
    ({"period": "5m"}, Verdict("timing")),
    ({"period": "R4/PT3S"}, Verdict("timing")),
    ({"period": "0s"}, Verdict("timing")),
    ({"dueTime": "0s", "period": "5m"}, Verdict("timing")),
    ({"period": "0 0/5 * * * ?"}, Verdict("cron")),
    ({"period": "external"}, Verdict("external")),
    ({"dueTime": "", "period": "external"}, Verdict("external")),
    ({"dueTime": "", "period": "5m"}, Verdict("one_time", (UNUSED,))),
    ({"dueTime": None, "period": "5m"}, Verdict("one_time", (UNUSED,))),
    ({"dueTime": "1h"}, Verdict("one_time", (DROPPED,))),
    ({"dueTime": "1h", "period": ""}, Verdict("one_time", (DROPPED,))),
    ({"dueTime": "1h", "period": None}, Verdict("one_time", (DROPPED,))),
    ({"dueTime": "1h", "period": "external"}, Verdict("external", (DROPPED,))),
    ({"period": "5"}, Verdict(None, (NO_PERIOD,))),
    ({"period": "blah"}, Verdict(None, (NO_PERIOD,))),
    ({"period": "R0/PT3S"}, Verdict(None, (NO_PERIOD,))),
    ({"dueTime": "0s", "period": "5"}, Verdict(None, (NO_PERIOD,))),
    ({"dueTime": "", "period": "blah"}, Verdict(None, (NO_PERIOD,))),
    ({"dueTime": None, "period": "blah"}, Verdict(None, (NO_PERIOD,))),
)


def said(answer: httpx.Response, kind: str | None = None) -> Verdict:
    """The verdict in an answer; `kind` where the answer does not name it."""
    if answer.status_code == 422:
        return Verdict(None, tuple(pointers(answer)))
    body = answer.json()
    found = ((one["pointer"], one["code"]) for one in body["warnings"])
    return Verdict(kind or body["data"]["kind"], tuple(found))


def linted(given: dict[str, Any]) -> Verdict:
    """The verdict of `lint`, which names no kind."""
    errors, warnings = check(given)
    return Verdict(None if errors else "", tuple((pointer, code) for pointer, code, _ in errors or warnings))


async def clear(world: World) -> None:
    """Nothing is left of the timer before."""
    await world.client.delete("/services/own")
    for job_id in ("job", "there", "text", "declared"):
        await world.client.delete(f"/jobs/{job_id}")
    world.log.clear()


@each_row(("timer", "verdict"), TIMERS)
async def test_every_door_says_the_same(world: World, timer: dict[str, Any] | None, verdict: Verdict) -> None:
    """Preview, creation, update, array, declaration and lint."""
    await clear(world)
    client, posted = world.client, definition(jobId="job", timer=timer)
    text = "" if timer is None else json.dumps(timer)
    await client.post("/jobs/there", json=definition())
    doors = {
        "preview": said(await client.post("/timers/preview", json={"timer": timer})),
        "creation": said(await client.post("/jobs/job", json=posted)),
        "update": said(await client.post("/jobs/there/update", json=posted | {"jobId": "there"})),
        "text": said(await client.post("/jobs/text", json=posted | {"jobId": "text", "timer": text})),
    }
    assert doors == dict.fromkeys(doors, verdict) | {"text": at_the_text(verdict)}
    assert linted(posted) == (verdict if verdict.kind is None else Verdict("", verdict.flaws))
    declared = await client.put("/services/own", json={"timers": [posted | {"jobId": "declared"}]})
    below = tuple((f"/timers/0{pointer}", code) for pointer, code in verdict.flaws)
    assert said(declared, verdict.kind) == Verdict(verdict.kind, below)
    logged = [(keys["pointer"], keys["code"]) for event, keys in world.log if event == "declaration_warned"]
    assert logged == ([] if verdict.kind is None else list(below))


def at_the_text(verdict: Verdict) -> Verdict:
    """The verdict on a timer that is posted as a string: its flaws are at the string."""
    return Verdict(verdict.kind, tuple(("/timer", code) for _, code in verdict.flaws))


@each_row(("timer", "verdict"), TIMERS)
async def test_the_sdk_says_the_same(world: World, timer: dict[str, Any] | None, verdict: Verdict) -> None:
    """Creation by the client, an array as `apply` sends it, a declaration, and the model itself."""
    await clear(world)
    posted = definition(jobId="job", timer=timer)
    async with Client(SERVED, transport=httpx.ASGITransport(world.service.api)) as client:
        (applied,) = await client.jobs.create_many([posted], on_existing="update")
        if verdict.kind is None:
            assert applied.problem is not None
            assert [(one.pointer, one.code) for one in applied.problem.errors] == list(verdict.flaws)
            with pytest.raises(Invalid) as refused:
                await client.jobs.create(posted)
            assert [(one.pointer, one.code) for one in refused.value.errors] == list(verdict.flaws)
            return
        made = await client.jobs.create(posted, job_id="job")
        told = await client.services.put("own", {"timers": [posted | {"jobId": "declared"}]})
    assert [(one.pointer, one.code) for one in applied.warnings] == list(verdict.flaws)
    assert made.kind == verdict.kind
    assert [(one.pointer, one.code) for one in made.warnings] == list(verdict.flaws)
    assert [one.pointer for one in told.warnings] == [f"/timers/0{pointer}" for pointer, _ in verdict.flaws]
    asked = PreviewRequest(timer=None if timer is None else Timer(**timer))
    shown = await world.client.post("/timers/preview", json=asked.model_dump(mode="json", exclude_unset=True))
    assert said(shown) == verdict


async def test_the_command_line_says_the_same(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`timers preview` and `jobs apply`."""
    async with serving(world.service.api) as url:
        for index, (timer, verdict) in enumerate(TIMERS):
            file = tmp_path / f"{index}.json"
            file.write_text(json.dumps([definition(jobId=f"job-{index}", timer=timer)]))
            commands = [["jobs", "apply", "-f", str(file), "--url", url]]
            if timer and isinstance(timer.get("period"), str) and timer.get("dueTime", "") is not None:
                due = ["--due-time", timer["dueTime"]] if "dueTime" in timer else []
                commands.append(["timers", "preview", timer["period"], *due, "--url", url])
            for command in commands:
                code = await asyncio.to_thread(run, command)
                shown = "".join(capsys.readouterr())
                assert (code == 0) is (verdict.kind is not None), shown
