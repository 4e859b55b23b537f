"""Plays stories over services that are killed at chosen points."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.homes import Home, SqliteHome
from tests.faults.processes import Crashed, Run, start_run
from tests.faults.stories import Story
from tests.faults.target import Target, open_target

# What lies between these is not durable and was not sent.
DURABLE = ("state.commit", "contexts.put", "history.commit", "send")
SIDES = ("before", "after")
EVERYWHERE = tuple(f"{side} {point}" for point in DURABLE if point != "contexts.put" for side in SIDES)
"""Each kind of place of a service whose contexts are in its file."""
AT_ONCE = 5
SETTINGS = {"notification.interval_seconds": 0.2, "store.durability": "process"}

Tell = Callable[[Target], Story]
House = Callable[[Path], Home]


async def sweep_group(
    folder: Path,
    tell: Tell,
    *,
    points: Sequence[int],
    least: int = 1,
    house: House = SqliteHome,
) -> list[str]:
    """Kills at each of `points`, in order, until a story ends before its point.

    Returns where it was killed, a place for each point: `least` of them, where there are so many points.
    """
    places = asyncio.Semaphore(AT_ONCE)
    ended = asyncio.Event()
    swept: list[str] = []

    async def sweep(point: int) -> None:
        async with places:
            if ended.is_set():
                return
            killed = await survive(house(folder / str(point)), tell, point)
            swept.extend(killed)
            if not killed:
                ended.set()

    async with asyncio.TaskGroup() as group:
        for point in points:
            group.create_task(sweep(point))
    assert len(swept) >= min(least, len(points)), swept
    return swept


async def survive(home: Home, tell: Tell, point: int, *, only: Sequence[str] = DURABLE) -> list[str]:
    """Plays one story in a life that is killed at its point, then in one that is not; where it was killed."""
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(open_target())
        story = tell(target)
        killed: list[str] = []
        try:
            run = await _live(home, story, target, point, only)
            killed += [run.killed_at] if run.killed_at else []
            run = start_run(home.folder, settings=SETTINGS | home.settings)
            target.life += 1
            assert await run.is_up(), run.message
            await story.play(run)
            await story.check(run, home)
        except BaseException as error:
            error.add_note(f"point {point}, killed at {killed}, log {home.folder}.log")
            raise
    return killed


async def _live(home: Home, story: Story, target: Target, point: int, only: Sequence[str]) -> Run:
    """One life, killed at `point`, or at the end of the story where that comes first."""
    target.life += 1
    run = start_run(home.folder, settings=SETTINGS | home.settings, point=point, only=tuple(only))
    try:
        if await run.is_up():
            await story.play(run)
    except Crashed:
        pass
    await run.kill()
    assert run.code == -9, (run.code, run.message)
    await story.note(home)
    return run


def kills(stride: int, usual: int, *, most: int = 1000) -> list[Any]:
    """One kill for the usual run; for the long run every point to `most`, in `stride` groups."""
    groups = [range(first, most, stride) for first in range(1, stride + 1)]
    long = [pytest.param(group, id=f"from {group[0]}", marks=pytest.mark.long) for group in groups]
    return [pytest.param([usual], id=f"at {usual}"), *long]
