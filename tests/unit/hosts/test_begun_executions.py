"""The mark in a file: it outlives its process, and says nothing where it cannot be trusted."""

import os
from pathlib import Path

import pytest

from scheduler_service.domain.wire import Holder, LastBegun
from scheduler_service.hosts.begun_executions import BegunMark, open_begun_mark

ONE, TWO = Holder("node", "1-100"), Holder("node", "2-200")
MOMENT = 1_700_000_000_123


class Machine:
    """A boot of a machine, and the file system that its folder is on."""

    def __init__(self, folder: Path) -> None:
        self.mark = folder / "begun-0"
        self._boot_id, self._mounts = folder / "boot_id", folder / "mounts"
        self.boot("one")
        self.mount("ext4")

    def boot(self, name: str) -> None:
        """It starts anew."""
        self._boot_id.write_text(f"{name}\n")

    def mount(self, kind: str) -> None:
        """The folder is on a file system of this kind."""
        device = self.mark.parent.stat().st_dev
        line = f"27 1 {os.major(device)}:{os.minor(device)} / / rw,relatime shared:1 - {kind} /dev/vda rw\n"
        self._mounts.write_text(f"22 27 0:0 / /proc rw - proc proc rw\n{line}")

    def open(self, holder: Holder) -> BegunMark:
        """A process starts."""
        return open_begun_mark(self.mark, holder, boot_id=self._boot_id, mounts=self._mounts)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_it_outlives_its_process(machine: Machine) -> None:
    """The next one learns whose it was, and how far that had come; its own begins at nothing."""
    first = machine.open(ONE)
    assert (first.last, first.moment) == (None, 0)
    first.raise_to(MOMENT)
    first.raise_to(MOMENT + 1)
    second = machine.open(TWO)
    assert (second.last, second.moment) == (LastBegun(ONE, MOMENT + 1), 0)
    first.raise_to(MOMENT + 2)  # it writes to a page that nobody reads any more
    assert machine.open(ONE).last == LastBegun(TWO, 0)
    assert machine.mark.stat().st_mode & 0o777 == 0o600


def test_a_reboot_takes_it_along(machine: Machine) -> None:
    """What was written to memory may not have reached the disk."""
    machine.open(ONE).raise_to(MOMENT)
    machine.boot("two")
    assert machine.open(TWO).last is None


@pytest.mark.parametrize("kind", ["btrfs", "nfs4", "fuse.sshfs"])
def test_a_file_system_that_may_end_the_process_has_none(machine: Machine, kind: str) -> None:
    """Nor is what an earlier process left on it taken for its successor's."""
    machine.open(ONE).raise_to(MOMENT)
    machine.mount(kind)
    second = machine.open(TWO)
    assert second.last == LastBegun(ONE, MOMENT)
    second.raise_to(MOMENT + 1)
    assert machine.open(TWO).last == LastBegun(ONE, MOMENT)


@pytest.mark.parametrize("text", [b"", b"\xff" * 4_096, bytes(4_096), b"12345678{}"])
def test_a_damaged_file_says_nothing(machine: Machine, text: bytes) -> None:
    """It is replaced."""
    machine.mark.write_bytes(text)
    assert machine.open(ONE).last is None
    assert machine.open(TWO).last == LastBegun(ONE, 0)


def test_where_nothing_can_be_written_it_is_in_memory(machine: Machine) -> None:
    """No start fails for it."""
    machine.mark.mkdir()
    mark = machine.open(ONE)
    mark.raise_to(MOMENT)
    assert (mark.moment, mark.last) == (MOMENT, None)
