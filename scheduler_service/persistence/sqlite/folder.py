"""The locks of a data folder: one for its service, one for each shard with a worker process."""

import fcntl
import os
import time
from pathlib import Path
from typing import Self

from scheduler_service.ports.errors import FolderUnusable, StoreLocked

LOCK_WAIT_SECONDS = 10.0
"""For a worker process whose service was killed: it ends within milliseconds, but not at once."""

_POLL_SECONDS = 0.01


class FolderLock:
    """A lock on a folder, or on a shard of it, that ends with `release` or with the process, even if killed.

    A child that is forked while the lock is held shares it; one that is started by exec does not.
    """

    def __init__(self, *, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def claim(cls, folder: Path) -> Self:
        """Makes `folder` if it is missing, and locks it.

        Raises StoreLocked when another process holds it, FolderUnusable when it cannot be written.
        """
        descriptor = _open(folder, "lock")
        if not _try_lock(descriptor, folder):
            raise StoreLocked(
                f"The data folder {folder} is in use by process {_close_taken(descriptor)}. "
                "Stop that service first, or give this one a folder of its own."
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
