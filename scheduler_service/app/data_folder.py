"""The address of the history, and the formats of a data folder, for `punctual db`."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

from scheduler_service.app.system_jobs import NAMES
from scheduler_service.engine.snapshot import SnapshotError, decode, is_apart, read_version
from scheduler_service.persistence.history.database import count_executions, inspect, migrate
from scheduler_service.persistence.history.schema import MIGRATIONS as HISTORY
from scheduler_service.persistence.sql.sqlite import IN_MEMORY, address_of, file_of, is_database, misread
from scheduler_service.persistence.sqlite.database import inspect as inspect_state
from scheduler_service.persistence.sqlite.files import upgrade_folder
from scheduler_service.persistence.sqlite.folder import (
    LOCK,
    FolderLock,
    await_workers,
    check_kinds,
    has_state,
    is_divided,
    narrow_files,
)
from scheduler_service.persistence.sqlite.gathering import gather
from scheduler_service.persistence.sqlite.journal import OnDamagedPage
from scheduler_service.persistence.sqlite.schema import MIGRATIONS as STATE
from scheduler_service.persistence.sqlite.writer import OnTrouble
from scheduler_service.ports.errors import StoreDamaged
from scheduler_service.ports.log import Log
from scheduler_service.settings import Settings
from scheduler_service.telemetry.tally import Outage

STATE_FILE, HISTORY_FILE = "state.db", "history.db"
MIGRATE = "run 'punctual db migrate'"
NOT_USED = "no service has used this folder: name another one (--data), or start the service, which makes it"


KINDS = ("state", "history", "cluster")


def known_formats() -> Mapping[str, str]:
    """The format of each kind of data that this program keeps; `redis` only where its package is there."""
    found: dict[str, str] = {}
    for kind in KINDS:
        with contextlib.suppress(ModuleNotFoundError):
            found[kind] = format_of(kind)
    return found


def format_of(kind: str) -> str:
    """The format of one of `KINDS`; loads what a start without it does not."""
    match kind:
        case "state":
            return str(len(STATE))
        case "history":
            return HISTORY.head
    from scheduler_service.persistence.sql_cluster.schema import MIGRATIONS

    return MIGRATIONS.head


def history_address(settings: Settings, folder: Path | None) -> str:
    """The address of the history: `database.url`, else a file beside the jobs' state, or in memory."""
    if settings.database.url is not None:
        return settings.database.url
    return IN_MEMORY if folder is None else address_of(folder / HISTORY_FILE)


def keep_private(folder: Path, log: Log) -> None:
    """Takes the rights of other users from the files of a data folder; the log names those that had any."""
    if wide := narrow_files(folder):
        log("files_narrowed", folder=str(folder), files=wide, note="other users could read them until now")


def name_misplaced(folder: Path, log: Log) -> None:
    """Names the file in which a program before 0.2.0 kept the history of this folder, if that is elsewhere.

    A history beside the state of other jobs is theirs, and left alone.
    """
    place = folder / HISTORY_FILE
    found = misread(place)
    if found is None or not is_database(found) or has_state(found.parent):
        return
    remedy = f"stop the service, move that file to {place}, and start it again"
    log("history_misplaced", file=str(found), note=f"an earlier version kept it there; to keep it, {remedy}")


def tell_damaged_page(log: Log) -> OnDamagedPage:
    """Says in the log that a page of an earlier version's journal is damaged, and where it is now."""
    note = "a page that an earlier version left is damaged: jobs may repeat what they did last"
    return lambda copy: log("turns_lost", copy=str(copy), note=note)


def tell_trouble(log: Log) -> OnTrouble:
    """Says in the log when the files cannot be written, and when they can again."""
    outage = Outage("store_not_written", "store_written_again", log=log)

    def note(trouble: str | None) -> None:
        if trouble is None:
            outage.succeed()
        else:
            outage.fail(trouble)

    return note


def is_readable(document: bytes) -> bool:
    """Whether the stored state of a job can be read."""
    try:
        decode(read_version(document)[1] if is_apart(document) else document)
    except SnapshotError:
        return False
    return True


def check_beginning(folder: Path, history: str) -> None:
    """Raises StoreDamaged where the history has executions of users' jobs, and there is no state of any job.

    A service that went on would have lost all jobs without a word.
    """
    place = file_of(history)
    if has_state(folder) or place is None or not place.is_file():
        return
    if found := count_executions(url=history, but_of=NAMES):
        raise StoreDamaged(
            f"The data folder {folder} has no {STATE_FILE}, or an empty one, and the history {place} has "
            f"{found} executions: the jobs are missing. Put {STATE_FILE} back, restore a backup into an "
            "empty folder ('punctual db restore'), or start once with --new-state to begin without jobs."
        )


def migrate_folder(folder: Path, history: str) -> None:
    """Brings the files of the jobs' state together and up to date, and the history. Raises StoreError."""
    lock = FolderLock.claim(folder)
    try:
        check_beginning(folder, history)
        await_workers(folder)
        gather(folder, log=lambda *_, **__: None)
        upgrade_folder(folder)
        migrate(url=history)
    finally:
        lock.release()


def check_folder(folder: Path, history: str) -> list[str]:
    """What differs from this version's formats, each with its remedy; changes nothing.

    Raises StoreError: damaged, or too new.
    """
    check_kinds(folder / LOCK, folder / STATE_FILE, *history_files(history))
    divided = [f"the jobs are in several files: {MIGRATE}"] if is_divided(folder) else []
    check_beginning(folder, history)
    place = folder / STATE_FILE
    if missing := _missing(place) + _missing_history(history):
        return [f"{', '.join(missing)}: {MIGRATE if place.is_file() else NOT_USED}"]
    return [*divided, *check_state(place), *_check_history(history)]


def history_files(history: str) -> list[Path]:
    """The file of a history that lies in one."""
    return [] if (place := file_of(history)) is None else [place]


def _missing_history(history: str) -> list[str]:
    """Checked first: SQLite creates a file that is not there."""
    return [line for place in history_files(history) for line in _missing(place)]


def _missing(place: Path) -> list[str]:
    return [] if place.is_file() else [f"{place} is missing"]


def check_state(place: Path) -> list[str]:
    """What differs in the file of the jobs' state from this version's format. Raises StoreRefused."""
    kept, known = inspect_state(str(place))
    return [] if kept == known else [f"the jobs' state has format {kept}, this program {known}: {MIGRATE}"]


def _check_history(history: str) -> list[str]:
    found = inspect(url=history)
    if found.up_to_date:
        return []
    what = list(found.differences)
    if found.current is None:
        what = ["it has no tables yet"]
    elif found.current != found.head:
        what = [f"it has version {found.current}, this program {found.head}", *what]
    return [f"the history: {', '.join(what)}: {found.remedy}"]
