"""Tenants under the same names at random, on a real cluster: none sees another (SPEC section 14)."""

import asyncio
import contextlib
import time
from pathlib import Path

import pytest

from tests.sidecar.stage import staged_on_postgres
from tests.wire.target import Target
from tests.wire.tenant_traffic import settings_of, tenants_at

SEED = 47
SECONDS = 150
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


async def test_no_tenant_is_shown_anything_of_another(tmp_path: Path, programs: dict[str, str]) -> None:
    """Two nodes, PostgreSQL, contexts in Redis; all that they keep and log is read, too."""
    async with Target(lambda: round(time.time() * 1_000)) as target, contextlib.AsyncExitStack() as ending:
        environ = settings_of(target.url)
        running = staged_on_postgres(tmp_path, programs, "one", "two", environ=environ)
        stage = await asyncio.to_thread(running.__enter__)
        ending.push_async_callback(asyncio.to_thread, running.__exit__, None, None, None)
        urls = [f"http://127.0.0.1:{ports.api}" for ports in stage.cluster.nodes.values()]
        async with tenants_at(urls, target, SEED) as traffic:
            await traffic.drive(seconds=SECONDS)
            await traffic.judge_end()
    for name in ("one", "two", "daprd-one", "daprd-two"):
        log = (tmp_path / f"{name}.log").read_text(encoding="utf-8")
        traffic.judge_log(log.splitlines())
    traffic.judge_files(tmp_path)
    print(traffic.requests, traffic.refused, traffic.foreign)
    assert traffic.missing() == set()
