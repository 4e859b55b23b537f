"""An open history in memory, in a file or in PostgreSQL, with its writer and its reads."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler_service.persistence.history.database import HistoryDatabase, migrate
from scheduler_service.persistence.history.reads import HistoryReads
from scheduler_service.persistence.history.schema import metadata
from scheduler_service.persistence.history.sqlite import IN_MEMORY
from scheduler_service.persistence.history.writer import HistoryWriter
from tests.unit.persistence.servers import make_database, postgres_server


class Room:
    """The whole room on one database; what the writer reported is kept."""

    def __init__(self, url: str, pending_bytes: int = 64 << 20) -> None:
        self.database = HistoryDatabase(url=url, durability="process")
        self.confirmed: list[tuple[str, int]] = []
        self.troubles: list[str | None] = []
        self.reads = HistoryReads(database=self.database)
        self.writer = HistoryWriter(
            database=self.database,
            on_written=self.confirmed.extend,
            on_trouble=self.troubles.append,
            pending_bytes=pending_bytes,
            linger_seconds=0.01,
            pauses_seconds=(0.01,),
        )

    async def close(self) -> None:
        await self.writer.close()
        await self.reads.close()
        self.database.close()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


assert postgres_server is not None


@pytest.fixture(scope="session")
def postgres_history(postgres_server: str) -> str:
    """A database with the tables of the history, for one test after the other."""
    url = make_database(postgres_server)
    assert migrate(url=url).up_to_date
    return url


@pytest.fixture
def postgres_url(postgres_history: str) -> str:
    """The same, emptied, and nobody connected who was forgotten: much quicker than a database for each."""
    import psycopg

    with psycopg.connect(postgres_history, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        for table in metadata.tables:
            connection.execute(f"DELETE FROM {table}")  # type: ignore[arg-type]
    return postgres_history


@pytest.fixture
def bare_postgres_url(postgres_server: str) -> str:
    """The same without tables."""
    return make_database(postgres_server)


@pytest.fixture(params=["memory", "file", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a history may lie, each in turn."""
    if request.param == "postgresql":
        found: str = request.getfixturevalue("postgres_url")
        return found
    return IN_MEMORY if request.param == "memory" else f"sqlite:///{tmp_path}/history.db"


@pytest.fixture
async def room(url: str) -> AsyncIterator[Room]:
    opened = Room(url)
    yield opened
    await opened.close()


@pytest.fixture
async def file_room(tmp_path: Path) -> AsyncIterator[Room]:
    opened = Room(f"sqlite:///{tmp_path}/history.db")
    yield opened
    await opened.close()
