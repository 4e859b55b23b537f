"""Divides a folder's jobs anew among its files, when the number of shares is not what it was (decision 18).

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
from scheduler_service.persistence.sqlite.folder import PATIENCE, FolderLock, lock_name
from scheduler_service.persistence.sqlite.journal import unload
from scheduler_service.persistence.sqlite.row_moves import (
    ROW_MOVES,
    RowMove,
    copy_rows,
    delete_rows,
    find_owners,
)
from scheduler_service.persistence.sqlite.shard_files import (
    DIVIDING,
    check_files,
    count_shares,
    find_shares,
    state_file,
    write_shares,
)

AT_ONCE = 20_000
"""Rows of a file that are looked at, and moved, in one round."""

CACHE = 65_536
"""KiB that the connections to all files have together."""

TELL_EVERY = 5.0
"""Seconds from one line about the progress to the next."""

_BEFORE_ALL = -(1 << 63)


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """How a folder is to be divided, as in `divide`."""

    folder: Path
    shares: int
    home: Callable[[str], int]
    durability: str
    tell: Callable[..., None]
    patience: float
    at_once: int
    tap: FaultPoints | None


def reshard(
    folder: Path,
    *,
    shares: int,
    home: Callable[[str], int],
    durability: str,
    tell: Callable[..., None],
    patience: float = PATIENCE,
    at_once: int = AT_ONCE,
    tap: FaultPoints | None = None,
) -> None:
    """Sees that each job of `folder` lies in the file of the share that is its `home`, one below `shares`.

    Called under the folder's lock, before a store is opened there; blocks the thread. Where nothing is to be
    done it reads one row. `durability` is the store's; a division is synced whichever it is. Each share that
    a worker process of an earlier service still has is waited for, `patience` seconds. Tells `dividing` at
    the beginning and now and then, `divided` at the end. Raises StoreRefused; a later call goes on.
    """
    before = count_shares(folder)
    check_files(folder, before)
    found = find_shares(folder)
    if before == shares and all(share < shares for share in found):
        return
    wish = Wish(
        folder=folder, shares=shares, home=home, durability=durability, tell=tell, patience=patience,
        at_once=at_once, tap=tap,
    )  # fmt: skip
    began = time.monotonic()
    tell("dividing", folder=str(folder), before=before, shares=shares)
    moved = _divide(wish, sorted({*range(shares), *found}))
    tell("divided", shares=shares, jobsMoved=moved, seconds=round(time.monotonic() - began, 1))


def _divide(wish: Wish, all_shares: list[int]) -> int:
    """Returns how many jobs were moved."""
    folder = wish.folder
    surplus = range(wish.shares, all_shares[-1] + 1)
    with ExitStack() as held:
        for share in range(1, all_shares[-1] + 1):
            held.callback(FolderLock.claim_share(folder, share, patience=wish.patience).release)
        first = held.enter_context(_open(wish, 0, len(all_shares)))
        first.commit(partial(write_shares, shares=DIVIDING))
        with ExitStack() as others:
            files = {0: first}
            for share in all_shares[1:]:
                files[share] = others.enter_context(_open(wish, share, len(all_shares)))
            _sync(folder)
            moved = _Resharding(wish=wish, files=files).run()
        for share in surplus:
            _remove(state_file(folder, share))
        _sync(folder)
        first.commit(partial(write_shares, shares=wish.shares))
        for share in surplus:
            (folder / lock_name(share)).unlink(missing_ok=True)
    return moved


class _File:
    """One file of the folder, open for writing."""

    def __init__(self, *, place: str, connection: sqlite3.Connection, tap: FaultPoints | None) -> None:
        self.connection = connection
        self._place = place
        self._tap = tap

    def commit(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Does `work` in a transaction of its own, which is durable when this returns."""
        with self.naming():
            self.connection.execute("BEGIN IMMEDIATE")
            work(self.connection)
            if self._tap is not None:
                self._tap.before(FaultPoint.DIVIDE)
            self.connection.execute("COMMIT")
            if self._tap is not None:
                self._tap.after(FaultPoint.DIVIDE)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """What fails is said of this file, as a StoreRefused."""
        try:
            yield
        except sqlite3.Error as error:
            raise refusal(self._place, error) from error


class _Resharding:
    """The moves between open files. `_tell` hears of them now and then."""

    def __init__(self, *, wish: Wish, files: dict[int, _File]) -> None:
        self._wish = wish
        self._files = files
        self._moved = 0
        self._told_at = time.monotonic()

    def run(self) -> int:
        """Returns how many jobs were moved."""
        self._level()
        for file in self._files.values():
            file.commit(unload)
        for move in ROW_MOVES:
            for share in self._files:
                self._move(move, share)
        return self._moved

    def _level(self) -> None:
        """What a file knows beside its rows, and the rows build upon.

        Sequences of turns begin above the number of the start, so that none is used twice: a job that comes
        from a file of more starts must not begin again below. And deadlines count on the steady line, which
        the clock skew fixes: a file that is new has that of share 0.
        """
        starts = max(_read_meta(file.connection, "boot") for file in self._files.values())
        skew = _read_meta(self._files[0].connection, "clock_skew")
        for file in self._files.values():
            file.commit(partial(_write_level, starts=starts, skew=skew))

    def _move(self, move: RowMove, share: int) -> None:
        """Row by row of one table, in rounds: whatever its size, little of it is in memory."""
        after, source = _BEFORE_ALL, self._files[share]
        while rows := self._look(move, source, after):
            after = rows[-1][0]
            leaving: dict[int, list[int]] = defaultdict(list)
            for row, owner in rows:
                leaving[self._choose(owner, share)].append(row)
            leaving.pop(share, None)
            self._carry(move, source, leaving)

    def _look(self, move: RowMove, source: _File, after: int) -> list[tuple[int, str]]:
        with source.naming():
            return find_owners(source.connection, move, after, self._wish.at_once)

    def _choose(self, owner: str, share: int) -> int:
        """Where a row of `share` belongs; what is no job's stays as long as its file does."""
        if owner:
            return self._wish.home(owner)
        return share if share < self._wish.shares else 0

    def _carry(self, move: RowMove, source: _File, leaving: dict[int, list[int]]) -> None:
        for share, rows in leaving.items():
            self._files[share].commit(partial(copy_rows, source.connection, move=move, rows=rows))
        gone = [row for rows in leaving.values() for row in rows]
        if gone:
            source.commit(partial(delete_rows, move=move, rows=gone))
            self._note(len(gone) if move.table == "jobs" else 0)

    def _note(self, jobs: int) -> None:
        self._moved += jobs
        if time.monotonic() - self._told_at >= TELL_EVERY:
            self._told_at = time.monotonic()
            self._wish.tell("dividing", shares=self._wish.shares, jobsMoved=self._moved)


@contextmanager
def _open(wish: Wish, share: int, count: int) -> Iterator[_File]:
    place = str(state_file(wish.folder, share))
    connection = open_writing(place, durability=wish.durability)
    try:
        connection.execute(f"PRAGMA cache_size = -{CACHE // count}")
        yield _File(place=place, connection=connection, tap=wish.tap)
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
