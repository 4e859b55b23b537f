"""The data folder: what is said of it, and that it is left as it was."""

import os
import shutil
from pathlib import Path

import pytest

from scheduler_service.app.data_folder import history_address
from scheduler_service.maintenance.doctor_folder import examine_folder, kind_of
from scheduler_service.maintenance.folder_formats import migrate_folder
from scheduler_service.persistence.sqlite.folder_lock import REPAIRING, RESTORING, FolderLock
from scheduler_service.settings import Settings
from tests.unit.maintenance.subjects import states, subject


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One that a service has made."""
    made = tmp_path / "data"
    migrate_folder(made, history_address(Settings(), made))
    return made


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    """name → bytes and moment of the last change."""
    return {place.name: (place.read_bytes(), place.stat().st_mtime_ns) for place in folder.iterdir()}


async def test_a_sound_folder(folder: Path) -> None:
    """Every check is well, nothing is left behind, and the lock can be had afterwards."""
    before = sorted(place.name for place in folder.iterdir())
    found = states(await examine_folder(subject(folder)))
    assert {name: found[name] for name in ("exists", "rights", "lock", "files")} == dict.fromkeys(
        ("exists", "rights", "lock", "files"), "ok"
    )
    assert found["fsync"] in ("ok", "warning")  # a busy disk may be slow
    assert sorted(place.name for place in folder.iterdir()) == before
    FolderLock.claim(folder).release()


async def test_a_folder_in_use_is_not_touched(folder: Path) -> None:
    """Its process is named, and neither bytes nor times of its files change."""
    lock = FolderLock.claim(folder)
    before, times = content(folder), folder.stat().st_mtime_ns
    findings = await examine_folder(subject(folder))
    said = {one.check: one.detail for one in findings}
    assert said["lock"] == f"process {os.getpid()} uses it"
    assert "fsync" not in said
    assert "files" not in said
    assert (content(folder), folder.stat().st_mtime_ns) == (before, times)
    lock.release()


async def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    """Is no fault, and is not made."""
    assert states(await examine_folder(subject(tmp_path / "new" / "data"))) == {"exists": "ok"}
    assert not (tmp_path / "new").exists()


async def test_a_file_in_its_place(tmp_path: Path) -> None:
    """Is named."""
    (tmp_path / "data").write_text("", encoding="utf-8")
    (one,) = await examine_folder(subject(tmp_path / "data"))
    assert (one.state, "no folder" in one.detail) == ("failed", True)


@pytest.mark.parametrize(("user", "state"), [(0, "ok"), (1, "failed")])
async def test_files_of_another_user_are_failed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, user: int, state: str
) -> None:
    """Root alone may use them all the same."""
    owner = folder.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: user and owner + user)
    assert states(await examine_folder(subject(folder)))["rights"] == state


@pytest.mark.parametrize("mark", [RESTORING, REPAIRING])
async def test_half_a_backup_or_repair_is_failed(folder: Path, mark: str) -> None:
    """The service would refuse it."""
    (folder / mark).touch()
    assert states(await examine_folder(subject(folder)))["files"] == "failed"


async def test_a_missing_file_is_failed(folder: Path) -> None:
    """As when the files were copied one by one."""
    shutil.move(folder / "state.db", folder / "state-1.db")
    findings = await examine_folder(subject(folder))
    assert states(findings)["files"] == "failed"
    assert any("state-1.db" in one.detail for one in findings)


async def test_a_folder_of_locks_alone(tmp_path: Path, folder: Path) -> None:
    """The jobs are on a server: the disk is needed for locks alone, and jobs must not be here."""
    url = "postgresql://me@127.0.0.1:1/x"
    FolderLock.claim(tmp_path / "locks").release()
    findings = await examine_folder(subject(tmp_path / "locks", store__url=url))
    assert states(findings) == dict.fromkeys(("exists", "rights", "lock", "fsync", "files"), "ok")
    assert "store.url" in findings[-1].detail
    with_history = subject(tmp_path / "locks", store__url=url, database__url=f"sqlite:///{tmp_path}/h.db")
    assert "disk" in states(await examine_folder(with_history))
    assert states(await examine_folder(subject(folder, store__url=url)))["files"] == "failed"


async def test_files_that_others_can_read_are_a_warning(folder: Path) -> None:
    """They hold the keys of feedback tokens."""
    (folder / "state.db").chmod(0o644)
    assert states(await examine_folder(subject(folder)))["rights"] == "warning"


def test_the_kind_of_a_file_system_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    """Not that of the root, and of two mounts at one place the later one."""
    table = tmp_path / "mounts"
    own = tmp_path.resolve()
    table.write_text(
        f"/dev/a / ext4 rw 0 0\n/dev/b {own} xfs rw 0 0\nserver:/c {own} nfs4 rw 0 0\n"
        "/dev/d /elsewhere btrfs rw 0 0\n",
        encoding="utf-8",
    )
    assert kind_of(own / "data", table) == "nfs4"
    assert kind_of(Path("/"), table) == "ext4"
    assert kind_of(own, tmp_path / "absent") == "unknown"
