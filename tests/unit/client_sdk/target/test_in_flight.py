"""The work that is under way in an instance: each attempt once (SPEC section 13)."""

import asyncio

import pytest

from tests.unit.client_sdk.target.called_service import place

pytestmark = pytest.mark.anyio


async def test_a_call_that_is_repeated_joins_the_first() -> None:
    """The scheduler sends a call again after a crash, with its key: the work is done once."""
    async with place() as at:
        go, both, times = asyncio.Event(), asyncio.Event(), []

        @at.service.job(job_id="slow")
        async def slow() -> int:
            times.append(1)
            if len(times) == 2:
                both.set()
            await go.wait()
            return len(times)

        calls = [asyncio.create_task(at.call("slow")) for _ in range(2)]
        other = asyncio.create_task(at.call("slow", Idempotency_Key="life-8-0"))
        await both.wait()
        go.set()
        assert [(await call).json() for call in [*calls, other]] == [2, 2, 2]
        assert len(times) == 2


async def test_what_takes_too_long_is_stopped() -> None:
    """After the grace; it had begun, so that counts as an attempt: no draining mark."""
    async with place(grace_seconds=0.01) as at:
        begun = asyncio.Event()

        @at.service.job(job_id="slow")
        async def slow() -> None:
            begun.set()
            await asyncio.Event().wait()

        await at.service.start()
        first = asyncio.create_task(at.call("slow"))
        await begun.wait()
        await at.service.stop()
        answer = await first
        assert (answer.status_code, answer.json()["error"]) == (503, "interrupted")
        assert "x-instance-state" not in answer.headers


async def test_a_job_is_cancelled_from_outside() -> None:
    """`cancelUrl` stops the attempt that its headers name, and no other."""
    async with place() as at:
        begun = asyncio.Event()

        @at.service.job(job_id="slow", asynchronous=True)
        async def slow() -> None:
            begun.set()
            await asyncio.Event().wait()

        url = "http://scheduler.test/jobs/slow/feedback/9?token=t"
        assert (await at.call("slow", Feedback_Url=url)).status_code == 202
        await begun.wait()
        other = await at.call("slow/cancel", X_Scheduling_Request_Counts="8")
        assert other.json() == {"stopped": 0}
        assert (await at.call("slow/cancel")).json() == {"stopped": 1}
        assert at.registry.reports == []
