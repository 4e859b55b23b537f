"""How far a process has let executions begin, in memory that outlives its death (docs/decisions/0077).

The mark is a wall moment: no execution that began later has sent anything. It lies in a page of a file that
is mapped into memory: raised before anything is sent, it costs no call of the system, and the system keeps it
when the process is killed. A reboot may take it away, so that a mark of an earlier boot of the machine says
nothing.
"""

import mmap
import os
from contextlib import suppress
from pathlib import Path

import msgspec

from scheduler_service.domain.wire import Holder, LastBegun

BOOT_ID, MOUNTS = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/mountinfo")
"""Of Linux alone; elsewhere there are no marks."""
SAFE_FILE_SYSTEMS = frozenset({"ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs"})
"""These write a page in its place. Others may end a process whose mapped page finds the disk full."""
WORD = 8
SIZE = 4_096


class _Owner(msgspec.Struct, frozen=True):
    """Whose mark it is."""

    machine: str
    holder: Holder


class BegunMark:
    """The mark of this process, in `memory`; `last` is what a process before it left, if that is known."""

    __slots__ = ("_words", "last", "moment")

    def __init__(self, memory: bytearray | mmap.mmap | None = None, last: LastBegun | None = None) -> None:
        self.moment = 0
        self.last = last
        self._words = memoryview(bytearray(WORD) if memory is None else memory)[:WORD].cast("q")

    def raise_to(self, moment: int) -> None:
        """Before anything is sent of executions that began at `moment` (wall ms), later than the mark.

        It is one store of the processor: a kill leaves the old mark or the new one.
        """
        self.moment = self._words[0] = moment


def open_begun_mark(
    path: Path, holder: Holder, *, boot_id: Path = BOOT_ID, mounts: Path = MOUNTS
) -> BegunMark:
    """The mark of `holder` in the file at `path`, which takes the place of an earlier process's.

    Where the system keeps no such mark, it is in memory alone. Never raises.
    """
    try:
        machine = boot_id.read_text().strip()
        last = _read(path, machine)
        if not _is_safe(path.parent, mounts):
            return BegunMark(last=last)
        new = path.with_suffix(".new")
        text = bytes(WORD) + msgspec.json.encode(_Owner(machine, holder))
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, text.ljust(SIZE))
            memory = mmap.mmap(descriptor, SIZE)
        finally:
            os.close(descriptor)
        new.replace(path)
    except OSError:
        return BegunMark()
    return BegunMark(memory, last)


def _read(path: Path, machine: str) -> LastBegun | None:
    """What an earlier process left in this boot of the machine."""
    with suppress(FileNotFoundError, msgspec.DecodeError):
        text = path.read_bytes()
        owner = msgspec.json.decode(text[WORD:].rstrip(), type=_Owner)
        if owner.machine == machine:
            return LastBegun(owner.holder, int.from_bytes(text[:WORD], "little", signed=True))
    return None


def _is_safe(folder: Path, mounts: Path) -> bool:
    device = folder.stat().st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.read_text().splitlines():
        place, _, kind = line.partition(" - ")
        if place.split()[2] == name:
            return kind.split()[0] in SAFE_FILE_SYSTEMS
    return False
