"""`punctual timers …` and `punctual templates …`: what a timer or a template would do, without a job."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.job_pages import describe_timer
from scheduler_service.cli.job_queries import show_coming
from scheduler_service.cli.options import Commands
from scheduler_service.cli.output import Column, Format, at, moment_text, note, note_warnings, show, show_rows
from scheduler_service.cli.service_connection import ApiConnection

timers = Commands(no_args_is_help=True, help="What a timer would do, without a job.")
DAYS = ("date", "count", at("first"), at("last"), Column("noteText", free=True))
Period = Annotated[str, typer.Argument(help="A period, a cron expression, or external.", metavar="PERIOD")]
DueTime = Annotated[
    str | None, typer.Option("--due-time", help="The first moment, or a delay; without it: at once.")
]
Timezone = Annotated[str | None, typer.Option(help="An IANA zone, as Europe/Berlin.")]


def _show_preview(preview: dict[str, Any]) -> None:
    note(describe_timer(preview))
    show_coming(preview)


def _show_outlook(outlook: dict[str, Any]) -> None:
    show_rows(outlook["days"], DAYS)
    note(f"{outlook['total']} firings before {moment_text(outlook['until'])}")


@timers.command("preview", page=_show_preview)
def preview_timer(
    api: ApiConnection,
    period: Period,
    due_time: DueTime = None,
    timezone: Timezone = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many firings.")] = 10,
    period_from: Annotated[str | None, typer.Option(help="end: a pause after each execution.")] = None,
) -> Any:
    """Show when a timer would fire, as text and as moments.

    Example: punctual timers preview "0 0/5 * * * ?" --timezone Asia/Shanghai --count 3
    """
    timer = {"dueTime": due_time, "period": period, "timezone": timezone, "periodFrom": period_from}
    return _ask(api, "preview", timer, count=count)


@timers.command("outlook", page=_show_outlook)
def outlook(
    api: ApiConnection,
    period: Period,
    due_time: DueTime = None,
    timezone: Timezone = None,
    days: Annotated[int, typer.Option(min=1, max=366, help="How many days.")] = 30,
) -> Any:
    """Show how often a timer would fire on each day; days of a clock change are marked.

    Example: punctual timers outlook "0 30 2 * * ?" --timezone Europe/Berlin --days 366
    """
    return _ask(api, "outlook", {"dueTime": due_time, "period": period, "timezone": timezone}, days=days)


def _ask(api: ApiConnection, what: str, timer: dict[str, str | None], **members: int) -> Any:
    body = {"timer": {name: value for name, value in timer.items() if value is not None}, **members}
    answer = api.exchange("POST", f"/timers/{what}", body=body)
    note_warnings(answer.warnings)
    return answer.data


@timers.callback()
def _timers() -> None:
    """What a timer would do, without a job."""


templates = Commands(no_args_is_help=True, help="What a template would become, without a job.")


def _show_value(preview: dict[str, Any]) -> None:
    value = preview["value"]
    show(value, Format.TABLE if isinstance(value, str) else Format.JSON)


@templates.command("preview", page=_show_value)
def preview_template(
    api: ApiConnection,
    template: Annotated[str, typer.Argument(help="A text; in a body also a JSON value.", metavar="TEMPLATE")],
    root: Annotated[
        str | None,
        typer.Option(help="The root, a JSON object: latest response, named ones, trigger; or an answer."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="The root from a file (.json, .json5, .yaml), or -.")
    ] = None,
    place: Annotated[
        str, typer.Option(help="Where it is: body, url or header; successWhen, errorFrom or messageFrom.")
    ] = "body",
) -> Any:
    """Show the value of a template, or the error that a job would get.

    Example: punctual templates preview '{"total": "${$.price}|json"}' --root '{"price": 4.2}'
    """
    body = {"template": _read_template(template, place), "root": _read_root(root, file), "place": place}
    answer = api.exchange("POST", "/templates/preview", body=body)
    note_warnings(answer.warnings)
    return answer.data


@templates.callback()
def _templates() -> None:
    """What a template would become, without a job."""


def _read_template(text: str, place: str) -> Any:
    """In a body, a JSON object or array is taken as such; everything else is a text."""
    if place != "body" or not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read_root(text: str | None, file: Path | None) -> Any:
    if text is not None and file is not None:
        raise CommandError("--root and -f both give the root; give one of them", Exit.USAGE)
    if file is not None:
        from scheduler_service.cli.documents import read_document

        return read_document(file).value
    try:
        return {} if text is None else json.loads(text)
    except ValueError as error:
        raise CommandError(f"--root is not valid JSON: {error}", Exit.USAGE) from error
