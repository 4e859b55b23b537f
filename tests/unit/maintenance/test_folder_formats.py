"""The formats of a data folder, as `punctual db` sees them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_service.app.data_folder import (
    HISTORY_FILE,
    STATE_FILE,
    check_beginning,
    history_address,
    keep_private,
    name_misplaced,
)
from scheduler_service.maintenance.backup import back_up, restore
from scheduler_service.maintenance.database_keys import make_key
from scheduler_service.maintenance.folder_formats import check_folder, migrate_folder
from scheduler_service.maintenance.folder_repair import repair_folder
from scheduler_service.persistence.sqlite.folder_lock import BACKUP_LIST, FolderLock
from scheduler_service.persistence.sqlite.schema import MIGRATIONS
from scheduler_service.ports.errors import FolderUnusable, StoreDamaged, StoreError, StoreUnavailable
from scheduler_service.settings import Settings
from tests.unit.persistence.folders import DIVIDED, divide
from tests.unit.persistence.servers import shared_urls

postgres_url = shared_urls


def beside(folder: Path) -> str:
    """Where the history lies that no setting puts elsewhere."""
    return history_address(Settings(), folder)


def test_a_migrated_folder_is_up_to_date(tmp_path: Path) -> None:
    """`db migrate` leaves nothing for `db check` to find (SPEC section 16)."""
    (missing,) = check_folder(tmp_path, beside(tmp_path))
    said = f"{tmp_path}/state.db is missing, {tmp_path}/history.db is missing: no service has used this"
    assert missing.startswith(said)
    migrate_folder(tmp_path, beside(tmp_path))
    assert check_folder(tmp_path, beside(tmp_path)) == []


@pytest.mark.parametrize("name", ["a?b", "a%20b", "a#b", "file:a?mode=ro", "100%", "x@y", "a\nb"])
def test_what_a_url_reads_otherwise_is_a_name_like_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """All files lie in the folder that was named, and nothing beside it, whatever characters it has."""
    monkeypatch.chdir(tmp_path)
    folder, made, restored = Path(name), Path("made", name), Path("restored", name)
    migrate_folder(folder, beside(folder))
    back_up(folder, beside(folder), made, now=0, on_progress=lambda *_: None)
    restore(made, restored, beside(restored), on_progress=lambda *_: None)
    (folder / HISTORY_FILE).write_bytes(b"damaged")
    with pytest.raises(StoreError):
        check_folder(folder, beside(folder))
    assert repair_folder(restored, beside(restored), now=0) == []
    assert check_folder(restored, beside(restored)) == []
    files = {STATE_FILE, HISTORY_FILE}
    for place in (folder, made, restored):
        assert files <= {one.name for one in place.iterdir()}, place
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted({name, "made", "restored"})


@pytest.mark.parametrize(("name", "old"), [("a?b", "a"), ("a%20b", "a b/history.db")])
def test_a_history_that_an_earlier_version_misplaced_is_named(tmp_path: Path, name: str, old: str) -> None:
    """Once, with the remedy; what is no history, or that of others, is not."""
    lines: list[tuple[str, dict[str, object]]] = []

    def named() -> list[object]:
        lines.clear()
        name_misplaced(tmp_path / name, lambda event, /, **keys: lines.append((event, keys)))
        return [keys["file"] for event, keys in lines if event == "history_misplaced"]

    place = tmp_path / old
    place.parent.mkdir(exist_ok=True)
    assert named() == []
    place.write_text("no database")
    assert named() == []
    place.unlink()
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("CREATE TABLE executions (uid TEXT)")
    assert named() == [str(place)]
    assert str(tmp_path / name / HISTORY_FILE) in str(lines[0][1]["note"])
    (place.parent / STATE_FILE).write_bytes(b"theirs")
    assert named() == []


def test_an_address_of_a_history_is_a_url(tmp_path: Path) -> None:
    """`%XX` in `database.url` is a character, for a service, a check and a backup alike."""
    migrate_folder(tmp_path, f"sqlite:///{tmp_path}/a%20b%3Fc.db")
    assert (tmp_path / "a b?c.db").is_file()
    assert check_folder(tmp_path, f"sqlite:///{tmp_path}/a%20b%3Fc.db") == []


@pytest.mark.parametrize("name", ["lock", STATE_FILE, HISTORY_FILE])
def test_a_folder_in_the_place_of_a_file_is_told(tmp_path: Path, name: str) -> None:
    """No service starts there, and nothing was damaged or is missing."""
    migrate_folder(tmp_path, beside(tmp_path))
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(FolderUnusable, match=f"{name} is no file"):
        check_folder(tmp_path, beside(tmp_path))


def test_a_state_of_another_format_is_told(tmp_path: Path) -> None:
    """An older state is to be migrated; a newer one, or no database at all, is refused in words."""
    migrate_folder(tmp_path, beside(tmp_path))
    place = tmp_path / STATE_FILE
    older = [f"the jobs' state has format 0, this program {len(MIGRATIONS)}: run 'punctual db migrate'"]
    for version, found in ((0, older), (99, None)):
        connection = sqlite3.connect(place)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.close()
        if found is not None:
            assert check_folder(tmp_path, beside(tmp_path)) == found
    with pytest.raises(StoreError, match="has format 99"):
        check_folder(tmp_path, beside(tmp_path))
    place.write_bytes(b"no database" * 1_000)
    with pytest.raises(StoreError, match=STATE_FILE):
        check_folder(tmp_path, beside(tmp_path))


def test_a_damaged_history_is_told_in_words(tmp_path: Path) -> None:
    """A file that is no database ends a command with a message, never with a stack trace."""
    migrate_folder(tmp_path, beside(tmp_path))
    (tmp_path / HISTORY_FILE).write_bytes(b"no database" * 1_000)
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        check_folder(tmp_path, beside(tmp_path))


def test_a_history_in_postgresql_is_checked_and_migrated_there(tmp_path: Path, postgres_url: str) -> None:
    """`database.url` says where it lies; the folder has the jobs' state alone then."""
    migrate_folder(tmp_path, beside(tmp_path))
    (tmp_path / HISTORY_FILE).unlink()
    history = history_address(Settings.model_validate({"database": {"url": postgres_url}}), tmp_path)
    assert check_folder(tmp_path, history) == ["the history: it has no tables yet: run 'punctual db migrate'"]
    migrate_folder(tmp_path, history)
    assert check_folder(tmp_path, history) == []
    assert not (tmp_path / HISTORY_FILE).exists()


