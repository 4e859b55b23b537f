"""Puts a new file in the place of a damaged one; a repair that is killed meanwhile is gone on with.

A damaged file whose log is gone would be read without its last turns, and the log of a damaged file beside a
new one would be read into it. So the folder is marked from before the first of these steps until after the
last: no service starts on it meanwhile (`FolderLock.claim`), and the next repair goes on.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from scheduler_service.persistence.common.fault_points import FaultPoint, FaultPoints
from scheduler_service.persistence.sqlite.folder import REPAIRING, write_private
from scheduler_service.persistence.sqlite.snapshot import sync

_LOGS = ("-wal", "-journal")


class Replacement(msgspec.Struct, frozen=True):
    """The file at `damaged` gives its place to that at `fresh`, and is kept at `kept`, with its log."""

    damaged: str
    fresh: str
    kept: str


def replace_file(folder: Path, replacement: Replacement, *, faults: FaultPoints | None = None) -> None:
    """Does it all, under the lock of `folder`; durable when this returns. `fresh` is whole and durable."""
    with passing(faults):
        write_private(folder / REPAIRING, msgspec.json.encode(replacement))
    finish_replacement(folder, faults=faults)


def finish_replacement(folder: Path, *, faults: FaultPoints | None = None) -> Replacement | None:
    """Ends the one that was under way in `folder` when its process ended; None: there was none."""
    mark = folder / REPAIRING
    found = _read(mark)
    if found is not None and Path(found.fresh).exists():
        place = Path(found.damaged)
        with passing(faults):
            for end in ("", *_LOGS):
                with suppress(FileNotFoundError, FileExistsError):  # kept already, by the one before
                    os.link(f"{place}{end}", f"{found.kept}{end}")
            sync(place.parent)
        for end in (*_LOGS, "-shm"):
            with passing(faults):
                Path(f"{place}{end}").unlink(missing_ok=True)
        sync(place.parent)  # no log is beside the new file, not after a loss of power either
        with passing(faults):
            Path(found.fresh).replace(place)
            sync(place.parent)
    with passing(faults):
        mark.unlink(missing_ok=True)
        sync(folder)
    return found


def _read(mark: Path) -> Replacement | None:
    """None: it is missing, or its writing did not end, before which nothing is changed."""
    try:
        return msgspec.json.decode(mark.read_bytes(), type=Replacement)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


@contextmanager
def passing(faults: FaultPoints | None) -> Iterator[None]:
    """Surrounds one step of a repair, for tests that end the process there."""
    if faults is not None:
        faults.before(FaultPoint.REPAIR)
    yield
    if faults is not None:
        faults.after(FaultPoint.REPAIR)
