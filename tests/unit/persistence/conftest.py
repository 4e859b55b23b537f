"""The stores that pass the suites: a new implementation adds one line to OPENERS."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from scheduler_service.persistence.state.sqlite_store import SqliteStateStore

Opener = Callable[[Path], Awaitable[SqliteStateStore]]

OPENERS: dict[str, Opener] = {
    "sqlite file": lambda folder: SqliteStateStore.open(folder=folder),
    "sqlite memory": lambda folder: SqliteStateStore.open(folder=None),
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=OPENERS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqliteStateStore]:
    store = await OPENERS[request.param](tmp_path / "data")
    yield store
    await store.close()
