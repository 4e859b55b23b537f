"""The figures of a process's parts, on both hosts and both stores (SIGUSR1)."""

from pathlib import Path

from scheduler_service.app.node import open_node
from scheduler_service.app.service import open_service
from scheduler_service.settings import load_settings
from tests.redis_server import SYNCING, RedisServer

SERVED = "http://127.0.0.1:8000"
IDLE = {
    "jobs": {"held": 0, "running": 0, "calls": 0, "parts": 0, "notifications": 0},
    "calls": {"origins": {}},
    "store": {"commitsWaiting": 0},
    "history": {"batchesWaiting": 0, "bytesWaiting": 0},
}


async def test_a_service_that_does_nothing_says_so() -> None:
    """All figures are there, and it has no worker processes."""
    service = await open_service(load_settings({"store.data": ":memory:"}, {}), served=SERVED, log=_ignore)
    assert service.describe() == IDLE
    assert list(service.processes()) == []
    await service.stop(0)


async def test_a_service_with_contexts_in_redis_too(tmp_path: Path) -> None:
    """Its store has another one before it."""
    server = RedisServer(tmp_path / "redis", *SYNCING).start()
    try:
        given = {"store.data": ":memory:", "contexts.url": server.url}
        service = await open_service(load_settings(given, {}), served=SERVED, log=_ignore)
        assert service.describe() == IDLE
        await service.stop(0)
    finally:
        server.kill()


async def test_a_node_too(tmp_path: Path) -> None:
    """It is one process."""
    node = await open_node(load_settings({"store.data": str(tmp_path)}, {}), served=SERVED, log=_ignore)
    assert node.describe() == IDLE
    assert list(node.processes()) == []
    await node.stop(0)


def _ignore(_: str, /, **keys: object) -> None:
    return
