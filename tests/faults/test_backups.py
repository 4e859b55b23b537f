"""A backup of a running service, restored after its death, goes on as after a crash (SPEC section 8)."""

import asyncio
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from scheduler_service.app.data_folder import history_address
from scheduler_service.maintenance.backup import back_up, restore
from scheduler_service.settings import Settings
from tests.faults.homes import SqliteHome
from tests.faults.processes import Crashed, start_run
from tests.faults.stories import Sweep
from tests.faults.sweeping import DURABLE, SETTINGS
from tests.faults.target import open_target

pytestmark = pytest.mark.timeout(180)
AT_ONCE = 3


def history_of(folder: Path) -> str:
    return history_address(Settings(), folder)


def _say_nothing(name: str, done: int, size: int) -> None:
    """Nobody watches."""


async def survive(folder: Path, point: int) -> None:
    """Makes a backup when `point` writes and sends are passed, then kills the service; goes on elsewhere."""
    data, restored = folder / "data", folder / "restored"
    async with open_target() as target:
        story = Sweep(target, qos=1)
        target.life = 1
        run = start_run(data, settings=SETTINGS, tells=True, only=DURABLE)
        assert await run.is_up(), run.message
        playing = asyncio.create_task(story.play(run))
        await story.until_triggered(run)
        await run.pass_points(point)
        seen = len(target.seen)
        copy = partial(back_up, data, history_of(data), folder / "backup", now=0, on_progress=_say_nothing)
        await asyncio.to_thread(copy)
        await run.kill()
        with suppress(Crashed):
            await playing
        await asyncio.to_thread(
            restore, folder / "backup", restored, history_of(restored), on_progress=_say_nothing
        )
        await story.note_backup(seen, SqliteHome(restored))
        target.life = 2
        run = start_run(restored, settings=SETTINGS)
        assert await run.is_up(), run.message
        await story.play(run)
        await story.check(run, SqliteHome(restored))


@pytest.mark.long
async def test_a_restored_backup_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Made at many moments of executions with retries, checks and notifications, under load of others."""
    places = asyncio.Semaphore(AT_ONCE)

    async def survive_in_turn(point: int) -> None:
        async with places:
            folder = tmp_path / str(point)
            folder.mkdir()
            await survive(folder, point)

    async with asyncio.TaskGroup() as group:
        for point in range(1, 60, 4):
            group.create_task(survive_in_turn(point))
