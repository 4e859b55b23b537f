"""Divides a folder's jobs anew among its files, when the number of shards is not what it was (decision 18).

Files have no common commit. So a row is copied, durably, before it is deleted where it was; `state.db` says
all the while that the folder is being divided, nothing else runs over it, and a start after a crash, whatever
number it wants, goes through all rows again. A row that stands in two files meanwhile is the same in both.
"""

import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import msgspec

from scheduler_service.persistence.common.fault_points import FaultPoint, FaultPoints
from scheduler_service.persistence.sqlite.database import open_writing, refusal
from scheduler_service.persistence.sqlite.folder import LOCK_WAIT_SECONDS, FolderLock, lock_name
from scheduler_service.persistence.sqlite.journal import unload
from scheduler_service.persistence.sqlite.row_moves import (
    ROW_MOVES,
    RowMove,
    copy_rows,
    delete_rows,
    find_owners,
)
from scheduler_service.persistence.sqlite.shard_files import (
    RESHARDING,
    check_files,
    count_shards,
    find_shards,
    state_file,
    write_shards,
)

AT_ONCE = 20_000
"""Rows of a file that are looked at, and moved, in one round."""

CACHE = 65_536
"""KiB that the connections to all files have together."""

TELL_EVERY = 5.0
"""Seconds from one line about the progress to the next."""

_BEFORE_ALL = -(1 << 63)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How a folder is to be divided, as in `divide`."""

    folder: Path
    shards: int
    shard_of: Callable[[str], int]
    durability: str
    log: Callable[..., None]
    lock_wait: float
    batch_size: int
    faults: FaultPoints | None


def reshard(
    folder: Path,
    *,
    shards: int,
    shard_of: Callable[[str], int],
    durability: str,
    log: Callable[..., None],
    lock_wait: float = LOCK_WAIT_SECONDS,
    batch_size: int = AT_ONCE,
    faults: FaultPoints | None = None,
) -> None:
    """Sees that each job of `folder` lies in the file of the shard that is its `home`, one below `shards`.

    Called under the folder's lock, before a store is opened there; blocks the thread. Where nothing is to be
    done it reads one row. `durability` is the store's; a division is synced whichever it is. Each shard that
    a worker process of an earlier service still has is waited for, `patience` seconds. Tells `dividing` at
    the beginning and now and then, `divided` at the end. Raises StoreRefused; a later call goes on.
    """
    before = count_shards(folder)
    check_files(folder, before)
    found = find_shards(folder)
    if before == shards and all(shard < shards for shard in found):
        return
    plan = Plan(
        folder=folder, shards=shards, shard_of=shard_of, durability=durability, log=log, lock_wait=lock_wait,
        batch_size=batch_size, faults=faults,
    )  # fmt: skip
    began = time.monotonic()
    log("dividing", folder=str(folder), before=before, shards=shards)
    moved = _divide(plan, sorted({*range(shards), *found}))
    log("divided", shards=shards, jobsMoved=moved, seconds=round(time.monotonic() - began, 1))


def _divide(plan: Plan, all_shards: list[int]) -> int:
    """Returns how many jobs were moved."""
    folder = plan.folder
    surplus = range(plan.shards, all_shards[-1] + 1)
    with ExitStack() as held:
        for shard in range(1, all_shards[-1] + 1):
            held.callback(FolderLock.claim_shard(folder, shard, lock_wait=plan.lock_wait).release)
        first = held.enter_context(_open(plan, 0, len(all_shards)))
        first.commit(partial(write_shards, shards=RESHARDING))
        with ExitStack() as others:
            files = {0: first}
            for shard in all_shards[1:]:
                files[shard] = others.enter_context(_open(plan, shard, len(all_shards)))
            _sync(folder)
            moved = _Resharding(plan=plan, files=files).run()
        for shard in surplus:
            _remove(state_file(folder, shard))
        _sync(folder)
        first.commit(partial(write_shards, shards=plan.shards))
        for shard in surplus:
            (folder / lock_name(shard)).unlink(missing_ok=True)
    return moved


class _File:
    """One file of the folder, open for writing."""

    def __init__(self, *, place: str, connection: sqlite3.Connection, faults: FaultPoints | None) -> None:
        self.connection = connection
        self._place = place
        self._faults = faults

    def commit(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Does `work` in a transaction of its own, which is durable when this returns."""
        with self.naming():
            self.connection.execute("BEGIN IMMEDIATE")
            work(self.connection)
            if self._faults is not None:
                self._faults.before(FaultPoint.RESHARD)
            self.connection.execute("COMMIT")
            if self._faults is not None:
                self._faults.after(FaultPoint.RESHARD)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """What fails is said of this file, as a StoreRefused."""
        try:
            yield
        except sqlite3.Error as error:
            raise refusal(self._place, error) from error


