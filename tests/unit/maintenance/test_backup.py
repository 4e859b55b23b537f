"""Backups of a data folder: what is copied, what is refused, what a crash leaves."""

import errno
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler_service.app.data_folder import history_address
from scheduler_service.maintenance.backup import back_up, restore
from scheduler_service.maintenance.folder_formats import check_folder, migrate_folder
from scheduler_service.persistence.sqlite.folder_lock import BACKUP_LIST, RESTORING, FolderLock
from scheduler_service.ports.errors import (
    FolderUnusable,
    StoreDamaged,
    StoreLocked,
    StoreRefused,
    StoreTooNew,
)
from scheduler_service.settings import Settings
from tests.unit.persistence.folders import divide

ROOT = Path(__file__).resolve().parents[3]
DIES = """
import os, sys
from pathlib import Path
from scheduler_service.maintenance.backup import restore
made, target, left = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
def die(name, done, size):
    global left
    if left == 0:
        os._exit(9)
    left -= 1
restore(made, target, f"sqlite:///{target}/history.db", on_progress=die)
"""
POSTGRES = "postgresql://nobody@127.0.0.1:1/none"


def beside(folder: Path) -> str:
    """Where the history lies that no setting puts elsewhere."""
    return history_address(Settings(), folder)


def say_nothing(name: str, done: int, size: int) -> None:
    """Nobody watches."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder."""
    folder = tmp_path / "data"
    migrate_folder(folder, beside(folder))
    return folder


@pytest.fixture
def made(data: Path, tmp_path: Path) -> Path:
    """A backup of it."""
    back_up(data, beside(data), tmp_path / "made", now=0, on_progress=say_nothing)
    return tmp_path / "made"


def test_all_files_come_back(data: Path, made: Path, tmp_path: Path) -> None:
    """Those of the jobs' state and the history; the lock belongs to the process, not to the data."""
    names = ["state.db", "history.db"]
    said = json.loads((made / BACKUP_LIST).read_bytes())
    assert (said["madeAt"], sorted(said["files"])) == ("1970-01-01T00:00:00.000Z", sorted(names))
    assert sorted(place.name for place in made.iterdir()) == sorted([*names, BACKUP_LIST])
    target = tmp_path / "new" / "restored"
    seen: list[tuple[str, bool]] = []
    restore(
        made, target, beside(target), on_progress=lambda name, done, size: seen.append((name, done == size))
    )
    assert seen == [(name, True) for name in said["files"]]
    assert check_folder(target, beside(target)) == []
    assert sorted(place.name for place in target.iterdir()) == sorted([*names, "lock"])
    assert {(target / name).stat().st_mode & 0o777 for name in names} == {0o600}


def test_a_divided_backup_of_an_earlier_version_comes_back(data: Path, tmp_path: Path) -> None:
    """All its files; the next start, or a migration, brings them together. A new one is made after that."""
    divide(data, 3)
    with pytest.raises(StoreRefused, match="Then begin the backup again"):
        back_up(data, beside(data), tmp_path / "into", now=0, on_progress=say_nothing)
    old = tmp_path / "old"
    old.mkdir()
    names = ["state.db", "state-1.db", "state-2.db", "history.db"]
    for name in names:
        shutil.copy(data / name, old / name)
    files = {name: (old / name).stat().st_size for name in names}
    said = {"format": 1, "punctual": "0.1.0", "madeAt": "1970-01-01T00:00:00.000Z", "files": files}
    (old / BACKUP_LIST).write_text(json.dumps(said))
    target = tmp_path / "target"
    restore(old, target, beside(target), on_progress=say_nothing)
    assert "the jobs are in several files: run 'punctual db migrate'" in check_folder(target, beside(target))
    migrate_folder(target, beside(target))
    assert check_folder(target, beside(target)) == []


def test_a_backup_has_a_folder_of_its_own(data: Path, made: Path, tmp_path: Path) -> None:
    """What is there already stays."""
    for into in (made, data):
        there = sorted(into.iterdir())
        with pytest.raises(StoreRefused, match="is not empty"):
            back_up(data, beside(data), into, now=0, on_progress=say_nothing)
        assert sorted(into.iterdir()) == there
    (tmp_path / "file").touch()
    with pytest.raises(FolderUnusable, match="cannot be used"):
        back_up(data, beside(data), tmp_path / "file", now=0, on_progress=say_nothing)


def test_a_folder_in_use_or_with_files_is_not_restored_to(data: Path, made: Path, tmp_path: Path) -> None:
    """A service runs on it, or has; nothing is changed."""
    there = sorted(data.iterdir())
    with pytest.raises(StoreRefused, match=r"is not empty: it has history\.db, state\.db"):
        restore(made, data, beside(data), on_progress=say_nothing)
    assert sorted(data.iterdir()) == there
    target = tmp_path / "empty"
    lock = FolderLock.claim(target)
    with pytest.raises(StoreLocked, match="is in use by process"):
        restore(made, target, beside(target), on_progress=say_nothing)
    lock.release()
    restore(made, target, beside(target), on_progress=say_nothing)


def test_what_cannot_be_completed_is_not_restored(made: Path, tmp_path: Path) -> None:
    """As where the keys of the folder before cannot be read: no service would start with revoked ones."""
    target = tmp_path / "target"

    def fail() -> None:
        assert (target / RESTORING).exists(), "a process that dies now leaves no folder to start on"
        raise StoreRefused("no such folder")

    with pytest.raises(StoreRefused, match="no such folder"):
        restore(made, target, beside(target), on_progress=say_nothing, complete=fail)
    assert not target.exists()
    restore(made, target, beside(target), on_progress=say_nothing)


