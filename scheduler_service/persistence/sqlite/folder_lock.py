"""A data folder: its locks, and its files.

One lock is for its service, one for each of its worker processes. The jobs are in `state.db`; programs before
0.2.0 divided them among worker processes, with those of process K in `state-K.db`. Of such a folder the table
`meta` of `state.db` has the number of files under `shares`. All files are for their owner alone: they hold
the keys of feedback tokens, and what targets answered.
"""

import fcntl
import os
import re
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Self

from scheduler_service.persistence.sqlite.database import open_reading, translated
from scheduler_service.persistence.sqlite.schema import read_version
from scheduler_service.ports.errors import FolderUnusable, StoreDamaged, StoreLocked

LOCK = "lock"
"""The name of the file in a folder by which its process holds it."""

LOCK_WAIT_SECONDS = 10.0
"""For a worker process whose service was killed: it ends within milliseconds, but not at once."""

BACKUP_LIST = "backup.json"
"""The name of the file in a backup that says what it has; written last."""

RESTORING = "restoring"
"""The name of a file that is in a folder while a backup is copied into it: what is there is not whole."""

REPAIRING = "repairing"
"""The name of a file that is in a folder while a repair replaces one of its files (`replacement`)."""

DIVIDING = 0
"""In place of the number where such a program was dividing the jobs anew: they may be in any file."""

_POLL_SECONDS = 0.01
_OWN = re.compile(
    r"(state(-[0-9]+)?|history|cluster)\.db(-wal|-shm|-journal)?|lock(-[0-9]+)?|begun-[0-9]+(\.new)?"
)
_DIVIDED = re.compile(r"state-([1-9][0-9]*)\.db")
_WORKER_LOCK = re.compile(r"lock-([1-9][0-9]*)")


