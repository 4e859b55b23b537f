"""The files of a data folder, as a service finds them at its start: whose they are, and of which format."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from scheduler_service.domain.audit_acts import AuditEntry
from scheduler_service.persistence.history.database import count_traces_of_jobs
from scheduler_service.persistence.history.schema import MIGRATIONS as HISTORY
from scheduler_service.persistence.history.schema import executions
from scheduler_service.persistence.job_store.database import OnTrouble
from scheduler_service.persistence.sql.database import read_unopened
from scheduler_service.persistence.sql.job_catalogue import has_jobs
from scheduler_service.persistence.sql.sqlite import IN_MEMORY, address_of, file_of, is_database, misread
from scheduler_service.persistence.sqlite.files import OnDamagedPage
from scheduler_service.persistence.sqlite.folder_lock import (
    has_own_jobs,
    has_state,
    narrow_files,
)
from scheduler_service.persistence.sqlite.schema import MIGRATIONS as STATE
from scheduler_service.persistence.tables.key_secret_calendar_tables import has_keys
from scheduler_service.ports.errors import StoreDamaged, StoreRefused
from scheduler_service.ports.log import Log
from scheduler_service.settings import Settings
from scheduler_service.system_jobs.system_job_definitions import NAMES
from scheduler_service.telemetry.log_summaries import Outage

ELSEWHERE = "elsewhere"
STATE_FILE, HISTORY_FILE = "state.db", "history.db"
LEFT_LINES = "audit-left.jsonl"
"""Lines of the audit that a command could not write into a history of another version."""


def known_formats() -> Mapping[str, str]:
    """The format of each kind of data that this program keeps."""
    from scheduler_service.persistence.job_store.job_store_schema import (
        MIGRATIONS as CLUSTER,  # few starts need it
    )

    return {"state": str(len(STATE)), "history": HISTORY.head, "cluster": CLUSTER.head}


def history_address(settings: Settings, folder: Path | None) -> str:
    """The address of the history: `database.url`, else where the jobs' state is, or in memory."""
    if (url := settings.database.url or settings.store.url) is not None:
        return url
    return IN_MEMORY if folder is None else address_of(folder / HISTORY_FILE)


def are_keys_made(settings: Settings) -> bool:
    """Whether callers' keys were made in the database of the history. Raises StoreUnavailable."""
    in_memory = settings.store.data == ":memory:"
    history = history_address(settings, None if in_memory else Path(settings.store.data))
    place = file_of(history)
    if history == IN_MEMORY or (place is not None and not place.is_file()):
        return False
    return has_keys(url=history)


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
    return Outage("store_not_written", "store_written_again", log=log).note


def check_beginning(folder: Path, history: str) -> None:
    """Raises StoreDamaged where the history tells of users' jobs, and there is no state of any job.

    A service that went on would have lost all jobs without a word.
    """
    place = file_of(history)
    if has_state(folder):
        return
    if (folder / ELSEWHERE).is_file():
        raise StoreDamaged(
            f"The jobs of the data folder {folder} are in a database, and store.url is not set. Set it as it "
            "was, or start once with --new-state to begin without jobs."
        )
    if place is None or not place.is_file():
        return
    if found := count_traces_of_jobs(url=history, but_of=NAMES):
        raise StoreDamaged(
            f"The data folder {folder} has no {STATE_FILE}, or an empty one, and the history {place} has "
            f"{found} executions and changes of jobs: the jobs are missing. Put "
            f"{STATE_FILE} back, restore a backup into an empty folder "
            "('punctual db restore'), or start once with --new-state to begin without jobs."
        )


def check_new_database(settings: Settings) -> None:
    """The same for a database of `store.url` that nobody has used yet."""
    history = history_address(settings, None)
    place = file_of(history)
    if (place is not None and not place.is_file()) or history == IN_MEMORY:
        return
    if found := count_traces_of_jobs(url=history, but_of=NAMES):
        raise StoreDamaged(
            f"The database of store.url is new, and the history has {found} executions and changes of "
            "jobs: the jobs are missing. Name the database that has them, restore a dump of it, "
            "or start once with --new-state to begin without jobs."
        )


def check_history(folder: Path | None, url: str | None, history: str) -> None:
    """Raises StoreDamaged where there are jobs, in the folder or at `url`, and their history is new or empty.

    A service that went on would ask nobody for a key any more, and lack secrets and calendars without a word.
    """
    if history == IN_MEMORY or not _is_new(history):
        return
    in_folder = url is None and folder is not None and has_own_jobs(folder)
    if in_folder or (url is not None and has_jobs(url=url)):
        raise StoreDamaged(
            f"There are jobs, and their history ({file_of(history) or 'database.url'}) is new or empty: keys "
            "of callers, secrets, calendars and the audit are missing. Put it back, restore a backup, or run "
            "'punctual db migrate --new-history' once to go on without them."
        )


def _is_new(history: str) -> bool:
    place = file_of(history)
    if place is None or place.is_file():
        return read_unopened(history, executions, lambda _: False, missing=True)
    # Opening it would make it; an earlier version may have it elsewhere, without keys.
    elsewhere = misread(place)
    return elsewhere is None or not is_database(elsewhere)


def leave_line(history: Path, entry: AuditEntry) -> None:
    """Leaves a line of the audit beside a history of another version, for the start that updates it."""
    with history.with_name(LEFT_LINES).open("ab") as left:
        left.write(msgspec.json.encode(entry) + b"\n")


async def take_lines(history: str, put: Callable[[AuditEntry], Awaitable[None]]) -> None:
    """Has what commands have left written, each once. Raises StoreUnavailable; what was not written stays."""
    place = file_of(history)
    left = None if place is None else place.with_name(LEFT_LINES)
    if left is None or not left.is_file():
        return
    for line in left.read_bytes().splitlines():
        with contextlib.suppress(msgspec.MsgspecError):  # a command was killed over it
            await put(msgspec.json.decode(line, type=AuditEntry))
    left.unlink()


def note_place(folder: Path, *, is_elsewhere: bool) -> None:
    """Notes for the next start whether the jobs of the folder's service lie in a database, where it can."""
    mark = folder / ELSEWHERE
    with contextlib.suppress(OSError):  # as on a full disk: the service has its jobs all the same
        if is_elsewhere:
            mark.write_text("the jobs are in the database of store.url\n")
        else:
            mark.unlink(missing_ok=True)


def check_unused(folder: Path) -> None:
    """Raises StoreRefused where jobs are in the folder: a service over `store.url` knows nothing of them."""
    if has_state(folder):
        raise StoreRefused(
            f"The data folder {folder} has jobs ({STATE_FILE}), and store.url names a database. Start "
            "without store.url, or name another folder (store.data); definitions are carried over by "
            "'punctual jobs list' and 'punctual jobs apply'."
        )
