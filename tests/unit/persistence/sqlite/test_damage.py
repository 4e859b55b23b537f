"""Damage of a file is found, what can be read is saved around it, and put in its place, over kills."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_service.persistence.sqlite.damage import (
    Replacement,
    Saved,
    find_damage,
    finish_replacement,
    replace_file,
    save_rows,
)
from scheduler_service.persistence.sqlite.folder_lock import REPAIRING, FolderLock
from scheduler_service.ports.errors import FolderUnusable
from tests.unit.persistence.crashing import Killer

PAGE = 4096
TABLES = ("CREATE TABLE many (name TEXT PRIMARY KEY, value BLOB)", "CREATE TABLE few (name TEXT)")


def fill(place: Path, rows: int = 400) -> Path:
    """A file whose table `many` has one row a page, and whose table `few` has a row."""
    make_empty(place)
    with closing(sqlite3.connect(place)) as connection, connection:
        given = [(f"row-{number}", bytes([number % 256]) * 3_000) for number in range(rows)]
        connection.executemany("INSERT INTO many VALUES (?, ?)", given)
        connection.execute("INSERT INTO few VALUES ('one')")
    return place


def make_empty(place: Path) -> Path:
    """The tables alone."""
    with closing(sqlite3.connect(place)) as connection, connection:
        for table in TABLES:
            connection.execute(table)
    return place


def destroy(place: Path, pages: Iterable[int]) -> None:
    """Overwrites pages, counted from 0, as a broken disk does."""
    with place.open("r+b") as file:
        for page in pages:
            file.seek(page * PAGE)
            file.write(b"\x5a" * PAGE)


def names(place: Path) -> list[str]:
    """The rows of `many`."""
    with closing(sqlite3.connect(place)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM many ORDER BY rowid")]


def test_an_intact_file_has_no_damage(tmp_path: Path) -> None:
    """And all of it is saved."""
    place = fill(tmp_path / "one.db")
    assert find_damage(place) == []
    target = make_empty(tmp_path / "two.db")
    assert save_rows(place, target) == Saved({"few": 1, "many": 400}, ())
    assert names(target) == names(place)


def test_rows_before_and_behind_a_damaged_page_are_saved(tmp_path: Path) -> None:
    """The tables that lost rows are named; the others are whole."""
    place = fill(tmp_path / "one.db")
    everything = names(place)
    destroy(place, [200, 201])
    assert find_damage(place)
    target = make_empty(tmp_path / "two.db")
    saved = save_rows(place, target)
    kept = names(target)
    assert saved == Saved({"few": 1, "many": len(kept)}, ("many",))
    assert 390 <= len(kept) < 400
    assert kept[:100] == everything[:100]
    assert set(everything[-100:]) < set(kept) < set(everything)


def test_a_file_that_is_no_database_says_so(tmp_path: Path) -> None:
    """One line, whatever is in it; it cannot be saved."""
    place = tmp_path / "one.db"
    place.write_bytes(b"no database" * 1_000)
    assert find_damage(place) == ["file is not a database"]


def test_a_text_that_is_no_utf_8_is_left_out(tmp_path: Path) -> None:
    """A row with it would break every list that it is in."""
    place = fill(tmp_path / "one.db", rows=3)
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("UPDATE many SET name = CAST(x'fffe' AS TEXT) WHERE name = 'row-1'")
    target = make_empty(tmp_path / "two.db")
    assert save_rows(place, target) == Saved({"few": 1, "many": 2}, ("many",))
    assert names(target) == ["row-0", "row-2"]


PASSAGES = 14
OLD = {"one.db": "old", "one.db-wal": "log", "one.db-journal": "journal"}
NEW = {"one.db": "new"} | {f"kept{name[6:]}": content for name, content in OLD.items()}


class Ended(BaseException):
    """Where a process would have ended."""


class End(Killer):
    """Ends there without a process of its own."""

    def end(self) -> None:
        raise Ended


def lay_out(folder: Path) -> Replacement:
    """A damaged file with its logs, and the new one."""
    for name, content in {**OLD, "fresh": "new"}.items():
        (folder / name).write_text(content)
    return Replacement(*(str(folder / name) for name in ("one.db", "fresh", "kept")))


def contents(folder: Path) -> dict[str, str]:
    return {place.name: place.read_text() for place in folder.iterdir() if place.name != "lock"}


def test_the_damaged_file_is_kept_with_its_log(tmp_path: Path) -> None:
    """Under another name; nothing of its log is left for the new file."""
    replace_file(tmp_path, lay_out(tmp_path))
    assert contents(tmp_path) == NEW


@pytest.mark.parametrize("passage", range(1, PASSAGES + 2))
def test_one_that_was_cut_off_is_finished(tmp_path: Path, passage: int) -> None:
    """Until then the folder is marked, unless nothing has begun or everything is done."""
    replacement = lay_out(tmp_path)
    try:
        replace_file(tmp_path, replacement, faults=End(passage))
    except Ended:
        left = contents(tmp_path)
        if REPAIRING in left:
            with pytest.raises(FolderUnusable, match="'punctual db repair' again"):
                FolderLock.claim(tmp_path)
            assert finish_replacement(tmp_path) == replacement
            assert contents(tmp_path) == NEW
        else:
            assert left in ({**OLD, "fresh": "new"}, NEW)
    else:
        assert passage == PASSAGES + 1
    assert finish_replacement(tmp_path) is None


def test_a_mark_that_was_half_written_is_taken_away(tmp_path: Path) -> None:
    """Nothing was changed before it was whole."""
    lay_out(tmp_path)
    (tmp_path / REPAIRING).write_text('{"damaged": "/x')
    assert finish_replacement(tmp_path) is None
    assert contents(tmp_path) == {**OLD, "fresh": "new"}
