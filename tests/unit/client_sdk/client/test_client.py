"""The client and its blocking face, against the whole service (SPEC sections 10, 16)."""

import asyncio
import multiprocessing
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from client_sdk import BlockingClient, Client, job
from client_sdk.client.connection import CallGroup
from client_sdk.errors import (
    Absent,
    Conflict,
    ExecutionFailed,
    Invalid,
    Outdated,
    SdkError,
    Unauthorized,
    WaitTimedOut,
)
from client_sdk.models import JobDefinition, NewCalendar, RequestStep, Timer
from tests.rows import each_row
from tests.unit.client_sdk.lines import NewerLine, serving
from tests.wire.service import SERVED, START, World, definition, running
from tests.wire.target import Reply


async def test_a_job_is_made_fired_and_waited_for(client: Client) -> None:
    """From its definition as a model to its execution in full; its creator is who posts it."""
    made = await client.jobs.create(
        JobDefinition(
            job_id="report",
            job_name="Report",
            timer=Timer(period="external"),
            request=[RequestStep(url="service://jobswork/run")],
        )
    )
    assert (made.state, made.kind, made.warnings) == ("active", "external", [])
    assert made.definition["request"] == [{"url": "service://jobswork/run"}]
    assert made.creator == made.definition["creatorName"] != ""
    fired = await client.jobs.trigger("report", {"size": 3})
    ended = await client.wait_for(fired, timeout=20)
    assert (ended.state, ended.params, ended.execute_number) == ("succeeded", {"size": 3}, 1)
    assert [step.status for attempt in ended.attempts for step in attempt.steps] == [200]
    assert [line.kind async for line in client.executions.log(ended)]


async def test_every_member_of_an_answer_has_a_name(client: Client) -> None:
    """The models are those of the API's description: a member without a name would not be described there."""
    told = [{"url": "service://jobswork/told", "stateEquals": "finalSucceed"}]
    await client.jobs.create(definition(notification=told, labels={"a": "b"}, keepResult=True), job_id="one")
    fired = await client.jobs.trigger("one")
    answers = [
        await client.wait_for(fired, timeout=20),
        *[one async for one in client.executions.list()],
        *[one async for one in client.executions.log(fired)],
        *[one async for one in client.deliveries.list(job_id="one")],
        *[one async for one in client.jobs.list()],
        await client.jobs.get("one"),
        await client.scheduler.statistics(),
        *await client.scheduler.nodes(),
    ]
    assert len({type(one) for one in answers}) == 8
    assert [one for one in answers for one in find_unnamed(one)] == []


def find_unnamed(value: Any) -> Iterator[str]:
    """The members, at any depth, that the models do not have."""
    if isinstance(value, list | tuple):
        yield from (name for one in value for name in find_unnamed(one))
    elif isinstance(value, BaseModel):
        yield from (f"{type(value).__name__}.{name}" for name in value.model_extra or {})
        yield from (name for one in type(value).model_fields for name in find_unnamed(getattr(value, one)))


async def test_the_result_of_a_job_is_waited_for(client: Client, world: World) -> None:
    """JSON, a text or bytes; a failure raises with its code, message and execution (SPEC section 16)."""
    posted = definition(jobId="sum", keepResult=True, request=[{"url": "service://jobswork/sum"}])
    await client.jobs.create(posted)
    world.target.answers("/sum", Reply(201, {"rows": 7}), Reply(200, b"plain"), Reply(200, b"\xff\x00"))
    for value in ({"rows": 7}, "plain", b"\xff\x00"):
        started = await client.jobs.trigger("sum")
        assert await started.result(timeout=20) == value
    whole = await client.executions.result("sum#1")
    assert (whole.status, whole.encoding, whole.value) == (201, "json", {"rows": 7})
    again = await client.executions.replay("sum#last", params={})
    assert await again.result() == {}
    world.target.answers("/sum", Reply(500, {"error": "out of stock"}))
    bad = await client.jobs.trigger("sum")
    with pytest.raises(ExecutionFailed, match=r"^sum#5 ended as terminated: 500, out of stock$") as caught:
        await bad.result(timeout=20)
    assert (caught.value.error, caught.value.execution.failure_type) == ("500", "http")
    later = await client.jobs.trigger("sum", delay_seconds=3600)
    with pytest.raises(WaitTimedOut, match=r"has no result after 0.01 s: .* is scheduled"):
        await later.result(timeout=0.01)
    await client.executions.cancel(later)
    with pytest.raises(ExecutionFailed, match="ended as cancelled"):
        await client.executions.result("sum#last")
    await client.jobs.create(definition(jobId="plain"))
    with pytest.raises(Absent, match="had no keepResult"):
        await (await client.jobs.trigger("plain")).result(timeout=20)


