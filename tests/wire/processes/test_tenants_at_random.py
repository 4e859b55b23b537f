"""Tenants under the same names, at random, over two worker processes: none sees another (SPEC section 14)."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.wire.processes.process import serve
from tests.wire.target import Target
from tests.wire.tenant_traffic import settings_of, tenants_at

SEED = 47
ROUNDS = 100
LONG_SECONDS = 150


async def drive(folder: Path, *, workers: int = 2, rounds: int = 0, seconds: float = 0) -> set[str]:
    """What no tenant could do; everything is judged."""
    data = folder / "data"
    async with Target(lambda: round(time.time() * 1_000)) as target:
        with serve(data, "--workers", str(workers), **settings_of(target.url)) as process:
            url = await asyncio.to_thread(process.wait_for_url)
            async with tenants_at([url], target, SEED) as traffic:
                await traffic.drive(rounds=rounds, seconds=seconds)
                await traffic.judge_end()
                assert await asyncio.to_thread(process.stop) == 0
    traffic.judge_log([*process.out, *process.err])
    traffic.judge_files(data)
    return traffic.missing()


async def test_no_tenant_is_shown_anything_of_another(tmp_path: Path) -> None:
    """Answers, lists, counts, events, what targets are sent, and lines of the log; no secret either."""
    await drive(tmp_path, rounds=ROUNDS)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("workers", [1, 2])
async def test_nor_for_minutes(tmp_path: Path, workers: int) -> None:
    """All that the API offers has been done with success then."""
    assert await drive(tmp_path, workers=workers, seconds=LONG_SECONDS) == set()
