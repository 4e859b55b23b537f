"""The data folder: its rights, lock, room and file system, and which of its jobs cannot run."""

import asyncio
import fcntl
import json
import math
import os
import shutil
import stat
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import msgspec

from scheduler_service.app.core_settings import DefinitionCompiler, examined_surroundings
from scheduler_service.app.data_folder import STATE_FILE, check_history, history_address
from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.maintenance.doctor_findings import DoctorFinding, ExaminedPart, ExaminedService
from scheduler_service.maintenance.folder_formats import check_state
from scheduler_service.persistence.sql.sqlite import file_of
from scheduler_service.persistence.sqlite.database import inspect, read_definitions
from scheduler_service.persistence.sqlite.folder_lock import (
    REPAIRING,
    RESTORING,
    files_of,
    find_holder,
    has_state,
    is_divided,
)
from scheduler_service.persistence.tables.key_secret_calendar_tables import read_calendars
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.shared_tables import StoredCalendar
from scheduler_service.services.shared_calendars import lacks_year, lists_none_of, read_calendar
from scheduler_service.settings import LoadedSettings
from scheduler_service.system_jobs.startup_review import first_problem

FOLDER = ExaminedPart("folder")
LEAST_BYTES = 100 << 20
COMFORTABLE_BYTES = 1 << 30
LEAST_FILES = 1_000
TRIES = 5
SLOW_SECONDS = 0.02
"""For one fsync: each commit waits for one, or shares one with others."""

MOUNTS = Path("/proc/mounts")
OVER_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs"})
IN_MEMORY = frozenset({"tmpfs", "ramfs"})
JOBS = ExaminedPart("jobs")
MOST_NAMED = 20
SECONDS = 10.0
REMEDY = "give what it names, such as a variable, and start the service anew; or update the job"


async def examine_folder(subject: ExaminedService) -> list[DoctorFinding]:
    """A folder that a service uses is looked at and not written to. Raises nothing."""
    if (folder := subject.folder) is None:
        return [FOLDER.well("exists", "none: nothing is kept")]
    return await asyncio.to_thread(lambda: list(_look(folder, subject)))


def _look(folder: Path, subject: ExaminedService) -> Iterator[DoctorFinding]:
    settings = subject.loaded.settings
    if not folder.exists():
        yield _judge_parent(folder)
        return
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        what = "this user may not read and write it" if folder.is_dir() else "it is no folder"
        yield FOLDER.fail(
            "exists", f"{folder}: {what}", "name another one with --data, or give it to this user"
        )
        return
    yield FOLDER.well("exists", str(folder.absolute()))
    yield _judge_rights(folder)
    try:
        holder = find_holder(folder)
    except OSError as error:
        yield FOLDER.fail(
            "lock", f"the lock cannot be read: {error.strerror}", "give the folder to this user"
        )
        return
    yield FOLDER.well("lock", "no service uses it" if holder is None else f"process {holder} uses it")
    kind = kind_of(folder, MOUNTS)
    if has_rows := settings.store.url is None or file_of(history_address(settings, folder)) is not None:
        yield from _judge_disk(folder)
        yield _judge_kind(kind)
    elif kind in OVER_NETWORK:
        yield FOLDER.warn("file system", f"{kind}: its locks may not hold", "use a local disk")
    if holder is None:
        yield _try_writing(folder, SLOW_SECONDS if has_rows else math.inf)
        is_elsewhere = settings.store.url is not None and not subject.is_node
        yield _judge_files(folder, history_address(settings, folder), is_elsewhere=is_elsewhere)


def _judge_parent(folder: Path) -> DoctorFinding:
    above = next(one for one in folder.absolute().parents if one.exists())
    if os.access(above, os.W_OK | os.X_OK):
        return FOLDER.well("exists", f"{folder} is not there yet: the service makes it")
    remedy = f"make it for this user, or name another one with --data; {above} is not this user's"
    return FOLDER.fail("exists", f"{folder} is not there, and cannot be made", remedy)