async def test_the_key_is_the_caller_s_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an argument; nothing is read from the environment."""
    monkeypatch.setenv("PUNCTUAL_KEY", "right-and-long-enough")
    async with running(server={"key": "right-and-long-enough"}) as world:
        transport = httpx.ASGITransport(world.service.api)
        async with Client(SERVED, transport=transport) as client:
            with pytest.raises(Unauthorized) as caught:
                await client.jobs.get("one")
            assert caught.value.detail == "a key is needed: send 'Authorization: Bearer KEY'"
            assert str(caught.value) == (
                "401: a key is needed: send 'Authorization: Bearer KEY'; give it as Client(url, key=…): the "
                "scheduler's setting server.key, or PUNCTUAL_SERVER__KEY"
            )
        async with Client(SERVED, key="right-and-long-enough", transport=transport) as client:
            assert [job async for job in client.jobs.list()] == []


async def test_keys_are_made_rotated_and_revoked() -> None:
    """By an admin; who has one finds out what it may do (SPEC section 14)."""
    async with running(server={"key": "right-and-long-enough"}) as world:
        transport = httpx.ASGITransport(world.service.api)
        async with Client(SERVED, key="right-and-long-enough", transport=transport) as admin:
            end = datetime(2026, 2, 1, tzinfo=UTC)
            made = await admin.keys.create("ci", role="operator", labels={"team": "ops"}, expires_at=end)
            assert (made.labels, made.expires_at) == (["team:ops"], end)
            rotated = await admin.keys.rotate(made.key_id, overlap_seconds=60)
            async with Client(SERVED, key=rotated.key, transport=transport) as caller:
                known = await caller.keys.who_am_i()
                assert (known.name, known.role, known.key_id) == ("ci", "operator", made.key_id)
                assert [key.key_id async for key in admin.keys.list()] == [made.key_id]
                assert (await admin.keys.revoke(made.key_id)).state == "revoked"
                assert (await admin.keys.get(made.key_id)).revoked_at is not None
                with pytest.raises(Unauthorized):
                    await caller.jobs.get("one")


async def test_an_older_client_reads_a_newer_service(world: World) -> None:
    """Every answer says more than this version knows; requests that do are refused by the service."""
    newer = NewerLine(httpx.ASGITransport(world.service.api))
    async with Client(SERVED, transport=newer) as client:
        await client.jobs.create(definition(), job_id="one")
        ended = await client.wait_for(await client.jobs.trigger("one"), timeout=20)
        assert ended.state == "succeeded"
        assert (ended.attempts[0].steps[0].model_extra or {})["later"] == {"version": 2}
        assert [job.job_id async for job in client.jobs.list(page=1)] == ["one"]
        assert (await client.jobs.next("one")).kind == "external"
        with pytest.raises(Invalid) as caught:
            await client.jobs.create(definition(later=1), job_id="two")
        assert caught.value.codes == {"unknown_field"}


@each_row("name", ["", "a/b", "-x", "x" * 129, "é", "a\n"])
def test_a_name_of_no_service_is_refused_at_once(name: str) -> None:
    """Nothing is sent."""
    with pytest.raises(ValueError, match="is no name of a service"):
        Client(SERVED, service=name)


async def test_a_declared_job_is_answered_with_who_registers_it(client: Client) -> None:
    """A declaration is no definition; its service posts it."""

    @job(job_id="import")
    def fetch(size: int = 1) -> int:
        return size

    with pytest.raises(TypeError) as caught:
        await client.jobs.create(fetch)  # type: ignore[arg-type]
    said = "definition is fetch, a job declared with @job: its service registers it, Service(jobs=[fetch])"
    assert said in str(caught.value)


async def test_a_job_is_paused_changed_and_destroyed(client: Client, world: World) -> None:
    """With the revision as a guard against others."""
    await client.jobs.create(definition(timer={"period": "5m", "dueTime": "5m"}), job_id="one")
    assert (await client.jobs.pause("one", drain=True)).state == "paused"
    assert (await client.jobs.resume("one", misfire="skip")).missed == 0
    changed = await client.jobs.update("one", definition(jobName="two"), revision=1)
    assert (changed.revision, changed.job_name, changed.disabled) == (2, "two", False)
    with pytest.raises(Outdated):
        await client.jobs.update("one", definition(jobName="three"), revision=1)
    assert [one.revision async for one in client.jobs.revisions("one")] == [1, 2]
    assert (await client.jobs.disable("one")).disabled
    with pytest.raises(Conflict) as refused:
        await client.jobs.trigger("one")
    assert refused.value.errors[0].code == "disabled"
    assert not (await client.jobs.enable("one")).disabled
    assert (await client.jobs.destroy("one")).state == "destroyed"
    with pytest.raises(Absent):
        await client.jobs.get("one")
    # A trigger for later; a naive moment is refused before anything is sent
    await client.jobs.create(definition(), job_id="one")
    at = datetime.fromtimestamp(START / 1000, UTC) + timedelta(hours=1)
    fired = await client.jobs.trigger("one", at=at)
    assert fired.state == "scheduled"
    assert (await client.executions.get(fired)).planned_at == at
    with pytest.raises(ValueError, match="no time zone"):
        await client.jobs.trigger("one", at=datetime(2030, 1, 1))
    with pytest.raises(TypeError, match="'tomorrow' is of type str: give an aware datetime"):
        await client.jobs.trigger("one", at="tomorrow")  # type: ignore[arg-type]


@each_row(
    ("value", "error", "text"),
    [
        ({"a": [0, float("nan")]}, ValueError, "/a/1 is nan, of type float: JSON has no form of it"),
        ({"a": {"b": {1}}}, TypeError, r"/a/b is \{1\}, of type set: JSON has no form of it"),
    ],
)
async def test_what_json_has_no_form_of_is_named(
    client: Client, value: Any, error: type[Exception], text: str
) -> None:
    """With its place, before anything is sent."""
    with pytest.raises(error, match=text):
        await client.jobs.trigger("one", value)


@each_row("timeout", [0, -1, "x"])
def test_a_timeout_that_no_call_can_keep_is_refused(timeout: Any) -> None:
    """At once, and not as a service that does not answer."""
    with pytest.raises(ValueError, match="give the seconds of one call, above 0"):
        Client(SERVED, timeout=timeout)


async def test_waiting_has_an_end(world: World, client: Client) -> None:
    """What does not end in time goes on; what does not exist is not waited for."""
    await client.jobs.create(definition(), job_id="one")
    later = await client.jobs.trigger("one", delay_seconds=60)
    with pytest.raises(WaitTimedOut, match="is scheduled after 0 s; it continues"):
        await client.wait_for(later, timeout=0)
    with pytest.raises(WaitTimedOut, match=r"one#77 is not recorded after 0 s; .* or there is none"):
        await client.wait_for("one#77", timeout=0)
    with pytest.raises(ValueError, match="timeout is -1"):
        await client.wait_for(later, timeout=-1)
    assert (await client.executions.cancel(later, reason="changed my mind")).state == "cancelled"
    assert (await client.wait_for(later, timeout=20)).reason == "changed my mind"
    with pytest.raises(Conflict):
        await client.executions.cancel(later)


async def test_executions_are_found_by_their_outcome(client: Client) -> None:
    """Of all jobs and of one; `failed` is failed for good."""
    await client.jobs.create(definition(), job_id="one")
    later = await client.jobs.trigger("one", delay_seconds=60)
    await client.executions.cancel(later)
    for outcome, numbers in {"cancelled": [1], "failed": [], "succeeded": [], "skipped": []}.items():
        found = client.executions.list(outcome=outcome)
        assert [one.execute_number async for one in found] == numbers
        found = client.jobs.executions("one", outcome=outcome)
        assert [one.execute_number async for one in found] == numbers


async def test_a_notification_is_listed_sent_again_and_given_up(client: Client) -> None:
    """One that nobody takes waits for its next try; after that it is not pending any more."""
    told = [{"url": "service://nobody/told", "guarantee": "outbox", "stateEquals": "finalSucceed"}]
    await client.jobs.create(definition(notification=told), job_id="one")
    await client.wait_for(await client.jobs.trigger("one"), timeout=20)
    (found,) = [one async for one in client.deliveries.list(job_id="one", event="finalSucceed")]
    assert (found.job_id, found.state) == ("one", "pending")
    assert (await client.deliveries.resend(found)).delivery_id == found.delivery_id
    await client.deliveries.dismiss(found.delivery_id)
    with pytest.raises(Conflict):
        await client.deliveries.dismiss(found)
    with pytest.raises(Absent):
        await client.deliveries.resend("none")


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
    # One job or several, and so many firings of each
    for name in ("one", "two", "three"):
        await client.jobs.create(definition(timer={"dueTime": "1h", "period": "1h"}), job_id=name)
    one = [one.job_id async for one in client.scheduler.upcoming(job_id="one", per_job=3)]
    assert one == ["one"] * 3
    two = [one.job_id async for one in client.scheduler.upcoming(job_id=["one", "two"], per_job=2, page=1)]
    assert sorted(two) == ["one", "one", "two", "two"]
    # By buckets of time, from now on
    await client.jobs.create(definition(timer={"dueTime": "1h", "period": "1h"}), job_id="hourly")
    ahead = await client.scheduler.upcoming_counts(bucket_seconds=3_600, buckets=3)
    assert (sum(ahead.counts), ahead.total.is_capped) == (ahead.total.value, False)
    assert len(ahead.counts) == 3
    assert ahead.total.value >= 2


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


async def test_a_definition_is_run_without_being_saved(client: Client) -> None:
    """Its execution is read as any other, and no list has its job."""
    trial = await client.scheduler.try_definition(definition(), {"size": 3})
    assert (await client.executions.get(trial.execution_id)).job_id == trial.job_id
    assert [one async for one in client.jobs.list()] == []
    with pytest.raises(Invalid):
        await client.scheduler.try_definition(definition(qos=7))


def test_the_blocking_face_has_every_call() -> None:
    """Of each group: a call that is added to one is not forgotten in the other."""
    with BlockingClient(SERVED) as blocking:
        groups = {name: group for name, group in vars(Client(SERVED)).items() if isinstance(group, CallGroup)}
        assert len(groups) > 5
        for name, group in groups.items():
            assert calls_of(group) == calls_of(getattr(blocking, name)), name


def calls_of(group: object) -> set[str]:
    return {name for name in dir(group) if not name.startswith("_")}


async def test_the_blocking_face_does_the_same(world: World) -> None:
    """Over a real socket, from a thread without an event loop."""
    async with serving(world.service.api) as url:
        await asyncio.to_thread(_use_blocking, url)


def _use_blocking(url: str) -> None:
    with BlockingClient(url, service="reports") as client:
        own = {"request": [{"url": "service:/run"}]}
        client.jobs.create(definition(**own), job_id="own")
        client.jobs.destroy("own")
        client.jobs.create(definition(), job_id="one")
        fired = client.jobs.trigger("one", {"size": 3})
        assert client.wait_for(fired, timeout=20).state == "succeeded"
        assert [job.job_id for job in client.jobs.list(page=1)] == ["one"]
        assert client.jobs.counts(last_outcome="succeeded").total.value == 1
        assert [one.state for one in client.executions.list()] == ["succeeded"]
        assert [len(one.executions) for one in client.jobs.outcomes(["one", "two"])] == [1, 0]
        assert client.executions.counts(job_id="one").by_state["succeeded"] == 1
        assert len(client.executions.series(buckets=24).buckets) in (24, 25)
        counted = (client.jobs.statistics("one"), client.scheduler.daily())
        assert [one.total.executions for one in counted] == [1, 1]
        assert client.queues.pause("work").paused is True
        assert client.queues.resume("work").paused is False
        with pytest.raises(Absent):
            client.services.pause("nobody")
        with pytest.raises(Absent):
            client.services.resume("nobody")
        with pytest.raises(Absent):
            client.jobs.get("two")
        client.jobs.create(definition(keepResult=True), job_id="kept")
        assert client.jobs.trigger("kept").result(timeout=20) == {}
        assert client.executions.replay("kept#1").result(timeout=20) == {}
        assert client.executions.result("kept#last").status == 200
    assert not [one for one in threading.enumerate() if one.name == "punctual-client"]
    with pytest.raises(SdkError, match="closed"):
        client.jobs.get("one")


def _read_in_child(client: BlockingClient, found: "multiprocessing.SimpleQueue[list[str]]") -> None:
    with client:
        found.put([job.job_id for job in client.jobs.list()])
    os._exit(0)  # not by the end of Python, which expects the thread that forked to be the main one


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # from Python 3.12 on: it has threads
async def test_it_is_usable_in_a_process_that_forked(world: World) -> None:
    """As in a pool: the child has a loop of its own, and the parent keeps its connections."""

    def use(url: str) -> None:
        fork = multiprocessing.get_context("fork")
        found = fork.SimpleQueue()
        with BlockingClient(url) as client:
            client.jobs.create(definition(), job_id="one")
            child = fork.Process(target=_read_in_child, args=(client, found), daemon=True)
            child.start()
            child.join(20)
            assert child.exitcode == 0
            assert found.get() == ["one"] == [job.job_id for job in client.jobs.list()]

    async with serving(world.service.api) as url:
        await asyncio.to_thread(use, url)


async def test_one_client_serves_several_event_loops(world: World) -> None:
    """Each `asyncio.run` has connections of its own, which are closed with it."""

    def use(url: str) -> None:
        client = Client(url)
        for _ in range(3):
            assert asyncio.run(client.scheduler.nodes()) != []

    async with serving(world.service.api) as url:
        await asyncio.to_thread(use, url)


async def test_calendars_are_stored_previewed_and_removed(client: Client) -> None:
    """Under the version that was read; the changes of all pages are one list (SPEC section 3)."""
    calendar = NewCalendar(free=["2026-01-05"])
    stored = await client.calendars.put("office", calendar, version=0)
    assert (stored.version, stored.week, stored.warnings) == (1, [1, 2, 3, 4, 5], [])
    for number in range(60):
        timer = {"period": "0 0 9 * * ?", "calendar": "office"}
        await client.jobs.create(definition(timer=timer), job_id=f"on-{number}")
    found = await client.calendars.read_dates("2026-01-06 Epiphany", calendar=calendar)
    assert found.calendar.free == ["2026-01-05/2026-01-06"]
    changed = found.calendar.model_dump(exclude_none=True)
    assert (await client.calendars.preview("office", changed, year=2026)).free_days == [
        "2026-01-05/2026-01-06"
    ]
    changes = [job async for job in client.calendars.changes("office", changed)]
    assert len({job.job_id for job in changes}) == 60
    assert {str(job.first_change) for job in changes} == {"2026-01-06 09:00:00+00:00"}
    with pytest.raises(Outdated):
        await client.calendars.put("office", changed, version=0)
    assert (await client.calendars.put("office", changed, version=1)).version == 2
    assert [one.name async for one in client.calendars.list()] == ["office"]
    assert (await client.calendars.get("office", year=2026)).used_by.is_capped
    with pytest.raises(Conflict):
        await client.calendars.delete("office")
    await client.calendars.put("other", {"week": [7]})
    await client.calendars.delete("other")
    with pytest.raises(Absent):
        await client.calendars.get("other")
