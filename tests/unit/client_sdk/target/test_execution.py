"""What a job's function knows of its execution, and how it reports progress (SPEC sections 5, 16)."""

import asyncio

import pytest

from client_sdk import JobFailed, NotWanted
from client_sdk.target import Execution
from tests.unit.client_sdk.target.scheduled import scheduled


async def test_an_asynchronous_job_from_trigger_to_end() -> None:
    """Parameters in, progress and verdict out, through the whole scheduler."""

    async def fetch(count: int, execution: Execution) -> dict[str, int]:
        async with execution.progress(count, message="fetching") as progress:
            for _ in range(count):
                await progress.advance()
        return {"fetched": count, "attempt": execution.request_counts}

    async with scheduled(fetch=(fetch, {})) as (_, client):
        ended = await client.wait_for(await client.jobs.trigger("fetch", {"count": 60}), timeout=20)
        assert (ended.state, ended.progress) == ("succeeded", "60/60")
        [attempt] = ended.attempts
        reports = [one["body"] for one in attempt.feedback]
        told = [(one["status"], one.get("progress")) for one in reports]
        assert (told[0], told[-2:]) == (("", "0/60"), [("", "60/60"), ("succeed", None)])


async def test_a_failure_has_the_code_of_the_business() -> None:
    """Retry policies see it; an exception that nobody meant is 500."""

    async def fetch(error: str | None = None) -> None:
        if error:
            raise JobFailed("no such folder", error=error)
        raise RuntimeError("oops")

    retry = [{"errorEquals": "E1", "intervalSeconds": 0, "maxAttempts": 1}]
    async with scheduled(fetch=(fetch, {"retry": retry})) as (world, client):
        fired = await client.jobs.trigger("fetch", {"error": "E1"})

        async def has_retried() -> bool:
            await world.advance(0.01)
            return (await client.executions.get(fired)).state == "terminated"

        await world.until(has_retried)
        ended = await client.executions.get(fired)
        assert (ended.error, ended.failure_type, ended.attempt_count) == ("E1", "business", 2)
        other = await client.wait_for(await client.jobs.trigger("fetch"), timeout=20)
        assert (other.state, other.error) == ("terminated", "500")


async def test_work_that_nobody_wants_is_stopped() -> None:
    """The scheduler calls `cancelUrl`; and whoever reports afterwards is told."""
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def fetch(execution: Execution) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with scheduled(fetch=(fetch, {})) as (_, client):
        fired = await client.jobs.trigger("fetch")
        await begun.wait()
        await client.executions.cancel(fired)
        await stopped.wait()
        assert (await client.executions.wait_for(fired)).state == "cancelled"


async def test_a_stale_report_says_stop() -> None:
    """Where cancelUrl reached another instance: the next progress raises NotWanted in the function."""
    raised: list[Exception] = []
    begun, go, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def fetch(execution: Execution) -> None:
        begun.set()
        await go.wait()
        try:
            await execution.report(progress="1/2")
        except NotWanted as why:
            raised.append(why)
            raise
        finally:
            done.set()

    async with scheduled(fetch=(fetch, {})) as (_, client):
        definition = dict((await client.jobs.get("fetch")).definition)
        del definition["cancelUrl"]
        await client.jobs.update("fetch", definition)
        fired = await client.jobs.trigger("fetch")
        await begun.wait()
        await client.executions.cancel(fired)
        go.set()
        await done.wait()
        assert "no longer awaited" in str(raised[0])


async def test_a_function_in_a_thread_reports_too() -> None:
    """In `with`, blocking."""

    def fetch(execution: Execution) -> None:
        with execution.progress(3) as progress:
            progress.update(3, message="all")
            assert progress.done == 3

    async with scheduled(fetch=(fetch, {})) as (_, client):
        ended = await client.wait_for(await client.jobs.trigger("fetch"), timeout=20)
        assert (ended.state, ended.progress) == ("succeeded", "3/3")


def test_a_thread_that_outlives_its_application_is_told_to_stop() -> None:
    """Its loop is closed, and no report is left that nobody awaits."""
    loop = asyncio.new_event_loop()
    loop.close()
    with (
        pytest.raises(NotWanted, match="application has ended"),
        Execution(job_id="a", loop=loop).progress(2),
    ):
        raise AssertionError("it does not begin")
