"""An open history with its writer and its reads."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.reads import HistoryReads
from scheduler_service.persistence.history.writer import HistoryWriter


class Room:
    """The whole room on one database; what the writer reported is kept."""

    def __init__(
        self,
        url: str,
        *,
        pending_bytes: int = 64 << 20,
        flush_seconds: float = 0.01,
        faults: FaultPoints | None = None,
    ) -> None:
        self.database = HistoryDatabase(url=url, durability="process", faults=faults)
        self.confirmed: list[tuple[str, int]] = []
        self.troubles: list[str | None] = []
        self.changed: list[str] = []
        self.reads = HistoryReads(database=self.database)
        self.writer = HistoryWriter(
            database=self.database,
            on_written=self.confirmed.extend,
            on_trouble=self.troubles.append,
            on_changed=self.changed.append,
            pending_bytes=pending_bytes,
            flush_seconds=flush_seconds,
            pauses_seconds=(0.01,),
        )

    async def close(self) -> None:
        await self.writer.close()
        await self.reads.close()
        self.database.close()


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