class FolderLock:
    """A lock of a service on its folder, or of a worker process: it ends with `release` or with its process.

    A child that is forked while the lock is held shares it; one that is started by exec does not.
    """

    def __init__(self, *, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def claim(cls, folder: Path) -> Self:
        """Makes `folder` if it is missing, and locks it.

        Raises StoreLocked when another process holds it, FolderUnusable when it cannot be written or holds
        a backup, half of one or half a repair.
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
        check_no_backup(folder)
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
    def claim_worker(cls, folder: Path, worker: int, *, lock_wait: float = LOCK_WAIT_SECONDS) -> Self:
        """The lock of worker process `worker` (from 1); where another process holds it, waits `lock_wait` s.

        Blocks the calling thread. Raises StoreLocked when it is still held, FolderUnusable as `claim` does.
        """
        descriptor = _await_lock(folder, worker, lock_wait)
        _write_pid(descriptor)
        return cls(descriptor=descriptor)

    def release(self) -> None:
        """Ends the lock. A second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def await_workers(folder: Path, *, lock_wait: float = LOCK_WAIT_SECONDS) -> None:
    """Waits until no worker process of an earlier service is there, up to `lock_wait` seconds for each.

    They may still write the jobs that other processes are about to take over. Called under the folder's lock.
    Raises as `FolderLock.claim_worker` does.
    """
    for place in folder.iterdir():
        if (match := _WORKER_LOCK.fullmatch(place.name)) is not None:
            os.close(_await_lock(folder, int(match[1]), lock_wait))


def _await_lock(folder: Path, worker: int, lock_wait: float) -> int:
    """The descriptor that has the lock of a worker process."""
    until = time.monotonic() + lock_wait
    while True:
        descriptor = _open(folder, f"{LOCK}-{worker}")
        if _try_lock(descriptor, folder):
            return descriptor
        holder = _close_taken(descriptor)
        if time.monotonic() >= until:
            raise StoreLocked(
                f"The data folder {folder} is in use by process {holder}, worker process {worker} of an "
                f"earlier service, still after {lock_wait:g} s. "
                f"End that process (kill {holder}), then start again."
            )
        time.sleep(_POLL_SECONDS)


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
    for place, status in files_of(folder):
        if _OWN.fullmatch(place.name) and stat.S_ISREG(status.st_mode) and status.st_mode & 0o077:
            wide.append(place.name)
            with suppress(OSError):
                place.chmod(0o600)
    return wide


def files_of(folder: Path, pattern: str = "*") -> Iterator[tuple[Path, os.stat_result]]:
    """The files of a folder in order of their names, but for those that another process removes meanwhile."""
    for place in sorted(folder.glob(pattern)):
        with suppress(FileNotFoundError):
            yield place, place.lstat()


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


def state_file(folder: Path, number: int = 0) -> Path:
    """The file of the jobs; of a divided folder that of process `number`."""
    return folder / (f"state-{number}.db" if number else "state.db")


def find_divided(folder: Path) -> list[Path]:
    """The files of a divided folder beside `state.db` that are there, in order of their numbers."""
    found = (_DIVIDED.fullmatch(place.name) for place in folder.iterdir())
    return [state_file(folder, number) for number in sorted(int(one[1]) for one in found if one is not None)]


def has_state(folder: Path) -> bool:
    """Whether `folder` holds the state of jobs: `state.db` is there, with something in it."""
    return _has_content(state_file(folder))


def has_own_jobs(folder: Path) -> bool:
    """Whether `state.db`, of this version's format, has a job that is not the system's, also a destroyed one.

    Changes nothing. Raises StoreRefused.
    """
    if not has_state(folder):  # opening it would make it
        return False
    place = str(state_file(folder))
    with translated(place), closing(open_reading(place)) as connection:
        if not read_version(connection, place=place):
            return False
        return connection.execute("SELECT 1 FROM jobs WHERE system = 0 LIMIT 1").fetchone() is not None


def _has_content(place: Path) -> bool:
    """A file of no bytes is what a copy that broke off leaves, or a first start that was killed."""
    return place.is_file() and place.stat().st_size > 0


def check_no_backup(folder: Path) -> None:
    """Raises FolderUnusable where the folder is a backup: what is written there could not be restored."""
    if os.path.exists(folder / BACKUP_LIST):  # noqa: PTH110 - False also where it may not be looked for
        raise FolderUnusable(
            f"{folder} is a backup ({BACKUP_LIST} is in it), and stays as it is. Restore it into another "
            "folder ('punctual db restore'), and name that one; if a service of an earlier version has run "
            f"in it, so that it is a data folder by now, remove {BACKUP_LIST}."
        )


def check_kinds(*places: Path) -> None:
    """Raises FolderUnusable where one of them is there, and is no file: nothing starts over it."""
    for place in places:
        if place.exists() and not place.is_file():
            raise FolderUnusable(f"{place} is no file. Move it away; then see what 'punctual db check' says.")


def is_divided(folder: Path) -> bool:
    """Whether the jobs are in more files than `state.db`; reads one row, changes nothing.

    Raises StoreRefused where `state.db` is damaged, too new, or missing beside the others, or one of those is
    missing: its jobs would be lost silently.
    """
    place = state_file(folder)
    others = find_divided(folder) if folder.is_dir() else []
    if not has_state(folder):  # opening it would make it
        if others:
            raise StoreDamaged(
                f"The data folder {folder} has {', '.join(other.name for other in others)}, and {place.name} "
                f"is missing or empty: its jobs would be lost silently. {_PUT_BACK}"
            )
        return False
    with translated(str(place)), closing(open_reading(str(place))) as connection:
        count = read_division(connection) if read_version(connection, place=str(place)) else 1
    names = [state_file(folder, number).name for number in range(1, count)]
    missing = [name for name in names if not _has_content(folder / name)]
    if missing:
        raise StoreDamaged(
            f"The jobs of the data folder {folder} are in {count} files, and {', '.join(missing)} is missing "
            f"or empty. {_PUT_BACK}"
        )
    return count != 1 or bool(others)


def read_division(connection: sqlite3.Connection) -> int:
    """In how many files the jobs are, by an open `state.db`, or DIVIDING."""
    rows = connection.execute("SELECT value FROM meta WHERE key = 'shares'").fetchall()
    return int(rows[0][0]) if rows else 1


_PUT_BACK = "Put the file back, or copies of all files of the folder that were made together."


def find_holder(folder: Path) -> str | None:
    """The id of the process that holds the lock of `folder`, `(unknown)` where it is not there; None: none.

    The lock is asked for, for reading, and given back at once; nothing is written. Raises OSError.
    """
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "(unknown)"
    finally:
        os.close(descriptor)
    return None
