"""The formats of files and of a server's tables: what differs from this version, and how it is mended."""

import asyncio
from pathlib import Path

from scheduler_service.app.data_folder import STATE_FILE, check_beginning, check_history
from scheduler_service.engine.document_bytes import SnapshotError, decode, is_apart, read_version
from scheduler_service.persistence.history.database import inspect, migrate
from scheduler_service.persistence.job_store.database_lock import ServiceLock
from scheduler_service.persistence.job_store.job_store_schema import MIGRATIONS as CLUSTER
from scheduler_service.persistence.sql.database import Database
from scheduler_service.persistence.sql.migrations import Check
from scheduler_service.persistence.sql.sqlite import file_of
from scheduler_service.persistence.sqlite.database import inspect as inspect_state
from scheduler_service.persistence.sqlite.files import upgrade_folder
from scheduler_service.persistence.sqlite.folder_lock import (
    LOCK,
    FolderLock,
    await_workers,
    check_kinds,
    has_state,
    is_divided,
)
from scheduler_service.persistence.sqlite.shard_merge import gather

MIGRATE = "run 'punctual db migrate'"
NOT_USED = "no service has used this folder: name another one (--data), or start the service, which makes it"


def migrate_folder(folder: Path, history: str) -> None:
    """Brings the files of the jobs' state together and up to date, and the history. Raises StoreError."""
    lock = FolderLock.claim(folder)
    try:
        check_beginning(folder, history)
        await_workers(folder)
        gather(folder, log=lambda *_, **__: None)
        upgrade_folder(folder)
        check_history(folder, None, history)
        migrate(url=history)
    finally:
        lock.release()


def migrate_server(url: str, history: str) -> None:
    """Brings the tables of a service that is alone up to date, and the history.

    Raises StoreError, also where a service is running over them, or they are a cluster's.
    """

    async def run() -> None:
        lock = await ServiceLock.claim(url=url)
        try:
            await asyncio.to_thread(lambda: Database(url=url, migrations=CLUSTER).close())
        finally:
            await lock.release()

    asyncio.run(run())
    check_history(None, url, history)
    migrate(url=history)


def make_history(folder: Path, history: str) -> None:
    """Makes the history anew beside the jobs that were. Raises StoreError, also where a service runs here."""
    lock = FolderLock.claim(folder)
    try:
        migrate(url=history)
    finally:
        lock.release()


def check_server(url: str, history: str) -> list[str]:
    """As `check_folder`, of a service whose jobs are in the database at `url`."""
    check_history(None, url, history)
    state = _check_tables(inspect(url=url, migrations=CLUSTER), "the jobs' state")
    return [*state, *_check_tables(inspect(url=history), "the history")]


def check_folder(folder: Path, history: str) -> list[str]:
    """What differs from this version's formats, each with its remedy; changes nothing.

    Raises StoreError: damaged, or too new.
    """
    check_kinds(folder / LOCK, folder / STATE_FILE, *history_files(history))
    divided = [f"the jobs are in several files: {MIGRATE}"] if is_divided(folder) else []
    check_beginning(folder, history)
    place = folder / STATE_FILE
    if not divided and has_state(folder) and not check_state(place):
        check_history(folder, None, history)
    if missing := _missing(place) + _missing_history(history):
        return [f"{', '.join(missing)}: {MIGRATE if place.is_file() else NOT_USED}"]
    return [*divided, *check_state(place), *_check_tables(inspect(url=history), "the history")]


def check_state(place: Path) -> list[str]:
    """What differs in the file of the jobs' state from this version's format. Raises StoreRefused."""
    kept, known = inspect_state(str(place))
    return [] if kept == known else [f"the jobs' state has format {kept}, this program {known}: {MIGRATE}"]


def history_files(history: str) -> list[Path]:
    """The file of a history that lies in one."""
    return [] if (place := file_of(history)) is None else [place]


def is_readable(document: bytes) -> bool:
    """Whether the stored state of a job can be read."""
    try:
        decode(read_version(document)[1] if is_apart(document) else document)
    except SnapshotError:
        return False
    return True


def _missing_history(history: str) -> list[str]:
    """Checked first: SQLite creates a file that is not there."""
    return [line for place in history_files(history) for line in _missing(place)]


def _missing(place: Path) -> list[str]:
    return [] if place.is_file() else [f"{place} is missing"]


def _check_tables(found: Check, what: str) -> list[str]:
    if found.up_to_date:
        return []
    wrong = list(found.differences)
    if found.current is None:
        wrong = ["it has no tables yet"]
    elif found.current != found.head:
        wrong = [f"it has version {found.current}, this program {found.head}", *wrong]
    return [f"{what}: {', '.join(wrong)}: {found.remedy}"]
