"""Redistributes the jobs of a folder among its files when the number of shards has changed (decision 18).

Files have no common commit. So a row is copied, durably, before it is deleted where it was. Meanwhile
`state.db` says that the folder is being resharded, and nothing else runs over it. A start after a crash, with
any number of shards, goes through all rows again. A row that is in two files meanwhile is the same in both.
"""

import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from scheduler_service.persistence.common.fault_points import FaultPoint, FaultPoints
from scheduler_service.persistence.sqlite.database import open_writing, translated
from scheduler_service.persistence.sqlite.folder import (
    LOCK_WAIT_SECONDS,
    RESHARDING,
    FolderLock,
    check_files,
    count_shards,
    find_shards,
    lock_name,
    state_file,
    write_shards,
)
from scheduler_service.persistence.sqlite.journal import OnDamagedPage, take_over

BATCH_SIZE = 20_000
"""Rows of a file that are read, and moved, in one round."""

CACHE_KIB = 65_536
"""For the connections to all files together."""

LOG_EVERY_SECONDS = 5.0

_BEFORE_ALL = -(1 << 63)
_CHOSEN = "rowid IN (SELECT value FROM json_each(?))"


class ReshardPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a folder is resharded: each job goes to the file of its `shard_of`, a number below `shards`.

    `durability` is that of the store; a resharding is synced in any case. `lock_wait`: seconds to wait for
    each shard that a worker process of an earlier service still has. `on_damaged_page`: as for an open
    store.
    """

    folder: Path
    shards: int
    shard_of: Callable[[str], int]
    durability: str
    log: Callable[..., None]
    lock_wait: float = LOCK_WAIT_SECONDS
    batch_size: int = BATCH_SIZE
    faults: FaultPoints | None = None
    on_damaged_page: OnDamagedPage | None = None


def reshard(plan: ReshardPlan) -> None:
    """Moves jobs until each is in the file of its shard.

    Called under the folder's lock, before a store is opened there; blocks the thread. If nothing is to be
    done it reads one row. Logs `dividing` at the beginning and now and then, `divided` at the end. Raises
    StoreRefused; a later call goes on.
    """
    before = count_shards(plan.folder)
    check_files(plan.folder, before)
    found = find_shards(plan.folder)
    if before == plan.shards and all(shard < plan.shards for shard in found):
        return
    began = time.monotonic()
    plan.log("dividing", folder=str(plan.folder), before=before, shares=plan.shards)
    moved = _reshard(plan, sorted({*range(plan.shards), *found}))
    plan.log("divided", shares=plan.shards, jobsMoved=moved, seconds=round(time.monotonic() - began, 1))


def _reshard(plan: ReshardPlan, all_shards: list[int]) -> int:
    """Returns how many jobs were moved."""
    folder = plan.folder
    surplus = range(plan.shards, all_shards[-1] + 1)
    with ExitStack() as locks:
        for shard in range(1, all_shards[-1] + 1):
            locks.callback(FolderLock.claim_shard(folder, shard, lock_wait=plan.lock_wait).release)
        first = locks.enter_context(_open(plan, 0, len(all_shards)))
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
        self.place = place
        self._faults = faults

    def commit(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Does `work` in a transaction of its own, which is durable when this returns."""
        with translated(self.place):
            self.connection.execute("BEGIN IMMEDIATE")
            work(self.connection)
            if self._faults is not None:
                self._faults.before(FaultPoint.RESHARD)
            self.connection.execute("COMMIT")
            if self._faults is not None:
                self._faults.after(FaultPoint.RESHARD)


class _RowMove(msgspec.Struct, frozen=True):
    """How the rows of a table are moved: `owner` reads the job's id from `column`; "" means no job's.

    `verb` and `tail` write a row where an equal one may exist; `number` is a column that each file counts for
    itself, and is not copied.
    """

    table: str
    column: str
    owner: Callable[[Any], str]
    verb: str = "INSERT OR REPLACE"
    tail: str = ""
    number: str = ""

    def find_owners(self, source: sqlite3.Connection, after: int, limit: int) -> list[tuple[int, str]]:
        """The next rows after the row `after`, each with its owner. Raises sqlite3.Error."""
        text = f"SELECT rowid, {self.column} FROM {self.table} WHERE rowid > ? ORDER BY rowid LIMIT ?"  # noqa: S608
        try:
            return [(row, self.owner(value)) for row, value in source.execute(text, (after, limit))]
        except msgspec.DecodeError as error:
            damaged = sqlite3.DatabaseError(f"a row of {self.table} cannot be read: {error}")
            damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damaged from error

    def copy(self, target: sqlite3.Connection, source: sqlite3.Connection, rows: Iterable[int]) -> None:
        """Writes `rows` of `source` into `target`, in the transaction that is open there."""
        info = source.execute(f"PRAGMA table_info({self.table})")
        names = [row[1] for row in info if row[1] != self.number]
        columns, places = ", ".join(names), ", ".join("?" * len(names))
        read = f"SELECT {columns} FROM {self.table} WHERE {_CHOSEN} ORDER BY rowid"  # noqa: S608 - constants
        write = f"{self.verb} INTO {self.table} ({columns}) VALUES ({places}) {self.tail}"
        target.executemany(write, source.execute(read, (_as_json(rows),)))

    def delete(self, source: sqlite3.Connection, rows: Iterable[int]) -> None:
        """Deletes `rows`, in the transaction that is open."""
        source.execute(f"DELETE FROM {self.table} WHERE {_CHOSEN}", (_as_json(rows),))  # noqa: S608 - constants


