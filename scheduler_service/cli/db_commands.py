"""`punctual db …`: the formats of the data folder, and its backups."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.options import Commands, Config
from scheduler_service.cli.output import note
from scheduler_service.cli.serving import read_settings

if TYPE_CHECKING:
    from scheduler_service.domain.audit_acts import OwnAct
    from scheduler_service.domain.keys_and_roles import AccessKey
    from scheduler_service.settings import LoadedSettings, Settings

app = Commands(no_args_is_help=True, help="Check, migrate, back up and restore the data folder.")
Data = Annotated[str | None, typer.Option(help="The data folder; else the setting store.data.")]


@app.command("migrate")
def migrate(
    data: Data = None,
    new_history: Annotated[
        bool,
        typer.Option(
            "--new-history",
            help="Only make a history anew that is lost: keys, secrets, calendars and audit are gone.",
        ),
    ] = False,
    config: Config = None,
) -> None:
    """Migrate the data folder's files to this version's formats; the service must not be running.

    With store.url the tables there, and those of the history.

    Example: punctual db migrate --data data
    """
    settings, folder = _settings(data, config)
    from scheduler_service.app.data_folder import history_address
    from scheduler_service.maintenance.folder_formats import make_history, migrate_folder, migrate_server

    history = history_address(settings, folder)
    if new_history:
        make_history(folder, history)
    elif settings.store.url is not None:
        migrate_server(settings.store.url, history)
    else:
        migrate_folder(folder, history)
    note(f"{_name(settings, folder)} is up to date")


@app.command("check")
def check(data: Data = None, config: Config = None) -> None:
    """Check that the data folder's files have this version's formats and no damage; exit code 1 if not.

    Reads the files whole, which takes a while where they are large. Jobs that cannot run under the settings
    that are given are named. With store.url the versions of the tables are looked at.

    Example: punctual db check --data data
    """
    loaded, folder = _load(data, config)
    from scheduler_service.app.data_folder import history_address
    from scheduler_service.maintenance.folder_formats import check_folder, check_server
    from scheduler_service.maintenance.folder_repair import find_folder_damage

    url, history = loaded.settings.store.url, history_address(loaded.settings, folder)
    if wrong := check_folder(folder, history) if url is None else check_server(url, history):
        raise CommandError("; ".join(wrong))
    if url is not None:
        note(f"{_name(loaded.settings, folder)} is up to date")
        return
    if damage := find_folder_damage(folder, history):
        remedy = "restore a backup ('punctual db restore'), or save what can be read ('punctual db repair')"
        raise CommandError("; ".join(damage) + f"; {remedy}")
    import asyncio

    asyncio.run(_name_unfit(loaded, folder))
    note(f"{folder} is up to date")


@app.command("repair")
def repair(data: Data = None, config: Config = None) -> None:
    """Make damaged files of the data folder anew from what can be read; the service must not be running.

    The damaged files are kept. A backup is the better remedy: what cannot be read is lost.

    Example: punctual db repair --data data
    """
    settings, folder = _settings(data, config)
    _refuse_server(settings, folder)
    from scheduler_service.app.data_folder import history_address
    from scheduler_service.domain.audit_acts import OwnAct
    from scheduler_service.maintenance.folder_repair import repair_folder

    history = history_address(settings, folder)
    repairs = repair_folder(folder, history, now=round(time.time() * 1000))
    for one in repairs:
        for line in one.lines():
            note(line)
    if not repairs:
        note(f"no file of {folder} is damaged")
    else:
        _note_in_audit(history, OwnAct.REPAIR, {"files": len(repairs)})


@app.command("backup")
def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR")], data: Data = None, config: Config = None
) -> None:
    """Copy the data folder to DIR, which is made or empty; the service may be running.

    All files are copied as of one moment.

    Example: punctual db backup backups/monday --data data
    """
    settings, source = _settings(data, config)
    _refuse_server(settings, source)
    from scheduler_service.app.data_folder import history_address
    from scheduler_service.maintenance.backup import back_up

    history = history_address(settings, source)
    now = round(time.time() * 1000)
    made = back_up(source, history, folder, now=now, on_progress=CopyProgress())
    note(f"{source} is copied to {folder} ({_megabytes(sum(made.files.values()))})")
    if not history.startswith("sqlite:"):
        program = dump_program(history)
        note(f"the history is in the database server of database.url: dump it now, with {program}")


@app.command("restore")
def restore(
    folder: Annotated[Path, typer.Argument(metavar="DIR")],
    replaces: Annotated[
        Path | None, typer.Option(help="The data folder until now: keys revoked there stay revoked.")
    ] = None,
    data: Data = None,
    config: Config = None,
) -> None:
    """Copy the backup in DIR to a data folder that is empty or does not exist.

    Callers' keys are as they were in the backup; with --replaces, those revoked or rotated since stay so, and
    sessions that were signed out.

    Example: punctual db restore backups/monday --data restored --replaces data
    """
    settings, target = _settings(data, config)
    _refuse_server(settings, target)
    from scheduler_service.app.data_folder import history_address
    from scheduler_service.domain.audit_acts import OwnAct
    from scheduler_service.maintenance.backup import restore as restore_backup
    from scheduler_service.maintenance.database_keys import carry_over, find_living

    history = history_address(settings, target)
    ended: list[AccessKey] = []

    def complete() -> None:
        if replaces is not None:
            ended.extend(carry_over(history, replaces))

    found = restore_backup(folder, target, history, on_progress=CopyProgress(), complete=complete)
    note(f"{folder} is restored to {target}: the state of {found.made_at}")
    for key in ended:
        note(f"{_key(key)} was {'revoked' if key.revoked_at else 'rotated'} since, and stays so")
    # A history on a server was not restored here.
    is_theirs = found.has_history and replaces is None
    living = find_living(history) if is_theirs else []
    if living:
        note(
            "these keys are valid, also what was revoked or rotated since the backup, and so are sessions "
            "that were signed out: revoke what has to be ('punctual keys revoke'), or use --replaces: "
            + ", ".join(map(_key, living))
        )
    given = {"madeAt": found.made_at, "punctual": found.punctual, "keysValid": [one.key_id for one in living]}
    _note_in_audit(history, OwnAct.RESTORE, given | {"keysEnded": [one.key_id for one in ended]})


def _key(key: Any) -> str:
    return f"key {key.key_id} ({key.name} of {key.tenant})"


def _note_in_audit(history: str, operation: "OwnAct", given: Mapping[str, object]) -> None:
    from scheduler_service.maintenance.audited_commands import note_command

    if not note_command(history, operation, given):
        note("this is not in the audit: the history is away")


class CopyProgress:
    """Says on a terminal, once a second, how far a copy is."""

    def __init__(self) -> None:
        self._next = time.monotonic() + 1

    def __call__(self, name: str, done: int, size: int) -> None:
        """`done` of `size` bytes of the file are copied."""
        if sys.stderr.isatty() and time.monotonic() >= self._next:
            self._next = time.monotonic() + 1
            note(f"{name}: {_megabytes(done)} of {_megabytes(size)}")


def _name(settings: "Settings", folder: Path) -> str:
    """Where the jobs are, in words."""
    return str(folder) if settings.store.url is None else "the database of store.url"


def _refuse_server(settings: "Settings", folder: Path) -> None:
    """Raises CommandError where the jobs are in no file: it says how these and the history are saved."""
    if (url := settings.store.url) is None:
        return
    from scheduler_service.app.data_folder import history_address
    from scheduler_service.maintenance.folder_formats import history_files

    history = history_address(settings, folder)
    ways = [f"the jobs are in the database server of store.url: save and restore it with {dump_program(url)}"]
    ways += [
        f"the history is in the file {place}: copy it, and {place.name}-wal where that is there, to and fro, "
        "while no service runs"
        for place in history_files(history)
    ]
    if history != url and not history.startswith("sqlite:"):
        ways.append(f"the history is in that of database.url: the same, with {dump_program(history)}")
    raise CommandError("; ".join(ways), Exit.USAGE)


def dump_program(url: str) -> str:
    """What saves the database of a server."""
    return "pg_dump" if url.startswith("postgresql:") else "mariadb-dump or mysqldump"


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"


async def _name_unfit(loaded: "LoadedSettings", folder: Path) -> None:
    from scheduler_service.maintenance.doctor_folder import REMEDY, find_unfit

    async for job_id, problem in find_unfit(loaded, folder):
        if problem is not None:
            note(f"job {job_id} cannot run: {problem}; {REMEDY}")


def _settings(data: str | None, config: Path | None) -> tuple["Settings", Path]:
    """The settings, and the data folder that they name."""
    loaded, folder = _load(data, config)
    return loaded.settings, folder


def _load(data: str | None, config: Path | None) -> tuple["LoadedSettings", Path]:
    loaded = read_settings({"store.data": data}, config)
    if loaded.settings.store.data == ":memory:":
        raise CommandError("--data :memory: stores nothing, so there is nothing to check", Exit.USAGE)
    return loaded, Path(loaded.settings.store.data)