def _judge_rights(folder: Path) -> DoctorFinding:
    found = list(files_of(folder, "*.db*"))
    names = [place.name for place, status in found if status.st_mode & 0o077]
    if names:
        detail = f"other users can read {', '.join(names[:5])}, which hold the keys of feedback tokens"
        return FOLDER.warn("rights", detail, f"chmod go-rwx {folder}/*.db*; the service does so at its start")
    foreign = [place.name for place, status in found if status.st_uid != os.geteuid()]
    if foreign and os.geteuid() != 0:
        detail = f"{', '.join(foreign[:5])} belong to another user"
        return FOLDER.fail("rights", detail, f"run as that user, or chown the files in {folder} to this one")
    return FOLDER.well(
        "rights", f"{stat.filemode(folder.stat().st_mode)}, the files are for their owner alone"
    )


def _judge_disk(folder: Path) -> Iterator[DoctorFinding]:
    remedy = "make room, or set history.max_bytes and history.retain_days"
    free = shutil.disk_usage(folder).free
    detail = f"{free / (1 << 30):.1f} GiB are free"
    if free < LEAST_BYTES:
        yield FOLDER.fail("disk", f"{detail}: commits fail where it is full", remedy)
    elif free < COMFORTABLE_BYTES:
        yield FOLDER.warn("disk", detail, remedy)
    else:
        yield FOLDER.well("disk", detail)
    counts = os.statvfs(folder)
    if counts.f_files and counts.f_favail < LEAST_FILES:
        yield FOLDER.warn("disk", f"{counts.f_favail} more files are possible (df -i)", "remove small files")


def _judge_kind(kind: str) -> DoctorFinding:
    if kind in OVER_NETWORK:
        remedy = "use a local disk, and database.url for a server of the history"
        return FOLDER.warn(
            "file system", f"{kind}: its locks and fsync may not hold what they promise", remedy
        )
    if kind in IN_MEMORY:
        return FOLDER.warn(
            "file system", f"{kind}: it is gone with the machine's next start", "use a folder on a disk"
        )
    if kind == "overlay":
        return FOLDER.warn("file system", "overlay: it goes with its container", "mount a volume there")
    return FOLDER.well("file system", kind)


def kind_of(folder: Path, mounts: Path) -> str:
    """The kind of the file system on which `folder` lies, by a table like /proc/mounts; `unknown` without."""
    own = folder.resolve()
    best, kind = -1, "unknown"
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines() if mounts.exists() else ():
        point = Path(line.split(" ")[1].replace("\\040", " "))
        if own.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), line.split(" ")[2]
    return kind


