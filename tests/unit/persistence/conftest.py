"""The stores that pass the suites: a new implementation adds one line to OPENERS."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from scheduler_service.persistence.redis.store import RedisStateStore
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.state import OpenStore
from tests.redis_server import APPENDING, RedisServer

Opener = Callable[[pytest.FixtureRequest, Path], Awaitable[OpenStore]]


async def _open_redis(request: pytest.FixtureRequest, _: Path) -> OpenStore:
    server: RedisServer = request.getfixturevalue("redis")
    return await RedisStateStore.open(address=server.address, durability="process")


OPENERS: dict[str, Opener] = {
    "sqlite file": lambda _, folder: SqliteStateStore.open(folder=folder),
    "sqlite share": lambda _, folder: SqliteStateStore.open(folder=folder, share=3),
    "sqlite memory": lambda _, folder: SqliteStateStore.open(folder=None),
    "redis": _open_redis,
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A running server; skips where Redis is not installed."""
    server = RedisServer(tmp_path_factory.mktemp("redis"), *APPENDING).start()
    yield server
    server.kill()


@pytest.fixture
def redis(redis_server: RedisServer) -> RedisServer:
    """The server, emptied."""
    with redis_server.client as client:
        client.flushall()
    return redis_server


@pytest.fixture(params=OPENERS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenStore]:
    store = await OPENERS[request.param](request, tmp_path / "data")
    yield store
    await store.close()
