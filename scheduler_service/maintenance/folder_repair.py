"""`punctual db check` and `db repair`: damage of a data folder's files, and what can be saved of them."""

import re
import shutil
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec

from scheduler_service.domain.moments import rfc3339
from scheduler_service.maintenance.folder_formats import history_files, is_readable
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.history.database import inspect, migrate
from scheduler_service.persistence.sql.sqlite import address_of
from scheduler_service.persistence.sqlite.damage import (
    Replacement,
    Saved,
    find_damage,
    finish_replacement,
    passing,
    replace_file,
    save_rows,
)
from scheduler_service.persistence.sqlite.database import inspect as inspect_state
from scheduler_service.persistence.sqlite.database import (
    open_reading,
    open_writing,
    read_documents,
    translated,
)
from scheduler_service.persistence.sqlite.files import take_over
from scheduler_service.persistence.sqlite.folder_lock import (
    REPAIRING,
    FolderLock,
    await_workers,
    check_kinds,
    find_divided,
    has_state,
    is_divided,
    state_file,
    write_private,
)
from scheduler_service.persistence.sqlite.schema import transaction
from scheduler_service.ports.errors import FolderUnusable, StoreDamaged, StoreRefused

MAX_NAMED = 20
"""Of so many jobs of a file that cannot be read each is named."""

_DEFINITION = "SELECT text FROM definitions JOIN jobs USING (uid, revision) WHERE jobs.job_id = ?"


class Repair(msgspec.Struct, frozen=True):
    """A file that was damaged: what was `saved` of it, and the name under which it is `kept`."""

    name: str
    kept: Path
    saved: Saved

    def lines(self) -> list[str]:
        """What became of the file, for people."""
        rows = ", ".join(f"{table} {count}" for table, count in sorted(self.saved.rows.items()) if count)
        return [
            f"{self.name} is made anew with the rows that could be read: {rows or 'none'}",
            *([f"rows are missing in: {', '.join(self.saved.damaged)}"] if self.saved.damaged else []),
            f"the damaged file is kept as {self.kept.name}",
        ]


class FinishedRepair(msgspec.Struct, frozen=True):
    """A file whose repair was cut off, and is finished; the damaged one is `kept`."""

    name: str
    kept: Path

    def lines(self) -> list[str]:
        """What became of the file, for people."""
        return [f"{self.name}: a repair that was cut off is finished; the damaged file is {self.kept.name}"]


class RepairedJobs(msgspec.Struct, frozen=True):
    """Jobs of the file `name` whose state could not be read: their definitions are in `kept`.

    `pages`: the files that have what could not be read of an earlier version's journal.
    """

    name: str
    job_ids: tuple[str, ...]
    kept: Path
    pages: tuple[Path, ...]

    def lines(self) -> list[str]:
        """What became of the jobs, for people."""
        lines = [
            f"{self.name}: the last turn of some jobs is lost and will be repeated; the damaged page is kept "
            f"as {page.name}"
            for page in self.pages
        ]
        if self.job_ids:
            lines += [
                f"{len(self.job_ids)} jobs of {self.name} could not be read and are removed: "
                f"{', '.join(self.job_ids[:MAX_NAMED])}",
                f"create them again from their definitions, with 'punctual jobs apply -f {self.kept}'",
            ]
        return lines


def find_folder_damage(folder: Path, history: str) -> list[str]:
    """What is damaged in the files of the jobs' state and of the history, a line each; changes nothing.

    Reads the files whole. A service may be using them. A job whose row cannot be read is named: it does
    nothing, and the others go on.
    """
    if (folder / REPAIRING).exists():
        return ["a repair has not ended; run 'punctual db repair' again, which goes on"]
    lines = [f"{place.name}: {line}" for place in _places(folder, history) for line in find_damage(place)]
    if not lines:
        lines = [f"{place.name}: {line}" for place in _state_places(folder) for line in _find_unread(place)]
    return lines


def repair_folder(
    folder: Path, history: str, *, now: int, faults: FaultPoints | None = None
) -> list[Repair | FinishedRepair | RepairedJobs]:
    """Makes each damaged file anew from what can be read of it, then removes jobs that cannot be read.

    The damaged files and the definitions of the jobs stay in the folder. The service must not be running.
    `now` (wall ms) is part of the names under which they are kept. One that is killed is finished by the next
    one; no service starts on a folder where that is needed. Blocks. Raises StoreError: in use, no room for a
    second file, or nothing of a file can be saved.
    """
    stamp = re.sub(r"[:-]|\..*", "", rfc3339(now))
    with ExitStack() as locks:
        locks.callback(FolderLock.claim_for_repair(folder).release)
        cut_off = finish_replacement(folder, faults=faults)
        finished = [] if cut_off is None else [FinishedRepair(Path(cut_off.damaged).name, Path(cut_off.kept))]
        states = _state_places(folder)
        await_workers(folder)
        damaged = [place for place in _places(folder, history) if find_damage(place)]
        if states[0] not in damaged:
            is_divided(folder)  # refuses a folder from which files were lost
        repairs = [_save(folder, place, stamp, is_state=place in states, faults=faults) for place in damaged]
        jobs = (_repair_jobs(place, stamp, faults) for place in states)
        return [*finished, *repairs, *(one for one in jobs if one is not None)]


