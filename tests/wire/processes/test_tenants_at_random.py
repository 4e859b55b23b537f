"""Tenants under the same names, at random, wherever jobs live: none sees another (SPEC section 14)."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.wire.processes.daprd import Sidecars
from tests.wire.processes.process import Process, serve
from tests.wire.target import Target
from tests.wire.tenant_traffic import settings_of, tenants_at

SEED = 47
ROUNDS = 120
LONG_SECONDS = 150

Starting = Callable[[Path, Target], AbstractAsyncContextManager[Sequence[Process]]]


@contextlib.asynccontextmanager
async def alone(folder: Path, target: Target) -> AsyncIterator[Sequence[Process]]:
    with serve(folder / "data", **settings_of(target.url)) as process:
        yield [process]


@contextlib.asynccontextmanager
async def siblings(folder: Path, target: Target) -> AsyncIterator[Sequence[Process]]:
    with serve(folder / "data", "--workers", "2", **settings_of(target.url)) as process:
        yield [process]


@contextlib.asynccontextmanager
async def dapr(folder: Path, target: Target) -> AsyncIterator[Sequence[Process]]:
    """Two nodes over stand-ins of their sidecars."""
    given = settings_of(target.url)
    async with Sidecars(("one", "two")).serving() as sidecars:
        with contextlib.ExitStack() as running:
            yield [
                running.enter_context(serve(folder / "data", "--runtime", "dapr", **given, **environ))
                for environ in sidecars.environ.values()
            ]
        (folder / "data" / "actors").write_bytes(b"\n".join(sidecars.state.values()))


async def drive(starting: Starting, folder: Path, *, rounds: int, seconds: float = 0) -> set[str]:
    """What no tenant could do; everything is judged."""
    async with Target(lambda: round(time.time() * 1_000)) as target, starting(folder, target) as processes:
        urls = [await asyncio.to_thread(process.wait_for_url) for process in processes]
        async with tenants_at(urls, target, SEED) as traffic:
            await traffic.drive(rounds=rounds, seconds=seconds)
            await traffic.judge_end()
        codes = [await asyncio.to_thread(process.stop) for process in processes]
        assert codes == [0] * len(processes)
    traffic.judge_log(line for process in processes for line in (*process.out, *process.err))
    traffic.judge_files(folder / "data")
    print(starting.__name__, traffic.requests, traffic.refused, traffic.foreign)
    return traffic.missing()


@pytest.mark.parametrize("starting", [alone, siblings, dapr])
async def test_no_tenant_is_shown_anything_of_another(starting: Starting, tmp_path: Path) -> None:
    """Answers, lists, counts, events, what targets are sent, and lines of the log; no secret either."""
    await drive(starting, tmp_path, rounds=ROUNDS)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("starting", [alone, siblings, dapr])
async def test_nor_for_minutes(starting: Starting, tmp_path: Path) -> None:
    """Until every tenant has done with success all that the API offers."""
    assert await drive(starting, tmp_path, rounds=0, seconds=LONG_SECONDS) == set()
