"""A real Redis: fit, unfit, and gone; no password is shown."""

from pathlib import Path

import pytest

from scheduler_service.app.doctor.redis_store import examine_redis
from tests.redis_server import SYNCING, RedisServer
from tests.unit.app.doctor.subjects import states, subject

pytestmark = pytest.mark.anyio


async def test_a_server_is_judged_by_what_it_keeps(tmp_path: Path) -> None:
    """Fit; then without its log; then it is gone."""
    server = RedisServer(tmp_path / "redis", *SYNCING).start()
    try:
        given = subject(store__url=server.url)
        assert states(await examine_redis(given)) == {"answer": "ok", "fit": "ok", "Redis": "ok"}
        server.client.config_set("appendonly", "no")
        findings = await examine_redis(given)
        assert states(findings)["fit"] == "failed"
        assert any("set appendonly yes" in one.detail for one in findings)
    finally:
        server.kill()
    assert states(await examine_redis(given)) == {"answer": "failed"}
    secret = subject(store__url=server.url.replace("//", "//me:hidden@"))
    assert "hidden" not in str(await examine_redis(secret))


async def test_without_redis_nothing_is_said() -> None:
    """The state is in the folder."""
    assert await examine_redis(subject()) == []
