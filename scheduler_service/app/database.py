"""The formats of a data folder, for `punctual db`."""

from pathlib import Path

from scheduler_service.persistence.history.database import inspect, migrate
from scheduler_service.persistence.state.database import inspect as inspect_state
from scheduler_service.persistence.state.folder import FolderLock
from scheduler_service.persistence.state.sqlite_store import SqliteStateStore

STATE_FILE, HISTORY_FILE = "state.db", "history.db"


def history_url(folder: Path | None) -> str:
    """The address of the history beside the jobs' state; None: in memory."""
    return "sqlite://" if folder is None else f"sqlite:///{folder / HISTORY_FILE}"


async def migrate_folder(folder: Path) -> None:
    """Opens both files, which brings them up to date. Raises StoreError."""
    store = await SqliteStateStore.open(folder=folder)
    try:
        migrate(url=history_url(folder))
    finally:
        await store.close()


def migrate_history(folder: Path) -> None:
    """The same where the jobs' state lies elsewhere. Raises StoreError."""
    lock = FolderLock.claim(folder)
    try:
        migrate(url=history_url(folder))
    finally:
        lock.release()


def check_folder(folder: Path) -> list[str]:
    """What is not of this version's formats; changes nothing. Raises StoreError: damaged, or too new."""
    missing = _missing(folder, STATE_FILE, HISTORY_FILE)
    return missing or [*_check_state(folder), *_check_history(folder)]


def check_history(folder: Path) -> list[str]:
    """The same where the jobs' state lies elsewhere."""
    return _missing(folder, HISTORY_FILE) or _check_history(folder)


def _missing(folder: Path, *names: str) -> list[str]:
    return [f"{folder / name} is missing" for name in names if not (folder / name).is_file()]


def _check_state(folder: Path) -> list[str]:
    kept, known = inspect_state(str(folder / STATE_FILE))
    return [] if kept == known else [f"the jobs' state has format {kept}, this program {known}"]


def _check_history(folder: Path) -> list[str]:
    found = inspect(url=history_url(folder))
    if found.up_to_date:
        return [*found.differences]
    return [f"the history has version {found.current}, this program {found.head}", *found.differences]
