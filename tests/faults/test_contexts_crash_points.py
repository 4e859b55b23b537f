"""Contexts in Redis: Punctual is killed at its points, and so is the server (SPEC sections 5 and 8).

The usual run kills the server at one point; `--long` at every point.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.homes import ContextsHome
from tests.faults.processes import PATIENCE, Caller, Crashed, Run, start_run
from tests.faults.stories import Story, Sweep
from tests.faults.sweeping import DURABLE, SETTINGS, House, kills, survive
from tests.faults.target import open_target
from tests.redis_server import SYNCING, RedisServer

pytestmark = pytest.mark.timeout(600)
SERVERS = 3
START = 10
"""As many points belong to the start: without its store it is refused, and the next one makes it good."""
AWAY = httpx.codes.SERVICE_UNAVAILABLE
PLACES = ("before contexts.put", "after contexts.put", "before state.commit", "after state.commit")


async def test_each_place_of_a_turn_may_be_the_last(tmp_path: Path, contexts_house: House) -> None:
    """Before the put, between it and the commit, after the commit: as if contexts were in the row."""

    async def crash(place: str) -> list[str]:
        home = contexts_house(tmp_path / place.replace(" ", "-"))
        return await survive(home, partial(Sweep, qos=1), 2, only=(place,))

    assert await asyncio.gather(*map(crash, PLACES)) == [[place] for place in PLACES]


class Patient(Caller):
    """Asks again while the store is away: 503 says that nothing was done, or that nobody knows."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def is_dead(self) -> bool:
        return self._run.is_dead

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = await self._run.ask(method, path, **options)
                if answer.status_code != AWAY:
                    return answer
                await asyncio.sleep(0.05)


async def outlive_the_server(folder: Path, point: int) -> bool:
    """One story whose server is killed at a point of the service and revived; False: it ended before."""
    server = RedisServer(folder / "redis", *SYNCING).start()
    home = ContextsHome(folder / "data", server.address)
    async with AsyncExitStack() as stack:
        stack.callback(server.kill)
        target = await stack.enter_async_context(open_target())
        story = Sweep(target, qos=1)
        assert server.process is not None
        first = run = start_run(
            home.folder,
            settings=SETTINGS | home.settings,
            point=point,
            only=DURABLE,
            victim=server.process.pid,
        )
        reviving = asyncio.create_task(revive(run, server))
        try:
            assert await run.is_up(), run.message
            await play(story, run)
            # Of what the history has, the store may have missed the news: the next start tells it again.
            assert await run.terminate() == 0
            run = start_run(home.folder, settings=SETTINGS | home.settings)
            assert await run.is_up(), run.message
            await story.check(run, home)
        except BaseException as error:
            error.add_note(f"point {point}, killed at {first.killed_at}, log {home.folder}.log")
            raise
        finally:
            reviving.cancel()
        counts = Counter(one.identity for one in target.seen if one.path != "/told")
        assert max(counts.values()) == 1, counts.most_common(2)
    return first.killed_at is not None


async def play(story: Story, run: Run) -> None:
    """The story to its end; the service lives through all of it."""
    try:
        await story.play(Patient(run))
    except Crashed:
        raise AssertionError(f"the service died: {run.code}, {run.message}") from None


async def revive(run: Run, server: RedisServer) -> None:
    """Starts the server again once it was killed."""
    while run.killed_at is None:  # noqa: ASYNC110 - what is waited for happens in another process
        await asyncio.sleep(0.01)
    await asyncio.to_thread(lambda: (server.kill(), server.start()))


@pytest.mark.parametrize("points", kills(25, 31, most=76))
async def test_a_killed_server_changes_no_outcome(tmp_path: Path, points: Sequence[int]) -> None:
    """Killed (-9) before and after commits and sends, and started again: the service goes on by itself.

    With `appendfsync always`; every call is made once, whatever the qos, for Punctual itself never died.
    """
    places = asyncio.Semaphore(SERVERS)

    async def outlive(point: int) -> bool:
        async with places:
            return await outlive_the_server(tmp_path / str(point), point)

    assert any(await asyncio.gather(*(outlive(START + point) for point in points)))
