"""`punctual db …`: the formats of the data folder."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.options import Config
from scheduler_service.cli.output import tell
from scheduler_service.cli.serving import read_settings
from scheduler_service.domain.errors import PunctualError

app = typer.Typer(no_args_is_help=True, help="The formats of the data folder.")
Data = Annotated[str | None, typer.Option(help="The data folder; else the setting store.data.")]


@app.command("migrate")
def migrate(data: Data = None, config: Config = None) -> None:
    """Bring the data folder's files to this version's formats; the service must not be running.

    Example: punctual db migrate --data data
    """
    folder, has_state = _folder(data, config)
    from scheduler_service.app.database import migrate_folder, migrate_history

    try:
        if has_state:
            asyncio.run(migrate_folder(folder))
        else:
            migrate_history(folder)
    except PunctualError as error:
        raise CommandError(str(error), Exit.UNREACHABLE) from error
    tell(f"{folder} is up to date")


@app.command("check")
def check(data: Data = None, config: Config = None) -> None:
    """Say whether the data folder's files have this version's formats; changes nothing; exit code 1 if not.

    Example: punctual db check --data data
    """
    folder, has_state = _folder(data, config)
    from scheduler_service.app.database import check_folder, check_history

    try:
        wrong = check_folder(folder) if has_state else check_history(folder)
    except PunctualError as error:
        raise CommandError(str(error), Exit.UNREACHABLE) from error
    if wrong:
        raise CommandError("; ".join(wrong) + "; run 'punctual db migrate'")
    tell(f"{folder} is up to date")


def _folder(data: str | None, config: Path | None) -> tuple[Path, bool]:
    """The data folder, and whether the jobs' state lies in it."""
    loaded = read_settings({"store.data": data}, config)
    if loaded.settings.store.data == ":memory:":
        raise CommandError("--data :memory: keeps nothing, so there is nothing to look at", Exit.USAGE)
    return Path(loaded.settings.store.data), loaded.settings.store.url is None
