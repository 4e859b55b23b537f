"""The open files of a store: connections and a lock; and how they are opened."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from scheduler_service.persistence.sqlite.checkpoints import Checkpoints
from scheduler_service.persistence.sqlite.database import (
    count_start,
    open_beside,
    open_reading,
    open_writing,
    refusal,
    relax,
)
from scheduler_service.persistence.sqlite.folder import LOCK_WAIT_SECONDS, FolderLock
from scheduler_service.persistence.sqlite.journal import unload
from scheduler_service.persistence.sqlite.schema import transaction
from scheduler_service.persistence.sqlite.shard_files import (
    check_files,
    check_shards,
    count_shards,
    find_shards,
    state_file,
)


class Files(msgspec.Struct, frozen=True):
    """What an open store has open. In memory all share one connection, one at a time under `guard`."""

    place: str
    writing: sqlite3.Connection
    reading: sqlite3.Connection
    listing: sqlite3.Connection
    checkpoints: Checkpoints | None
    guard: AbstractContextManager[Any]
    boot: int
    node_id: str
    release: Callable[[], None]

    def close(self) -> None:
        """Closes the connections; the writing one, which empties the log, last."""
        if self.checkpoints is not None:
            self.checkpoints.close()
        self.reading.close()
        self.listing.close()
        self.writing.close()
        self.release()

    def note_write(self) -> None:
        """The log has become longer."""
        if self.checkpoints is not None:
            self.checkpoints.note()


class Opening(msgspec.Struct, frozen=True):
    """The parameters of `SqliteStateStore.open` for a folder."""

    folder: Path
    durability: str
    node_id: str = ""
    shard: int = 0
    shards: int = 1
    lock: FolderLock | None = None
    lock_wait: float = LOCK_WAIT_SECONDS


def open_memory(durability: str, node_id: str) -> Files:
    """A store that keeps nothing."""
    connection = open_writing(":memory:", durability=durability)
    boot, node = count_start(connection, node_id=node_id)
    return Files(
        place=":memory:",
        writing=connection,
        reading=connection,
        listing=connection,
        checkpoints=None,
        guard=threading.Lock(),
        boot=boot,
        node_id=node,
        release=lambda: None,
    )


def open_shard(opening: Opening) -> Files:
    """The files of a shard, under its lock, which is released on failure. Raises StoreRefused."""
    lock = opening.lock or _claim(opening)
    try:
        return _open_file(opening, lock)
    except BaseException:
        lock.release()
        raise


def upgrade_folder(folder: Path) -> None:
    """Brings all files of a folder to the newest format, under a lock that the caller holds.

    Raises StoreRefused.
    """
    check_files(folder, count_shards(folder))
    _upgrade(state_file(folder, 0))
    for shard in find_shards(folder):
        lock = FolderLock.claim_shard(folder, shard)
        try:
            _upgrade(state_file(folder, shard))
        finally:
            lock.release()


def _claim(opening: Opening) -> FolderLock:
    if opening.shard == 0:
        return FolderLock.claim(opening.folder)
    return FolderLock.claim_shard(opening.folder, opening.shard, lock_wait=opening.lock_wait)


def _open_file(opening: Opening, lock: FolderLock) -> Files:
    place = str(state_file(opening.folder, opening.shard))
    connection = open_writing(place, durability=opening.durability)
    try:
        if opening.shard == 0:
            check_shards(connection, opening.folder, opening.shards)
        boot, node = count_start(connection, node_id=opening.node_id)
        with transaction(connection):  # turns that an earlier process left in the journal
            unload(connection)
        relax(connection, durability=opening.durability)
        return Files(
            place=place,
            writing=connection,
            reading=open_reading(place),
            listing=open_reading(place),
            checkpoints=Checkpoints(connection=open_beside(place)),
            guard=nullcontext(),
            boot=boot,
            node_id=node,
            release=lock.release,
        )
    except sqlite3.Error as error:
        connection.close()
        raise refusal(place, error) from error
    except BaseException:
        connection.close()
        raise


def _upgrade(place: Path) -> None:
    try:
        with (
            closing(open_writing(str(place), durability="full")) as connection,
            transaction(connection),
        ):
            unload(connection)
    except sqlite3.Error as error:
        raise refusal(str(place), error) from error
