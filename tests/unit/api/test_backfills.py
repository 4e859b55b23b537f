"""Backfill: past moments of a job's timer are run (SPEC section 3)."""

from typing import Any

import httpx
import pytest

from scheduler_service.domain.turn_events import AlarmRang
from scheduler_service.ports.delivery import Command
from tests.unit.api.world import World, definition

HOURLY = {"dueTime": "0s", "period": "0 0 * * * ?"}
HOUR = 3_600_000
MORNING = {"from": "2025-12-31 20:00:00", "to": "2026-01-01 00:00:00"}


async def fill(client: httpx.AsyncClient, expected: int = 200, **body: Any) -> Any:
    """The answer's data, or the flaws of a refusal."""
    answer = await client.post("/jobs/h/backfill", json=MORNING | body)
    assert answer.status_code == expected, answer.text
    found = answer.json()
    return found["data"] if expected == 200 else [(one["pointer"], one["code"]) for one in found["errors"]]


def hours(moments: list[dict[str, Any]]) -> list[str]:
    return [one["plannedAt"][11:16] for one in moments]


async def test_moments_before_the_creation_are_run_once(client: httpx.AsyncClient) -> None:
    """A dry run only shows them; the second time each has an execution."""
    await client.post("/jobs/h", json=definition(timer=HOURLY))
    shown = await fill(client, dryRun=True)
    assert hours(shown["items"]) == ["20:00", "21:00", "22:00", "23:00", "00:00"]
    assert [one["executionId"] for one in shown["items"]] == [None] * 5
    run = await fill(client)
    assert [one["executeNumber"] for one in run["items"]] == [1, 2, 3, 4, 5]
    listed = (await client.get("/jobs/h/executions")).json()["data"]["items"]
    assert {one["executionId"] for one in run["items"]} == {one["executionId"] for one in listed}
    again = await fill(client)
    assert (again["items"], hours(again["left"])) == ([], hours(shown["items"]))


async def test_which_moments(client: httpx.AsyncClient, world: World) -> None:
    """What fired is not missing; `failed` runs what ended badly, `all` everything but what is under way."""
    await client.post("/jobs/h", json=definition(timer=HOURLY))
    for status in (200, 404):
        world.wall += HOUR
        await world.deliver("h", Command(AlarmRang()))
        await world.answer_calls(status)
    world.wall += HOUR
    await world.deliver("h", Command(AlarmRang()))
    span = {"from": "2026-01-01 00:00:00", "to": "2026-01-01 03:00:00", "dryRun": True}
    assert hours((await fill(client, **span))["items"]) == ["00:00"]
    assert hours((await fill(client, **span, which="failed"))["items"]) == ["00:00", "02:00"]
    everything = await fill(client, **span, which="all")
    assert hours(everything["items"]) == ["00:00", "01:00", "02:00"]
    assert [(one["plannedAt"][11:16], one["state"]) for one in everything["left"]] == [
        ("03:00", "processing")
    ]


async def test_a_key_runs_it_once(client: httpx.AsyncClient) -> None:
    """The same answer, though the moments are no longer missing (SPEC section 10)."""
    await client.post("/jobs/h", json=definition(timer=HOURLY))
    headers = {"Idempotency-Key": "once"}
    first = (await client.post("/jobs/h/backfill", json=MORNING, headers=headers)).json()["data"]
    again = (await client.post("/jobs/h/backfill", json=MORNING, headers=headers)).json()["data"]
    assert again == first
    assert len((await client.get("/jobs/h/executions")).json()["data"]["items"]) == 5


async def test_who_asked_is_told_of_each(client: httpx.AsyncClient, world: World) -> None:
    """One line in the audit, with the range and the number of executions (SPEC section 14)."""
    await client.post("/jobs/h", json=definition(timer=HOURLY))
    await fill(client)
    line = (await client.get("/audit?operation=backfillJob")).json()["data"]["items"][0]
    assert line["given"] == MORNING | {"which": "missing", "executions": 5}


async def test_a_timing_has_its_own_moments(client: httpx.AsyncClient, world: World) -> None:
    """Its grid begins with it, and R counts from there."""
    await client.post("/jobs/h", json=definition(timer={"dueTime": "0s", "period": "R3/PT1H"}))
    world.wall += 10 * HOUR
    shown = await fill(client, **{"from": "2025-12-01 00:00:00", "to": "2026-01-01 10:00:00"}, dryRun=True)
    assert (hours(shown["items"]), hours(shown["left"])) == (["01:00", "02:00"], ["00:00"])


@pytest.mark.parametrize(
    ("body", "flaw"),
    [
        ({"to": "2026-02-01 00:00:00"}, ("/to", "in_the_future")),
        ({"to": "2025-12-31 19:00:00"}, ("/to", "range")),
        ({"from": "2025-01-01 00:00:00"}, ("/to", "too_many")),
        ({"from": "yesterday"}, ("/from", "invalid")),
        ({"which": "some"}, ("/which", "choice")),
        ({"more": 1}, ("/more", "unknown_field")),
    ],
)
async def test_what_is_wrong_is_named(
    client: httpx.AsyncClient, body: dict[str, Any], flaw: tuple[str, str]
) -> None:
    await client.post("/jobs/h", json=definition(timer=HOURLY))
    assert await fill(client, 422, **body) == [flaw]


async def test_jobs_without_moments(client: httpx.AsyncClient) -> None:
    await client.post("/jobs/h", json=definition(timer={"period": "external"}))
    assert await fill(client, 422) == [("/jobId", "no_moments")]
    assert (await client.post("/jobs/none/backfill", json=MORNING)).status_code == 404
