"""Which process uses a data folder, found without writing into it."""

import fcntl
import os
from pathlib import Path


def find_holder(folder: Path) -> str | None:
    """The id of the process that holds the lock of `folder`, `(unknown)` where it is not there; None: none.

    The lock is asked for, for reading, and given back at once. Raises OSError.
    """
    try:
        descriptor = os.open(folder / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "(unknown)"
    finally:
        os.close(descriptor)
    return None
