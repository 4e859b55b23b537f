"""A new file takes the place of a damaged one, whatever moment the process ends at."""

from pathlib import Path

import pytest

from scheduler_service.persistence.sqlite.folder import REPAIRING, FolderLock
from scheduler_service.persistence.sqlite.replacement import Replacement, finish_replacement, replace_file
from scheduler_service.ports.errors import FolderUnusable
from tests.unit.persistence.crashing import Killer

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
