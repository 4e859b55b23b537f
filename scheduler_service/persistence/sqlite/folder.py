"""A data folder: its locks, and its shards.

One lock is for its service, one for each shard with a worker process. Shard 0 is `state.db`, shard K is
`state-K.db`. The table `meta` of `state.db` has the number of shards under `shares`; without that key it is
one. All files are for their owner alone: they hold the keys of feedback tokens, and what targets answered.
"""

import fcntl
import os
import re
import sqlite3
import stat
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Self

from scheduler_service.persistence.sqlite.database import open_reading, translated
from scheduler_service.persistence.sqlite.schema import read_version
from scheduler_service.ports.errors import FolderUnusable, StoreDamaged, StoreLocked, StoreRefused

LOCK = "lock"
"""The name of the file in a folder by which its process holds it."""

LOCK_WAIT_SECONDS = 10.0
"""For a worker process whose service was killed: it ends within milliseconds, but not at once."""

RESTORING = "restoring"
"""The name of a file that is in a folder while a backup is copied into it: what is there is not whole."""

REPAIRING = "repairing"
"""The name of a file that is in a folder while a repair replaces one of its files (`replacement`)."""

RESHARDING = 0
"""In place of the number while a resharding is under way: jobs may be in any file."""

_POLL_SECONDS = 0.01
_OWN = re.compile(
    r"(state(-[0-9]+)?|history|cluster)\.db(-wal|-shm|-journal)?|lock(-[0-9]+)?|begun-[0-9]+(\.new)?"
)
_SHARD = re.compile(r"state-([1-9][0-9]*)\.db")


class FolderLock:
    """A lock on a folder, or on a shard of it, that ends with `release` or with the process, even if killed.

    A child that is forked while the lock is held shares it; one that is started by exec does not.
    """

    def __init__(self, *, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def claim(cls, folder: Path) -> Self:
        """Makes `folder` if it is missing, and locks it.

        Raises StoreLocked when another process holds it, FolderUnusable when it cannot be written or holds
        half a backup or half a repair.
        """
        lock = cls.claim_for_repair(folder)
        if (folder / REPAIRING).exists():
            lock.release()
            raise FolderUnusable(
                f"A repair of the data folder {folder} has not ended. "
                "Run 'punctual db repair' again: it goes on."
            )
        return lock

    @classmethod
    def claim_for_repair(cls, folder: Path) -> Self:
        """The same, also where a repair has not ended."""
        descriptor = _open(folder, LOCK)
        if not _try_lock(descriptor, folder):
            raise StoreLocked(
                f"The data folder {folder} is in use by process {_close_taken(descriptor)}. "
                "Stop that service first, or give this one a folder of its own."
            )
        if (folder / RESTORING).exists():
            os.close(descriptor)
            raise FolderUnusable(
                f"A backup was being copied into the data folder {folder}, which has not ended. "
                "Empty the folder, then begin 'punctual db restore' again."
            )
        _write_pid(descriptor)
        return cls(descriptor=descriptor)

    @classmethod
    def claim_shard(cls, folder: Path, shard: int, *, lock_wait: float = LOCK_WAIT_SECONDS) -> Self:
        """Locks `shard` (from 1) of `folder`; if another process holds it, waits up to `lock_wait` seconds.

        Blocks the calling thread. Raises StoreLocked when it is still held, FolderUnusable as `claim` does.
        """
        name = lock_name(shard)
        until = time.monotonic() + lock_wait
        while True:
            descriptor = _open(folder, name)
            if _try_lock(descriptor, folder):
                if _is_at(descriptor, folder / name):
                    _write_pid(descriptor)
                    return cls(descriptor=descriptor)
                os.close(descriptor)  # a resharding has removed the file meanwhile: lock the new one
                continue
            holder = _close_taken(descriptor)
            if time.monotonic() >= until:
                raise StoreLocked(
                    f"Shard {shard} of the data folder {folder} is in use by process {holder}, a worker "
                    f"process of an earlier service, still after {lock_wait:g} s. "
                    f"End that process (kill {holder}), then start again."
                )
            time.sleep(_POLL_SECONDS)

    def release(self) -> None:
        """Ends the lock. A second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def lock_name(shard: int) -> str:
    """The name of the file that is locked while a process has `shard` (from 1)."""
    return f"lock-{shard}"


def write_private(place: Path, content: bytes) -> None:
    """Writes a file of the folder, for its owner alone; durable by name when this returns. Raises OSError."""
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    parent = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def narrow_files(folder: Path) -> list[str]:
    """Takes the rights of others from the files of a data folder; the names of those that others could read.

    Files that this user may not change are among them, and are left as they are.
    """
    wide = []
    for place in sorted(folder.iterdir()):
        if _OWN.fullmatch(place.name) and stat.S_ISREG(mode := place.lstat().st_mode) and mode & 0o077:
            wide.append(place.name)
            with suppress(OSError):
                place.chmod(0o600)
    return wide


def _open(folder: Path, name: str) -> int:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise FolderUnusable(
            f"The data folder {folder} cannot be used: {error.strerror}. "
            "Name a folder that this user may write, or free the place of the file that is in its way."
        ) from error


def _try_lock(descriptor: int, folder: Path) -> bool:
    """Whether this process has the lock now. Closes the descriptor if the disk has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        os.close(descriptor)
        raise FolderUnusable(
            f"The data folder {folder} cannot be locked: {error.strerror}. "
            "Name a folder on a local disk; some network disks have no locks."
        ) from error
    return True


def _is_at(descriptor: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), place.stat())
    except FileNotFoundError:
        return False