def test_a_history_in_another_file_is_looked_for_there(tmp_path: Path) -> None:
    """And not made by looking."""
    other = tmp_path / "other.db"
    migrate_folder(tmp_path, beside(tmp_path))
    assert check_folder(tmp_path, f"sqlite:///{other}") == [f"{other} is missing: run 'punctual db migrate'"]
    assert not other.exists()


def test_a_divided_folder_is_named_and_brought_together(tmp_path: Path) -> None:
    """Earlier versions had a file for each worker process: a file that is missing is named, too."""
    migrate_folder(tmp_path, beside(tmp_path))
    divide(tmp_path, 3)
    told = [line.partition(":")[0] for line in check_folder(tmp_path, beside(tmp_path))]
    old = f"the jobs' state has format {DIVIDED}, this program {len(MIGRATIONS)}"
    assert told == ["the jobs are in several files", old]
    (tmp_path / "state-1.db").rename(tmp_path / "away")
    for look in (check_folder, migrate_folder):
        with pytest.raises(StoreDamaged, match=r"state-1\.db is missing"):
            look(tmp_path, beside(tmp_path))
    (tmp_path / "away").rename(tmp_path / "state-1.db")
    migrate_folder(tmp_path, beside(tmp_path))
    assert check_folder(tmp_path, beside(tmp_path)) == []
    assert not (tmp_path / "state-1.db").exists()


def put_execution(folder: Path, job_id: str) -> None:
    """An execution of the job, in the history of the folder."""
    values = (job_id, 1, job_id, "default", 1, 1, "succeeded", "timer", 1, 1, 1)
    names = "uid, execute_number, job_id, tenant, sequence, revision, state, triggered_by, planned_at"
    with closing(sqlite3.connect(folder / HISTORY_FILE)) as connection, connection:
        marks = ", ".join("?" * len(values))
        connection.execute(
            f"INSERT INTO executions ({names}, created_at, attempt_count) VALUES ({marks})", values
        )