class _Resharding:
    """The moves between open files. `_tell` hears of them now and then."""

    def __init__(self, *, plan: Plan, files: dict[int, _File]) -> None:
        self._plan = plan
        self._files = files
        self._moved = 0
        self._told_at = time.monotonic()

    def run(self) -> int:
        """Returns how many jobs were moved."""
        self._level()
        for file in self._files.values():
            file.commit(unload)
        for move in ROW_MOVES:
            for shard in self._files:
                self._move(move, shard)
        return self._moved

    def _level(self) -> None:
        """What a file knows beside its rows, and the rows build upon.

        Sequences of turns begin above the number of the start, so that none is used twice: a job that comes
        from a file of more starts must not begin again below. And deadlines count on the steady line, which
        the clock skew fixes: a file that is new has that of shard 0.
        """
        starts = max(_read_meta(file.connection, "boot") for file in self._files.values())
        skew = _read_meta(self._files[0].connection, "clock_skew")
        for file in self._files.values():
            file.commit(partial(_write_level, starts=starts, skew=skew))

    def _move(self, move: RowMove, shard: int) -> None:
        """Row by row of one table, in rounds: whatever its size, little of it is in memory."""
        after, source = _BEFORE_ALL, self._files[shard]
        while rows := self._look(move, source, after):
            after = rows[-1][0]
            leaving: dict[int, list[int]] = defaultdict(list)
            for row, owner in rows:
                leaving[self._choose(owner, shard)].append(row)
            leaving.pop(shard, None)
            self._carry(move, source, leaving)

    def _look(self, move: RowMove, source: _File, after: int) -> list[tuple[int, str]]:
        with source.naming():
            return find_owners(source.connection, move, after, self._plan.batch_size)

    def _choose(self, owner: str, shard: int) -> int:
        """Where a row of `shard` belongs; what is no job's stays as long as its file does."""
        if owner:
            return self._plan.shard_of(owner)
        return shard if shard < self._plan.shards else 0

    def _carry(self, move: RowMove, source: _File, leaving: dict[int, list[int]]) -> None:
        for shard, rows in leaving.items():
            self._files[shard].commit(partial(copy_rows, source.connection, move=move, rows=rows))
        gone = [row for rows in leaving.values() for row in rows]
        if gone:
            source.commit(partial(delete_rows, move=move, rows=gone))
            self._note(len(gone) if move.table == "jobs" else 0)

    def _note(self, jobs: int) -> None:
        self._moved += jobs
        if time.monotonic() - self._told_at >= TELL_EVERY:
            self._told_at = time.monotonic()
            self._plan.log("dividing", shards=self._plan.shards, jobsMoved=self._moved)


@contextmanager
def _open(plan: Plan, shard: int, count: int) -> Iterator[_File]:
    place = str(state_file(plan.folder, shard))
    connection = open_writing(place, durability=plan.durability)
    try:
        connection.execute(f"PRAGMA cache_size = -{CACHE // count}")
        yield _File(place=place, connection=connection, faults=plan.faults)
    finally:
        connection.close()


def _read_meta(connection: sqlite3.Connection, key: str) -> int:
    rows = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchall()
    return int(rows[0][0]) if rows else 0


def _write_level(connection: sqlite3.Connection, starts: int, skew: int) -> None:
    connection.execute(
        "INSERT INTO meta (key, value) VALUES ('boot', ?) "
        "ON CONFLICT DO UPDATE SET value = max(value, excluded.value)",
        (starts,),
    )
    connection.execute("INSERT OR IGNORE INTO meta (key, value) VALUES ('clock_skew', ?)", (skew,))


def _remove(place: Path) -> None:
    """Its log went when it was closed; should one be left, it must not outlive the file."""
    for suffix in ("-wal", "-shm", ""):
        place.with_name(place.name + suffix).unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Makes durable which files there are."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
