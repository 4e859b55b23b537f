"""The data folder of one service: made when missing, locked while it is used."""

import fcntl
import os
from pathlib import Path
from typing import Self

from scheduler_service.persistence.state.errors import FolderUnusable, StoreLocked


class FolderLock:
    """A lock on a folder that ends with `release` or with the process, however it dies.

    A child that was forked while the lock is held shares it; one that was started by exec does not.
    """

    def __init__(self, *, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def claim(cls, folder: Path) -> Self:
        """Makes `folder` where it is missing and locks it.

        Raises StoreLocked when another process holds it, FolderUnusable when it cannot be written.
        """
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise FolderUnusable(
                f"The data folder {folder} cannot be used: {error.strerror}. "
                "Name a folder that this user may write, or free the place of the file that is in its way."
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise StoreLocked(
                f"The data folder {folder} is in use by process {holder}. "
                "Stop that service first, or give this one a folder of its own."
            ) from error
        except OSError as error:
            os.close(descriptor)
            raise FolderUnusable(
                f"The data folder {folder} cannot be locked: {error.strerror}. "
                "Name a folder on a local disk; some network disks have no locks."
            ) from error
        _sign(descriptor)
        return cls(descriptor=descriptor)

    def release(self) -> None:
        """Lets others have the folder."""
        os.close(self._descriptor)


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "(unknown)"


def _sign(descriptor: int) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
    except OSError:
        # The pid is only for the message to a second service; the lock holds without it (full disk).
        return
