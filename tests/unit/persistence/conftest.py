"""The stores that pass the suites, and the places of a history: a new one adds one line here."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from scheduler_service.persistence.history.database import HistoryDatabase, migrate
from scheduler_service.persistence.history.schema import MIGRATIONS
from scheduler_service.persistence.job_store.state_store import ServerStateStore
from scheduler_service.persistence.sql.sqlite import IN_MEMORY
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.state import OpenStore
from tests.redis_server import APPENDING, RedisServer
from tests.unit.persistence.queue_bench import Bench
from tests.unit.persistence.servers import command, lend_database, make_database


class ClosingTable(Protocol):
    """What all tables can."""

    async def close(self) -> None: ...


AnyTable = TypeVar("AnyTable", bound=ClosingTable)
Opener = Callable[[pytest.FixtureRequest, Path], Awaitable[OpenStore]]


OPENERS: dict[str, Opener] = {
    "sqlite file": lambda _, folder: SqliteStateStore.open(folder=folder),
    "sqlite memory": lambda _, folder: SqliteStateStore.open(folder=None),
    "sql, sqlite": lambda _, folder: ServerStateStore.open(url=f"sqlite:///{folder}.db"),
    "sql, postgresql": lambda request, _: ServerStateStore.open(
        url=request.getfixturevalue("postgres_cluster_url")
    ),
    "sql, mariadb": lambda request, _: ServerStateStore.open(
        url=request.getfixturevalue("mariadb_cluster_url")
    ),
}
DATABASES = tuple(name for name in OPENERS if name != "sqlite memory")


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


@asynccontextmanager
async def opened(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Any]:
    """The store that the request's parameter names."""
    store = await OPENERS[request.param](request, folder / "data")
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture(params=OPENERS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenStore]:
    async with opened(request, tmp_path) as store:
        yield store


@pytest.fixture(params=["sqlite file", "sqlite memory", "sql, postgresql", "sql, mariadb"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """Queues over each way in which a store runs their statements."""
    async with opened(request, tmp_path) as store:
        yield Bench(store)


@pytest.fixture(scope="session")
def postgres_history(postgres_server: str) -> str:
    """A database with the tables of the history, for one test after the other."""
    url = make_database(postgres_server)
    assert migrate(url=url).up_to_date
    return url


@pytest.fixture
def postgres_url(postgres_history: str) -> str:
    """The same, emptied, and nobody connected who was forgotten: much quicker than a database for each."""
    command(
        postgres_history,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
        "; ".join(f"DELETE FROM {table}" for table in MIGRATIONS.tables),
    )
    return postgres_history


@pytest.fixture(scope="session")
def mariadb_history(mariadb_server: str) -> str:
    """The same in MariaDB."""
    url = make_database(mariadb_server)
    assert migrate(url=url).up_to_date
    return url


@pytest.fixture
def mariadb_url(mariadb_history: str) -> str:
    """The same, emptied."""
    command(mariadb_history, *(f"DELETE FROM {table}" for table in MIGRATIONS.tables))
    return mariadb_history


SERVERS = {"postgresql": "postgres", "mariadb": "mariadb"}
"""Servers where a history may lie, and how their fixtures begin."""


@pytest.fixture(params=SERVERS)
def server_url(request: pytest.FixtureRequest) -> str:
    """A history on each server."""
    found: str = request.getfixturevalue(f"{SERVERS[request.param]}_url")
    return found


@pytest.fixture
def bare_postgres_url(postgres_server: str) -> Iterator[str]:
    """A database without tables."""
    yield from lend_database(postgres_server)


@pytest.fixture
def bare_mariadb_url(mariadb_server: str) -> str:
    """The same in MariaDB."""
    return make_database(mariadb_server)


@pytest.fixture(params=["file", *SERVERS])
def bare_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a history may lie, without tables yet."""
    if request.param == "file":
        return f"sqlite:///{tmp_path}/history.db"
    found: str = request.getfixturevalue(f"bare_{SERVERS[request.param]}_url")
    return found


@pytest.fixture(params=["memory", "file", *SERVERS])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a history may lie, each in turn."""
    if request.param in SERVERS:
        found: str = request.getfixturevalue(f"{SERVERS[request.param]}_url")
        return found
    return IN_MEMORY if request.param == "memory" else f"sqlite:///{tmp_path}/history.db"


@asynccontextmanager
async def opened_table(kind: Callable[..., AnyTable], url: str, **options: Any) -> AsyncIterator[AnyTable]:
    """A table of this kind in the history at `url`."""
    with closing(HistoryDatabase(url=url, durability="process")) as database:
        table = kind(database=database, **options)
        yield table
        await table.close()
