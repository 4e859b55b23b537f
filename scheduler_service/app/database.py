"""Where the history lies, and the formats of a data folder, for `punctual db`."""

from pathlib import Path

from scheduler_service.persistence.history.database import inspect, migrate
from scheduler_service.persistence.state.database import inspect as inspect_state
from scheduler_service.persistence.state.folder import FolderLock
from scheduler_service.persistence.state.sqlite_store import SqliteStateStore
from scheduler_service.settings import Settings

STATE_FILE, HISTORY_FILE = "state.db", "history.db"
IN_FILE = "sqlite:///"


def history_address(settings: Settings, folder: Path | None) -> str:
    """Where the history lies: `database.url`, else beside the jobs' state; no folder: in memory."""
    if settings.database.url is not None:
        return settings.database.url
    return "sqlite://" if folder is None else f"{IN_FILE}{folder / HISTORY_FILE}"


async def migrate_folder(folder: Path, history: str) -> None:
    """Opens the jobs' state and the history, which brings them up to date. Raises StoreError."""
    store = await SqliteStateStore.open(folder=folder)
    try:
        migrate(url=history)
    finally:
        await store.close()


def migrate_history(folder: Path, history: str) -> None:
    """The same where the jobs' state lies elsewhere. Raises StoreError."""
    lock = FolderLock.claim(folder)
    try:
        migrate(url=history)
    finally:
        lock.release()


def check_folder(folder: Path, history: str) -> list[str]:
    """What is not of this version's formats; changes nothing. Raises StoreError: damaged, or too new."""
    missing = [*_missing(folder / STATE_FILE), *_missing_history(history)]
    return missing or [*_check_state(folder), *_check_history(history)]


def check_history(history: str) -> list[str]:
    """The same where the jobs' state lies elsewhere."""
    return _missing_history(history) or _check_history(history)


def _missing_history(history: str) -> list[str]:
    """To ask SQLite for a file that is not there would make it."""
    return _missing(Path(history.removeprefix(IN_FILE))) if history.startswith(IN_FILE) else []


def _missing(place: Path) -> list[str]:
    return [] if place.is_file() else [f"{place} is missing"]


def _check_state(folder: Path) -> list[str]:
    kept, known = inspect_state(str(folder / STATE_FILE))
    return [] if kept == known else [f"the jobs' state has format {kept}, this program {known}"]


def _check_history(history: str) -> list[str]:
    found = inspect(url=history)
    if found.up_to_date:
        return [*found.differences]
    if found.current is None:
        return ["the history has no tables yet"]
    return [f"the history has version {found.current}, this program {found.head}", *found.differences]
