"""The command line `punctual`: its commands and their exit codes (SPEC section 16)."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from scheduler_service import __version__, how_to_install
from scheduler_service.cli import (
    bulk,
    calendars,
    deliveries,
    executions,
    jobs,
    keys,
    previews,
    queues,
    services,
    stored_secrets,
)
from scheduler_service.cli.audit import PAGE as AUDIT_PAGE
from scheduler_service.cli.audit import list_audit
from scheduler_service.cli.db_commands import app as database
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.event_following import show_events
from scheduler_service.cli.lint_and_doctor import examine, lint
from scheduler_service.cli.options import Commands, Output
from scheduler_service.cli.output import Format, note, show, spell_out_what_streams_lack
from scheduler_service.cli.overview import (
    list_alerts,
    list_nodes,
    list_upcoming,
    names_text,
    show_alerts,
    show_nodes,
    show_statistics,
)
from scheduler_service.cli.service_connection import closing_connections, trust
from scheduler_service.cli.serving import demo, serve, show_settings, work
from scheduler_service.cli.top import top
from scheduler_service.domain.errors import PunctualError

EXTRAS = {
    "alembic": "service",
    "fastapi": "service",
    "httptools": "service",
    "sqlalchemy": "service",
    "structlog": "service",
    "uvloop": "service",
}


def make_app() -> Commands:
    """All commands."""
    app = Commands(
        name="punctual",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_punctual)
    app.command("serve")(serve)
    app.command("demo")(demo)
    app.command("worker")(work)
    app.add_typer(jobs.app, name="jobs")
    app.add_typer(executions.app, name="executions")
    app.add_typer(bulk.app, name="operations")
    app.add_typer(services.app, name="services")
    app.add_typer(keys.app, name="keys")
    app.add_typer(stored_secrets.app, name="secrets")
    app.add_typer(calendars.app, name="calendars")
    app.add_typer(deliveries.app, name="deliveries")
    app.add_typer(queues.app, name="queues")
    app.command("upcoming")(list_upcoming)
    app.command("events")(show_events)
    app.command("stats")(show_statistics)
    app.command("nodes", page=show_nodes)(list_nodes)
    app.command("top")(top)
    app.command("alerts", page=show_alerts)(list_alerts)
    app.command("audit", page=AUDIT_PAGE)(list_audit)
    app.add_typer(previews.timers, name="timers")
    app.add_typer(previews.templates, name="templates")
    app.command("lint")(lint)
    app.add_typer(database, name="db")
    app.command("doctor")(examine)
    app.command("settings")(show_settings)
    app.command("version")(version)
    return app


@functools.cache
def commands() -> Callable[..., Any]:
    """All commands as one that click runs; made once, which takes longer than most of them."""
    return typer.main.get_command(make_app())


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"punctual {__version__}")
        raise typer.Exit


def version(output: Output = Format.TABLE) -> None:
    """Show the version, and the formats of data that it keeps, if the service is installed.

    Example: punctual version
    """
    formats: Mapping[str, str] = {}
    with contextlib.suppress(ModuleNotFoundError):
        from scheduler_service.app.data_folder import known_formats

        formats = known_formats()
    found = {"punctual": __version__, "python": sys.version.split()[0], "formats": formats}
    show(found if output is not Format.TABLE else {**found, "formats": names_text(formats) or "none"}, output)


def _punctual(
    is_version_asked: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_print_version)
    ] = False,
    ca: Annotated[
        str | None,
        typer.Option(
            "--ca",
            help="A file of certificates (PEM) to trust beside the system's, for https; else PUNCTUAL_CA.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Jobs as REST resources: timers, chains of HTTP requests, retries, and nothing lost in a crash."""
    trust(ca)


def run(arguments: list[str]) -> int:
    """Runs one command; returns its exit code (`cli.errors.Exit`). Only a defect ends in a stack trace."""
    spell_out_what_streams_lack()
    output = sys.stdout
    try:
        with closing_connections():
            commands()(args=arguments, prog_name="punctual")
    except SystemExit as end:  # click ends with this, on success too
        if sys.stdout is not output:
            return Exit.DONE  # put in its place where the reader of the output has gone
        return _finish(end.code if isinstance(end.code, int) else Exit.DONE)
    except CommandError as error:
        return _end(error.message, error.code)
    except PunctualError as error:  # as of a service that cannot start
        return _end(str(error), Exit.UNREACHABLE)
    except OSError as error:
        if error.filename is not None:
            raise  # of a file, and not of the output
        return _end_unwritten(error)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        return _end(f"this command needs the extra {extra}; {how_to_install(extra)}", Exit.USAGE)
    return Exit.DONE


def _finish(code: int) -> int:
    """Flushes the output here, where a closed pipe can be handled."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return _end_unwritten(error, code)
    return code


def _end_unwritten(error: OSError, code: int = Exit.DONE) -> int:
    """A reader that has read enough, as `head`, is no failure; a full disk is."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return code
    return _end(f"the output cannot be written: {error.strerror}", Exit.REFUSED)


def _end(message: str, code: Exit) -> int:
    note(f"punctual: {message}")
    return code