def _close_taken(descriptor: int) -> str:
    """Closes a lock that another process has. Returns the id of that process."""
    holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "(unknown)"
    os.close(descriptor)
    return holder


def _write_pid(descriptor: int) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
    except OSError:
        # The pid is only for the message to a second service; the lock holds without it (full disk).
        return


def state_file(folder: Path, shard: int) -> Path:
    """The file of the jobs of `shard`."""
    return folder / ("state.db" if shard == 0 else f"state-{shard}.db")


def find_shards(folder: Path) -> list[int]:
    """The shards from 1 that have a file, in order."""
    found = (_SHARD.fullmatch(place.name) for place in folder.iterdir())
    return sorted(int(match[1]) for match in found if match is not None)


def count_shards(folder: Path) -> int:
    """Into how many shards `folder` is divided, or RESHARDING; reads one row, changes nothing.

    Raises StoreRefused where `state.db` is damaged, too new, or missing beside other shards.
    """
    place = str(state_file(folder, 0))
    if not has_state(folder):  # opening it would make it
        _check_none_is_left(folder)
        return 1
    with translated(place), closing(open_reading(place)) as connection:
        return read_shards(connection) if read_version(connection, place=place) else 1


def has_state(folder: Path) -> bool:
    """Whether `folder` holds the state of jobs: `state.db` is there, with something in it."""
    return _has_content(state_file(folder, 0))


def _has_content(place: Path) -> bool:
    """A file of no bytes is what a copy that broke off leaves, or a first start that was killed."""
    return place.is_file() and place.stat().st_size > 0


def _check_none_is_left(folder: Path) -> None:
    """A new `state.db` beside other shards would say that theirs are all the jobs."""
    left = [state_file(folder, shard).name for shard in find_shards(folder)] if folder.is_dir() else []
    if left:
        raise StoreDamaged(
            f"The data folder {folder} has {', '.join(left)}, and state.db is missing or empty: its jobs "
            "would be lost silently. Put the file back, or copies of all files that were made together."
        )


def read_shards(connection: sqlite3.Connection) -> int:
    """The same over an open `state.db`."""
    rows = connection.execute("SELECT value FROM meta WHERE key = 'shares'").fetchall()
    return int(rows[0][0]) if rows else 1


def write_shards(connection: sqlite3.Connection, shards: int) -> None:
    """Writes the number, in the transaction that is open."""
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('shares', ?)", (shards,))


def check_shards(connection: sqlite3.Connection, folder: Path, shards: int) -> None:
    """Raises StoreRefused where `folder` is not divided into `shards`: some of its jobs would be missed."""
    kept = read_shards(connection)
    if kept == RESHARDING:
        raise StoreRefused(
            f"The data folder {folder} is being divided into another number of shards, which has not ended. "
            "Start the service: it continues."
        )
    if kept != shards:
        raise StoreRefused(
            f"The data folder {folder} is divided into {kept} shards, not {shards}: its jobs are in "
            f"{kept} files. Start the service, which divides it by its number of workers."
        )


def check_kinds(*places: Path) -> None:
    """Raises FolderUnusable where one of them is there, and is no file: nothing starts over it."""
    for place in places:
        if place.exists() and not place.is_file():
            raise FolderUnusable(f"{place} is no file. Move it away; then see what 'punctual db check' says.")


def check_files(folder: Path, shards: int) -> None:
    """Raises StoreDamaged where a file of the `shards` is missing: its jobs would be lost silently."""
    missing = [name for name in name_files(folder, shards)[1:] if not _has_content(folder / name)]
    if missing:
        raise StoreDamaged(
            f"The data folder {folder} is divided into {shards} shards, and {', '.join(missing)} is missing "
            "or empty. Put the file back, or copies of all files of the folder that were made together."
        )


def name_files(folder: Path, shards: int) -> list[str]:
    """The names of the files that hold the jobs of a folder of so many shards, `state.db` first."""
    return [state_file(folder, shard).name for shard in range(max(shards, 1))]
