"""Tenants under the same names, at random, over two worker processes: none sees another (SPEC section 14)."""

import asyncio
import time
from pathlib import Path

from tests.wire.processes.process import serve
from tests.wire.target import Target
from tests.wire.tenant_traffic import settings_of, tenants_at

SEED = 47
ROUNDS = 160


async def test_no_tenant_is_shown_anything_of_another(tmp_path: Path) -> None:
    """Answers, lists, counts, events, what targets are sent, and lines of the log; no secret either."""
    data = tmp_path / "data"
    async with Target(lambda: round(time.time() * 1_000)) as target:
        with serve(data, "--workers", "2", **settings_of(target.url)) as process:
            url = await asyncio.to_thread(process.wait_for_url)
            async with tenants_at([url], target, SEED) as traffic:
                await traffic.drive(rounds=ROUNDS)
                await traffic.judge_end()
                assert await asyncio.to_thread(process.stop) == 0
    traffic.judge_log([*process.out, *process.err])
    traffic.judge_files(data)
