"""Tenants under the same names, at random, wherever jobs live: none sees another (SPEC section 14)."""

import time
from pathlib import Path

import pytest

from tests.wire.processes.placements import PLACEMENTS, Starting
from tests.wire.target import Target
from tests.wire.tenant_traffic import settings_of, tenants_at

SEED = 47
ROUNDS = 160
LONG_SECONDS = 150


async def drive(starting: Starting, folder: Path, *, rounds: int = 0, seconds: float = 0) -> set[str]:
    """What no tenant could do; everything is judged."""
    async with (
        Target(lambda: round(time.time() * 1_000)) as target,
        starting(folder, settings_of(target.url)) as placed,
        tenants_at(placed.urls, target, SEED) as traffic,
    ):
        await traffic.drive(rounds=rounds, seconds=seconds)
        await traffic.judge_end()
        await placed.stop()
    traffic.judge_log(placed.said())
    traffic.judge_files(folder / "data")
    print(starting.__name__, traffic.requests, traffic.refused, traffic.foreign)
    return traffic.missing()


@pytest.mark.parametrize("starting", PLACEMENTS)
async def test_no_tenant_is_shown_anything_of_another(starting: Starting, tmp_path: Path) -> None:
    """Answers, lists, counts, events, what targets are sent, and lines of the log; no secret either."""
    await drive(starting, tmp_path, rounds=ROUNDS)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("starting", PLACEMENTS)
async def test_nor_for_minutes(starting: Starting, tmp_path: Path) -> None:
    """All that the API offers has been done with success then."""
    assert await drive(starting, tmp_path, seconds=LONG_SECONDS) == set()