def _try_writing(folder: Path, slow: float) -> DoctorFinding:
    """Locks and syncs a file without a name, which leaves nothing behind, even if this process is killed."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            took = statistics.median(_time_sync(file.fileno()) for _ in range(TRIES))
    except OSError as error:
        return FOLDER.fail(
            "fsync", f"a file cannot be locked and synced: {error.strerror}", "use a local disk"
        )
    detail = f"locks, and syncs a page within {took * 1_000:.1f} ms"
    if took > slow:
        return FOLDER.warn(
            "fsync", f"{detail}: every commit waits for it", "use a faster disk, an SSD if possible"
        )
    return FOLDER.well("fsync", detail)


def _time_sync(descriptor: int) -> float:
    began = time.perf_counter()
    os.pwrite(descriptor, bytes(4_096), 0)
    os.fsync(descriptor)
    return time.perf_counter() - began


def _judge_files(folder: Path, history: str, *, is_elsewhere: bool) -> DoctorFinding:
    """`is_elsewhere`: the jobs are to be in the database of `store.url`."""
    if (folder / RESTORING).exists():
        detail = "a backup was being copied into it, which has not ended"
        return FOLDER.fail("files", detail, "empty the folder, then begin 'punctual db restore' again")
    if (folder / REPAIRING).exists():
        return FOLDER.fail("files", "a repair has not ended", "run 'punctual db repair' again: it goes on")
    try:
        divided = is_divided(folder)
        if is_elsewhere:
            return _judge_unused(folder)
        if not has_state(folder):
            return FOLDER.well("files", f"no {STATE_FILE} yet")
        kept, known = inspect(str(folder / STATE_FILE))
        if kept == known and not divided:
            check_history(folder, None, history)
    except StoreError as error:
        return FOLDER.fail(
            "files", str(error), "see docs/operations.md, Damage; 'punctual db check' reads all"
        )
    if divided or kept != known:
        detail = f"the jobs' state has format {kept}, this program {known}"
        return FOLDER.warn("files", detail, "the service migrates it at its start; make a backup before")
    return FOLDER.well("files", f"format {kept}; 'punctual db check' reads them whole")


def _judge_unused(folder: Path) -> DoctorFinding:
    if has_state(folder):
        detail = f"it has jobs ({STATE_FILE}), and store.url names a database: the service refuses that"
        return FOLDER.fail("files", detail, "leave store.url out, or name another folder with --data")
    return FOLDER.well("files", "no jobs: they are in the database of store.url")


async def examine_jobs(subject: ExaminedService, *, seconds: float = SECONDS) -> list[DoctorFinding]:
    """Reads the definitions of a folder that no service uses, and changes nothing. Raises nothing.

    After `seconds` it ends, and says that it has not looked at all jobs.
    """
    folder, until = subject.folder, time.monotonic() + seconds
    found: list[tuple[str, str]] = []
    is_cut = False
    try:
        if folder is None or not has_state(folder) or find_holder(folder) is not None:
            return []
        if is_divided(folder) or check_state(folder / STATE_FILE):
            return []  # told as one of the files: they are migrated first
        async with aclosing(find_unfit(subject.loaded, folder)) as jobs:
            async for job_id, problem in jobs:
                if problem is not None:
                    found.append((job_id, problem))
                if is_cut := time.monotonic() > until:
                    break
        old = _name_old_calendars(subject.loaded, folder)
    except (OSError, PunctualError):
        return []  # told as one of the folder, the files or the settings
    more = "'punctual db check' names all"
    named = [*name_unfit(JOBS, islice(found, MOST_NAMED), len(found) - MOST_NAMED, more), *old]
    if is_cut:
        return [*named, JOBS.warn("run", f"not all were looked at within {seconds:g} s", more)]
    return named or [JOBS.well("run", "all can")]


def kept_calendars(loaded: LoadedSettings, folder: Path) -> list[StoredCalendar]:
    """The calendars that jobs of a folder may use. Raises StoreUnavailable."""
    url = history_address(loaded.settings, folder)
    place = file_of(url)
    if place is not None and not place.is_file():
        return []
    return [one for one in read_calendars(url=url) if not one.is_removed]


def _name_old_calendars(loaded: LoadedSettings, folder: Path) -> list[DoctorFinding]:
    """A warning for each that lists no day of the current year, the first MOST_NAMED of them."""
    year = datetime.now(UTC).year
    old = (one for one in kept_calendars(loaded, folder) if lists_none_of(json.loads(one.document), year))
    return [name_old_calendar(JOBS, one.name, lacks_year(year)) for one in islice(old, MOST_NAMED)]


def name_old_calendar(part: ExaminedPart, name: str, said: str) -> DoctorFinding:
    """A warning about a calendar."""
    remedy = f"give its days: punctual calendars import {name} FILE, or put, with its country"
    return part.warn(f"calendar {name}", said, remedy)


async def find_unfit(loaded: LoadedSettings, folder: Path) -> AsyncGenerator[tuple[str, str | None], None]:
    """Each job, with the first reason for which it cannot run; None: it can.

    Raises StoreRefused, SettingsError, PolicyError.
    """
    known = {
        (one.tenant, one.name): read_calendar(one.name, json.loads(one.document), [], revision=one.version)
        for one in kept_calendars(loaded, folder)
    }
    around = msgspec.structs.replace(
        examined_surroundings(loaded), find_calendar=lambda *name: known.get(name)
    )
    compiler = DefinitionCompiler(settings=loaded.settings, surroundings=around)
    for job_id, text in read_definitions(str(folder / STATE_FILE)):
        problem = first_problem(await compiler.stored(text, read_job_key(job_id)[0]))
        yield job_id, None if problem is None else problem.message


def name_unfit(
    part: ExaminedPart, named: Iterable[tuple[str, str]], more: int, where: str
) -> list[DoctorFinding]:
    """A warning for each of the jobs, and one for `more` others, which are named `where`."""
    found = [part.warn(f"job {job_id}", f"it cannot run: {said}", REMEDY) for job_id, said in named]
    return [*found, part.warn("jobs", f"{more} more cannot run", where)] if more > 0 else found