class _Owned(msgspec.Struct):
    """The one member of a packed value that is needed here; the others are skipped."""

    job_id: str = ""


_unpack_owned = msgspec.msgpack.Decoder(_Owned).decode


def _as_json(rows: Iterable[int]) -> str:
    return msgspec.json.encode(list(rows)).decode()


def _packed_id(content: bytes) -> str:
    return _unpack_owned(content).job_id


def _plain_id(job_id: str) -> str:
    return job_id


def _no_id(_: object) -> str:
    return ""


# Two files have the same scope and key only after a resharding that a crash interrupted, and then the answers
# are equal; if they were not, the later one would be right.
_LATER = (
    "ON CONFLICT (scope, key) DO UPDATE SET created_at = excluded.created_at, digest = excluded.digest, "
    "answer = excluded.answer, job_id = excluded.job_id WHERE excluded.created_at > remembered.created_at"
)

# All tables but `journal`, which is empty by then, and `meta`, which is each file's own.
_ROW_MOVES = (
    _RowMove("jobs", "job_id", _plain_id),
    _RowMove("definitions", "job_id", _plain_id),
    _RowMove("remembered", "job_id", _plain_id, verb="INSERT", tail=_LATER),
    _RowMove("deliveries", "content", _packed_id),
    _RowMove("parts", "content", _packed_id),
    _RowMove("unwritten", "job_id", _plain_id),
    _RowMove("completions", "lease", _no_id, verb="INSERT OR IGNORE", number="place"),
)


class _Resharding:
    """Moves rows between open files."""

    def __init__(self, *, plan: ReshardPlan, files: dict[int, _File]) -> None:
        self._plan = plan
        self._files = files
        self._moved = 0
        self._logged_at = time.monotonic()

    def run(self) -> int:
        """Returns how many jobs were moved."""
        self._level_meta()
        for file in self._files.values():
            taking_over = partial(
                take_over, place=Path(file.place), on_damaged_page=self._plan.on_damaged_page
            )
            file.commit(taking_over)
        for move in _ROW_MOVES:
            for shard in self._files:
                self._move(move, shard)
        return self._moved

    def _level_meta(self) -> None:
        """Brings values that the rows depend on to the same level in all files.

        Sequences of turns begin above the number of the start, so that none is used twice: a job that comes
        from a file of more starts must not begin again below. And deadlines are steady times, which the clock
        skew anchors: a new file gets that of shard 0.
        """
        starts = max(_read_meta(file.connection, "boot") for file in self._files.values())
        skew = _read_meta(self._files[0].connection, "clock_skew")
        for file in self._files.values():
            file.commit(partial(_write_meta, starts=starts, skew=skew))

    def _move(self, move: _RowMove, shard: int) -> None:
        """Moves the rows of one table in rounds, so that few are in memory whatever its size."""
        after, source = _BEFORE_ALL, self._files[shard]
        while rows := self._find_owners(move, source, after):
            after = rows[-1][0]
            leaving: dict[int, list[int]] = defaultdict(list)
            for row, owner in rows:
                leaving[self._choose(owner, shard)].append(row)
            leaving.pop(shard, None)
            self._carry(move, source, leaving)

    def _find_owners(self, move: _RowMove, source: _File, after: int) -> list[tuple[int, str]]:
        with translated(source.place):
            return move.find_owners(source.connection, after, self._plan.batch_size)

    def _choose(self, owner: str, shard: int) -> int:
        """The shard of a row that is now in `shard`; a row of no job stays as long as its file does."""
        if owner:
            return self._plan.shard_of(owner)
        return shard if shard < self._plan.shards else 0

    def _carry(self, move: _RowMove, source: _File, leaving: dict[int, list[int]]) -> None:
        for shard, rows in leaving.items():
            self._files[shard].commit(partial(move.copy, source=source.connection, rows=rows))
        gone = [row for rows in leaving.values() for row in rows]
        if gone:
            source.commit(partial(move.delete, rows=gone))
            self._report(len(gone) if move.table == "jobs" else 0)

    def _report(self, jobs: int) -> None:
        self._moved += jobs
        if time.monotonic() - self._logged_at >= LOG_EVERY_SECONDS:
            self._logged_at = time.monotonic()
            self._plan.log("dividing", shares=self._plan.shards, jobsMoved=self._moved)


@contextmanager
def _open(plan: ReshardPlan, shard: int, count: int) -> Iterator[_File]:
    place = str(state_file(plan.folder, shard))
    connection = open_writing(place, durability=plan.durability)
    try:
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB // count}")
        yield _File(place=place, connection=connection, faults=plan.faults)
    finally:
        connection.close()


def _read_meta(connection: sqlite3.Connection, key: str) -> int:
    rows = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchall()
    return int(rows[0][0]) if rows else 0


def _write_meta(connection: sqlite3.Connection, starts: int, skew: int) -> None:
    connection.execute(
        "INSERT INTO meta (key, value) VALUES ('boot', ?) "
        "ON CONFLICT DO UPDATE SET value = max(value, excluded.value)",
        (starts,),
    )
    connection.execute("INSERT OR IGNORE INTO meta (key, value) VALUES ('clock_skew', ?)", (skew,))


def _remove(place: Path) -> None:
    """The log went when the file was closed; one that is left all the same must not outlive the file."""
    for suffix in ("-wal", "-shm", ""):
        place.with_name(place.name + suffix).unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Makes durable which files there are."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
