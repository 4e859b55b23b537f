"""The scheduler as a whole, through the client (SPEC section 16)."""

from datetime import UTC, date, datetime, timedelta

import pytest

from client_sdk import Client
from client_sdk.errors import Invalid
from client_sdk.models import Timer
from tests.wire.service import START, World, definition


async def test_figures_and_what_is_planned(client: Client) -> None:
    """Of all jobs; a window leaves out what is planned outside of it."""
    await client.jobs.create(definition(timer={"dueTime": "1h", "period": "1h"}), job_id="one")
    assert (await client.scheduler.statistics()).running == 0
    assert [node.state for node in await client.scheduler.nodes()] == ["running"]
    planned = [one async for one in client.scheduler.upcoming(page=5)]
    assert {one.job_id for one in planned} == {"one"}
    assert len(planned) == 24
    early = datetime(2000, 1, 1, tzinfo=UTC)
    assert [one async for one in client.scheduler.upcoming(planned_from=early, planned_to=early)] == []


async def test_figures_by_day(world: World, client: Client) -> None:
    """Of one job, of all, and of those with labels; bad spans are refused."""
    await client.jobs.create(definition(labels={"team": "ops"}), job_id="one")
    await client.jobs.create(definition(), job_id="two")
    for name in ("one", "two", "two"):
        assert (await client.wait_for(await client.jobs.trigger(name), timeout=20)).state == "succeeded"
    today = datetime.fromtimestamp(START / 1_000, UTC).date()
    own = await client.jobs.statistics("two", first=today, last=today)
    assert (own.job_id, own.first, own.last, own.total.by_outcome["succeeded"]) == ("two", today, today, 2)
    assert [(day.day, day.executions) for day in own.days] == [(today, 2)]
    assert (await client.scheduler.daily()).total.executions == 3
    some = await client.scheduler.daily(labels={"team": "ops"})
    assert [(one.job_id, one.executions) for one in some.slowest] == [("one", 1)]
    assert (await client.scheduler.daily(job_id="two")).total.executions == 2
    with pytest.raises(Invalid):
        await client.scheduler.daily(first=today, last=today - timedelta(1))


async def test_what_is_planned_of_some_jobs(client: Client) -> None:
    """One job or several, and so many firings of each."""
    for name in ("one", "two", "three"):
        await client.jobs.create(definition(timer={"dueTime": "1h", "period": "1h"}), job_id=name)
    one = [one.job_id async for one in client.scheduler.upcoming(job_id="one", per_job=3)]
    assert one == ["one"] * 3
    two = [one.job_id async for one in client.scheduler.upcoming(job_id=["one", "two"], per_job=2, page=1)]
    assert sorted(two) == ["one", "one", "two", "two"]


async def test_previews_need_no_job(client: Client) -> None:
    """As JSON or as models; what is invalid is refused."""
    found = await client.scheduler.preview_timer({"period": "5m"}, count=2)
    assert (found.kind, len(found.firings)) == ("timing", 2)
    assert (await client.scheduler.preview_timer(Timer(period="0 30 2 * * ?"))).dialect == "quartz"
    with pytest.raises(Invalid):
        await client.scheduler.preview_timer({"period": "61 * * * * ?"})
    value = await client.scheduler.preview_template({"total": "${$.price}|json"}, {"price": 4.2})
    assert value == {"total": 4.2}
    assert (
        await client.scheduler.preview_template("http://x/${a}", {"a": "b c"}, place="url")
        == "http://x/b%20c"
    )
    await client.jobs.create(definition(retry=[{"errorEquals": "5xx"}]), job_id="one")
    plan = await client.jobs.retry_plan("one", error="500")
    assert [retry.wait_ms for retry in plan.items] == [1000, 2000]


async def test_a_definition_is_tried(client: Client) -> None:
    """Without a job; warnings stand beside it, and what is wrong raises."""
    checked = await client.scheduler.check_definition(
        definition(jobId="one", timer={"dueTime": "1s", "period": "0 0 * * * ?"})
    )
    assert (checked.job_id, checked.kind, checked.existing) == ("one", "cron", None)
    assert [one.code for one in checked.warnings]
    with pytest.raises(Invalid):
        await client.scheduler.check_definition(definition(jobId="one", qos=7))
    assert (await client.scheduler.definition_schema())["type"] == "object"


async def test_a_definition_is_run_without_being_saved(client: Client) -> None:
    """Its execution is read as any other, and no list has its job."""
    trial = await client.scheduler.try_definition(definition(), {"size": 3})
    assert (await client.executions.get(trial.execution_id)).job_id == trial.job_id
    assert [one async for one in client.jobs.list()] == []
    with pytest.raises(Invalid):
        await client.scheduler.try_definition(definition(qos=7))


async def test_what_is_planned_is_counted(client: Client) -> None:
    """By buckets of time, from now on."""
    await client.jobs.create(definition(timer={"dueTime": "1h", "period": "1h"}), job_id="hourly")
    ahead = await client.scheduler.upcoming_counts(bucket_seconds=3_600, buckets=3)
    assert (sum(ahead.counts), ahead.total.is_capped) == (ahead.total.value, False)
    assert len(ahead.counts) == 3
    assert ahead.total.value >= 2


async def test_what_a_timer_does_is_foreseen(client: Client) -> None:
    """Day by day, in its zone."""
    timer = {"period": "0 30 2 * * ?", "timezone": "Europe/Berlin"}
    ahead = await client.scheduler.outlook(timer, since=date(2026, 3, 28), days=3)
    assert [(str(day.date), day.count, day.note) for day in ahead.days] == [
        ("2026-03-28", 1, None),
        ("2026-03-29", 1, "gap"),
        ("2026-03-30", 1, None),
    ]
    assert len(ahead.next_day) == len(ahead.by_hour) == 24