def test_half_a_backup_is_refused(made: Path, tmp_path: Path) -> None:
    """One whose list was never written, one without a file, one of a later format, one that is none."""
    listed = (made / BACKUP_LIST).read_text()
    target = tmp_path / "target"
    for change, error in [
        (listed.replace("1", "2", 1), StoreTooNew),
        (listed.replace("history.db", "../history.db"), StoreDamaged),
        ("{}", StoreDamaged),
        ("\xff", StoreDamaged),
    ]:
        (made / BACKUP_LIST).write_text(change, encoding="latin-1")
        with pytest.raises(error):
            restore(made, target, beside(target), on_progress=say_nothing)
    (made / BACKUP_LIST).write_text(listed)
    (made / "state.db").write_bytes(b"short")
    with pytest.raises(StoreDamaged, match=r"state\.db is missing, or has not the"):
        restore(made, target, beside(target), on_progress=say_nothing)
    (made / BACKUP_LIST).unlink()
    with pytest.raises(StoreRefused, match="is no whole backup"):
        restore(made, target, beside(target), on_progress=say_nothing)
    assert not target.exists()


def test_a_changed_byte_is_refused(made: Path, tmp_path: Path) -> None:
    """In any file: nothing is restored, and a later try with what was backed up is well."""
    target = tmp_path / "target"
    for name in ("state.db", "history.db"):
        whole = (made / name).read_bytes()
        (made / name).write_bytes(whole[:5_000] + bytes([whole[5_000] ^ 1]) + whole[5_001:])
        with pytest.raises(StoreDamaged, match=f"{name} is not what was backed up"):
            restore(made, target, beside(target), on_progress=say_nothing)
        assert not target.exists()
        (made / name).write_bytes(whole)
    restore(made, target, beside(target), on_progress=say_nothing)


def test_a_changed_letter_in_the_list_is_refused(made: Path, tmp_path: Path) -> None:
    """Else the files would not be compared with what was backed up."""
    listed = (made / BACKUP_LIST).read_text()
    for changed in (listed.replace('"digests"', '"digestt"'), listed.replace('"files"', '"filez"')):
        (made / BACKUP_LIST).write_text(changed)
        with pytest.raises(StoreDamaged, match="cannot be read"):
            restore(made, tmp_path / "target", beside(tmp_path / "target"), on_progress=say_nothing)
    assert not (tmp_path / "target").exists()


def test_a_backup_without_digests_is_restored(made: Path, tmp_path: Path) -> None:
    """Version 0.1.0 made none."""
    listed = json.loads((made / BACKUP_LIST).read_bytes())
    del listed["digests"]
    (made / BACKUP_LIST).write_text(json.dumps(listed))
    restore(made, tmp_path / "target", beside(tmp_path / "target"), on_progress=say_nothing)
    assert check_folder(tmp_path / "target", beside(tmp_path / "target")) == []


def test_the_history_goes_where_settings_put_it(data: Path, made: Path, tmp_path: Path) -> None:
    """To another file; what a database server has is copied by its own means, before and after."""
    other = tmp_path / "elsewhere.db"
    restore(made, tmp_path / "a", f"sqlite:///{other}", on_progress=say_nothing)
    assert other.is_file()
    assert check_folder(tmp_path / "a", f"sqlite:///{other}") == []
    with pytest.raises(StoreRefused, match=r"not empty: it has .*elsewhere\.db"):
        restore(made, tmp_path / "b", f"sqlite:///{other}", on_progress=say_nothing)
    with pytest.raises(StoreRefused, match=r"Restore without database\.url"):
        restore(made, tmp_path / "b", POSTGRES, on_progress=say_nothing)
    without = back_up(data, POSTGRES, tmp_path / "without", now=0, on_progress=say_nothing)
    assert not without.has_history
    with pytest.raises(StoreRefused, match=r"give database\.url as it was"):
        restore(tmp_path / "without", tmp_path / "b", beside(tmp_path / "b"), on_progress=say_nothing)


def test_a_missing_history_is_named(data: Path, tmp_path: Path) -> None:
    """And not made by looking for it."""
    with pytest.raises(FolderUnusable, match=r"other\.db is missing"):
        back_up(data, f"sqlite:///{tmp_path / 'other.db'}", tmp_path / "x", now=0, on_progress=say_nothing)
    assert not (tmp_path / "other.db").exists()


def test_a_failed_copy_leaves_nothing(data: Path, made: Path, tmp_path: Path) -> None:
    """A full disk: the backup's folder and the data folder are as empty as before."""

    def fail(name: str, done: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(FolderUnusable, match="No space left on device"):
        back_up(data, beside(data), tmp_path / "full", now=0, on_progress=fail)
    assert list((tmp_path / "full").iterdir()) == []
    target = tmp_path / "target"
    with pytest.raises(FolderUnusable, match="No space left on device"):
        restore(made, target, beside(target), on_progress=fail)
    assert not target.exists()
    restore(made, target, beside(target), on_progress=say_nothing)


@pytest.mark.parametrize("copied", [0, 1])
def test_no_service_starts_on_half_a_restore(made: Path, tmp_path: Path, copied: int) -> None:
    """Where the process died over any of its files: what is missing would be lost silently."""
    target = tmp_path / "target"
    command = [sys.executable, "-c", DIES, str(made), str(target), str(copied)]
    assert subprocess.run(command, cwd=ROOT, timeout=60, check=False).returncode == 9
    assert (target / RESTORING).exists()
    for attempt in (
        lambda: FolderLock.claim(target),
        lambda: restore(made, target, beside(target), on_progress=say_nothing),
    ):
        with pytest.raises(FolderUnusable, match="Empty the folder"):
            attempt()
    for place in target.iterdir():
        place.unlink()
    restore(made, target, beside(target), on_progress=say_nothing)
    assert check_folder(target, beside(target)) == []
