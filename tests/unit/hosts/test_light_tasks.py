"""Coroutines that run without a task of their own."""

import asyncio
from typing import Any

import pytest

from scheduler_service.hosts.light_tasks import LightTasks

pytestmark = pytest.mark.anyio


async def test_an_errand_runs_to_its_first_wait_at_once() -> None:
    """And goes on when that wait ends, with what came of it."""
    errands, said = LightTasks(), []
    send_guard: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        said.append("before")
        said.append(await send_guard)

    errands.start(run())
    assert said == ["before"]
    assert len(errands) == 1
    send_guard.set_result("after")
    await errands.wait_for_all()
    assert said == ["before", "after"]


async def test_one_that_starts_soon_runs_nothing_inside_of_its_caller() -> None:
    """What it awaits is none of the caller's business."""
    errands, said = LightTasks(), []

    async def run() -> None:
        said.append(asyncio.current_task())

    errands.start_soon(run())
    assert said == []
    await errands.wait_for_all()
    assert said == [None]


async def test_an_error_that_is_awaited_is_raised_in_the_errand() -> None:
    """As in a task."""
    errands, caught = LightTasks(), []
    send_guard: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        try:
            await send_guard
        except ValueError as error:
            caught.append(str(error))
        await asyncio.sleep(0)

    errands.start(run())
    send_guard.set_exception(ValueError("so"))
    await errands.wait_for_all()
    assert caught == ["so"]


@pytest.mark.parametrize("is_over", [False, True])
async def test_cancelling_ends_an_errand_where_it_waits(is_over: bool) -> None:
    """Also where its wait has just ended and it was not told yet: cleanly, by the way of its finally."""
    errands, said = LightTasks(), []
    send_guard: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        try:
            await send_guard
            said.append("on")
        finally:
            said.append("cleaned up")

    errand = errands.start(run())
    if is_over:
        send_guard.set_result(None)
    errand.cancel()
    await errands.wait_for_all()
    assert said == ["cleaned up"]


async def test_cancelling_before_the_start_runs_nothing() -> None:
    """A call that is abandoned in the turn that made it is never sent."""
    errands, said = LightTasks(), []

    async def run() -> None:
        said.append("on")

    errands.start_soon(run()).cancel()
    await errands.wait_for_all()
    assert said == []


async def test_an_errand_that_breaks_is_told_of_and_stops_nothing_else() -> None:
    """By the loop's handler, as a task's error is."""
    errands = LightTasks()
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    async def run() -> None:
        raise ValueError("so")

    errands.start(run())
    assert [str(one["exception"]) for one in told] == ["so"]
    assert len(errands) == 0


async def test_each_end_is_told_by_its_label() -> None:
    """Of one that ran through, broke, was cancelled, or never began."""
    ended: list[str] = []
    errands = LightTasks(on_end=ended.append)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(wait: bool, breaks: bool = False) -> None:
        if breaks:
            raise ValueError
        if wait:
            await never

    errands.start(run(wait=False), "through")
    errands.start(run(wait=False, breaks=True), "broken")
    assert ended == ["through", "broken"]
    errands.start(run(wait=True), "cancelled")
    errands.start_soon(run(wait=True), "never begun")
    errands.cancel()
    await errands.wait_for_all()
    assert sorted(ended[2:]) == ["cancelled", "never begun"]


async def test_waiting_ends_with_the_first_that_ends() -> None:
    """So that a place among many is taken again."""
    errands = LightTasks()
    gates = [asyncio.get_running_loop().create_future() for _ in range(2)]

    async def run(send_guard: "asyncio.Future[None]") -> None:
        await send_guard

    for send_guard in gates:
        errands.start(run(send_guard))
    waiting = asyncio.create_task(errands.wait())
    await asyncio.sleep(0)
    gates[1].set_result(None)
    await waiting
    assert len(errands) == 1
    gates[0].set_result(None)
    await errands.wait_for_all()
    await errands.wait()
