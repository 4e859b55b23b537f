"""An open history with its writer and its reads."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.history_reads import HistoryReads
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


MakeRoom = Callable[..., Room]
"""Opens a room on `url`, where none is given in a file of the test; `options` are those of a room."""


@pytest.fixture
async def make_room(tmp_path: Path) -> AsyncIterator[MakeRoom]:
    opened: list[Room] = []

    def make(url: str = "", **options: Any) -> Room:
        opened.append(Room(url or f"sqlite:///{tmp_path}/history-{len(opened)}.db", **options))
        return opened[-1]

    yield make
    for room in opened:
        await room.close()


@pytest.fixture
def room(make_room: MakeRoom, url: str) -> Room:
    return make_room(url)


@pytest.fixture
def file_room(make_room: MakeRoom) -> Room:
    return make_room()


@pytest.fixture
def rooms(make_room: MakeRoom, server_url: str) -> tuple[Room, Room]:
    """Two nodes with one history."""
    return make_room(server_url), make_room(server_url)
