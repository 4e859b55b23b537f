"""The formats of a data folder, for `punctual db`."""

from pathlib import Path

from scheduler_service.persistence.history.database import inspect, migrate
from scheduler_service.persistence.state.database import inspect as inspect_state
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


def check_folder(folder: Path) -> list[str]:
    """What is not of this version's formats; changes nothing. Raises StoreError: damaged, or too new."""
    missing = [
        f"{folder / name} is missing" for name in (STATE_FILE, HISTORY_FILE) if not (folder / name).is_file()
    ]
    if missing:
        return missing
    wrong = []
    kept, known = inspect_state(str(folder / STATE_FILE))
    if kept != known:
        wrong.append(f"the jobs' state has format {kept}, this program {known}")
    found = inspect(url=history_url(folder))
    if not found.up_to_date:
        wrong.append(f"the history has version {found.current}, this program {found.head}")
    return [*wrong, *found.differences]
