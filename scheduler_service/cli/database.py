"""`punctual db …`: checks and migrates the formats of the data folder."""

from pathlib import Path
from typing import Annotated

import typer

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.options import Config
from scheduler_service.cli.output import note
from scheduler_service.cli.serving import read_settings
from scheduler_service.domain.errors import PunctualError
from scheduler_service.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Check and migrate the data folder.")
Data = Annotated[str | None, typer.Option(help="The data folder; else the setting store.data.")]


@app.command("migrate")
def migrate(data: Data = None, config: Config = None) -> None:
    """Migrate the data folder's files to this version's formats; the service must not be running.

    Example: punctual db migrate --data data
    """
    settings, folder = _settings(data, config)
    from scheduler_service.app.data_folder import history_address, migrate_folder, migrate_history

    history = history_address(settings, folder)
    try:
        if settings.store.url is None:
            migrate_folder(folder, history)
        else:
            migrate_history(folder, history)
    except PunctualError as error:
        raise CommandError(str(error), Exit.UNREACHABLE) from error
    note(f"{folder} is up to date")


@app.command("check")
def check(data: Data = None, config: Config = None) -> None:
    """Check that the data folder's files have this version's formats; exit code 1 if not.

    Example: punctual db check --data data
    """
    settings, folder = _settings(data, config)
    from scheduler_service.app.data_folder import check_folder, check_history, history_address

    history = history_address(settings, folder)
    try:
        wrong = check_history(history) if settings.store.url else check_folder(folder, history)
    except PunctualError as error:
        raise CommandError(str(error), Exit.UNREACHABLE) from error
    if wrong:
        raise CommandError("; ".join(wrong) + "; run 'punctual db migrate'")
    note(f"{folder} is up to date")


def _settings(data: str | None, config: Path | None) -> tuple[Settings, Path]:
    """The settings, and the data folder that they name."""
    settings = read_settings({"store.data": data}, config).settings
    if settings.store.data == ":memory:":
        raise CommandError("--data :memory: stores nothing, so there is nothing to check", Exit.USAGE)
    return settings, Path(settings.store.data)