def _aside(place: Path, stamp: str) -> Path:
    """A name that no file has."""
    kept, number = place.with_name(f"{place.name}.damaged-{stamp}"), 1
    while kept.exists():
        number += 1
        kept = place.with_name(f"{place.name}.damaged-{stamp}-{number}")
    return kept


def _save(folder: Path, place: Path, stamp: str, *, is_state: bool, faults: FaultPoints | None) -> Repair:
    """A new file, with what can be read of that at `place`, in its place."""
    kept = _aside(place, stamp)
    fresh = place.with_name(f"{place.name}.repaired")
    _remove(fresh)
    try:
        _check_room(place)
        _check_format(place, is_state=is_state)
        if is_state:
            open_writing(str(fresh), durability="full").close()
        else:
            migrate(url=address_of(fresh))
        with translated(str(place)), passing(faults):
            saved = save_rows(place, fresh)
    except BaseException:
        _remove(fresh)
        raise
    replace_file(folder, Replacement(str(place), str(fresh), str(kept)), faults=faults)
    return Repair(place.name, kept, saved)


def _check_format(place: Path, *, is_state: bool) -> None:
    """Rows of another format do not fit into new tables."""
    if is_state:
        found, known = (str(number) for number in inspect_state(str(place)))
    else:
        check = inspect(url=address_of(place))
        found, known = str(check.current), check.head
    if found != known:
        raise StoreRefused(
            f"The damaged file {place} has format {found}, this program {known}. "
            "Repair it with the version of Punctual that wrote it, or restore a backup."
        )


def _check_room(place: Path) -> None:
    size, free = place.stat().st_size, shutil.disk_usage(place.parent).free
    if free < size:
        raise FolderUnusable(
            f"A repair of {place} needs {size:,} bytes beside it, and the disk has {free:,}. Make room first."
        )


def _find_unread(place: Path) -> list[str]:
    """The jobs that cannot be read, in a file whose own pages are whole."""
    with translated(str(place)), closing(open_reading(str(place))) as connection:
        unread = [job_id for job_id, document in read_documents(connection) if not is_readable(document)]
    lines = [f"the state of job {job_id} cannot be read" for job_id in unread[:MAX_NAMED]]
    if len(unread) > MAX_NAMED:
        lines.append(f"and {len(unread) - MAX_NAMED} more jobs")
    return lines


def _repair_jobs(place: Path, stamp: str, faults: FaultPoints | None) -> RepairedJobs | None:
    """Takes over what an earlier version left in the journal first: a job with a later turn can be read.

    Definitions are durable in a file of their own before their jobs are removed.
    """
    kept = place.with_name(f"{place.name}.jobs-{stamp}.json")
    pages: list[Path] = []
    with translated(str(place)), closing(open_writing(str(place), durability="full")) as connection:
        with passing(faults), transaction(connection):
            take_over(connection, place=place, on_damaged_page=pages.append)
        job_ids = [job_id for job_id, document in read_documents(connection) if not is_readable(document)]
        if job_ids:
            texts = [text for job_id in job_ids for (text,) in connection.execute(_DEFINITION, (job_id,))]
            with passing(faults):
                write_private(kept, b"[" + b",\n".join(texts) + b"]\n")
            with passing(faults), transaction(connection):
                connection.executemany("DELETE FROM jobs WHERE job_id = ?", [(one,) for one in job_ids])
    return RepairedJobs(place.name, tuple(job_ids), kept, tuple(pages)) if job_ids or pages else None


def _places(folder: Path, history: str) -> list[Path]:
    places = history_files(history)
    check_kinds(*places)
    return [*_state_places(folder), *(place for place in places if place.is_file())]


def _state_places(folder: Path) -> list[Path]:
    """All that are there: a damaged `state.db` cannot say how many there should be."""
    if not has_state(folder):
        raise StoreDamaged(
            f"{state_file(folder)} is missing or empty. Restore a backup ('punctual db restore')."
        )
    return [state_file(folder), *find_divided(folder)]


def _remove(place: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        Path(f"{place}{end}").unlink(missing_ok=True)