def test_a_history_without_its_jobs_is_refused(tmp_path: Path) -> None:
    """An empty store would lose all jobs silently; executions of system jobs alone are no sign of any."""
    check_beginning(tmp_path, beside(tmp_path))
    migrate_folder(tmp_path, beside(tmp_path))
    put_execution(tmp_path, "clean")
    (tmp_path / STATE_FILE).unlink()
    check_beginning(tmp_path, beside(tmp_path))
    put_execution(tmp_path, "orders")
    with pytest.raises(StoreDamaged, match=r"no state\.db.*has 1 executions.*--new-state"):
        check_beginning(tmp_path, beside(tmp_path))
    check_beginning(tmp_path, "postgresql://elsewhere/history")


@pytest.mark.parametrize("is_empty", [False, True])
def test_no_command_makes_a_state_beside_a_history(tmp_path: Path, is_empty: bool) -> None:
    """`db check` does not advise to migrate, and `db migrate` does not do what a start refuses."""
    migrate_folder(tmp_path, beside(tmp_path))
    put_execution(tmp_path, "orders")
    (tmp_path / STATE_FILE).unlink()
    if is_empty:
        (tmp_path / STATE_FILE).touch()
    for command in (check_folder, migrate_folder):
        with pytest.raises(StoreDamaged, match="--new-state"):
            command(tmp_path, beside(tmp_path))
    assert not is_empty or (tmp_path / STATE_FILE).stat().st_size == 0


def test_a_backup_is_no_data_folder(tmp_path: Path) -> None:
    """What would write into it refuses it by name and leaves every file, so that it can be restored."""
    folder, made = tmp_path / "data", tmp_path / "made"
    migrate_folder(folder, beside(folder))
    back_up(folder, beside(folder), made, now=0, on_progress=lambda *_: None)
    before = {one.name: one.read_bytes() for one in made.iterdir()}
    for write in (
        lambda: FolderLock.claim(made),
        lambda: migrate_folder(made, beside(made)),
        lambda: repair_folder(made, beside(made), now=0),
        lambda: make_key(Settings.model_validate({"store": {"data": str(made)}}), {"name": "me"}),
    ):
        with pytest.raises(FolderUnusable, match=r"is a backup .* earlier version .* remove backup\.json"):
            write()
    assert {one.name: one.read_bytes() for one in made.iterdir()} == before
    restore(made, tmp_path / "again", beside(tmp_path / "again"), on_progress=lambda *_: None)
    (made / BACKUP_LIST).unlink()
    migrate_folder(made, beside(made))


def test_files_that_others_could_read_are_named_and_closed(tmp_path: Path) -> None:
    """They hold keys of feedback tokens and answers of targets; other files of the folder are let alone."""
    wide = ("state.db", "state-1.db-wal", "history.db", "lock", "notes.txt")
    for name in wide:
        (tmp_path / name).touch(0o644)
    (tmp_path / "history.db-shm").symlink_to(tmp_path / "notes.txt")
    lines: list[dict[str, object]] = []
    keep_private(tmp_path, lambda event, /, **keys: lines.append({"event": event, **keys}))
    (line,) = lines
    assert line["event"] == "files_narrowed"
    assert line["files"] == ["history.db", "lock", "state-1.db-wal", "state.db"]
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in wide] == [0o600] * 4 + [0o644]
    keep_private(tmp_path, lambda event, /, **keys: lines.append({"event": event}))
    assert len(lines) == 1


def test_a_history_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    """Also in a folder that was there before and that others may enter."""
    tmp_path.chmod(0o755)
    migrate_folder(tmp_path, beside(tmp_path))
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in (STATE_FILE, HISTORY_FILE)}
    assert modes == {STATE_FILE: 0o600, HISTORY_FILE: 0o600}


def test_a_folder_whose_name_reads_as_no_file_misplaced_nothing(tmp_path: Path) -> None:
    """`%00` was decoded to NUL, which no file's name has: an earlier version could not start there."""
    lines: list[str] = []
    name_misplaced(tmp_path / "a%00b", lambda event, /, **_keys: lines.append(event))
    assert lines == []
