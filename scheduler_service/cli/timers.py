"""`punctual timers …`: previews of timers, without a job."""

from typing import Annotated

import typer

from scheduler_service.cli.connection import connect
from scheduler_service.cli.job_page import describe_timer
from scheduler_service.cli.job_reads import show_coming
from scheduler_service.cli.options import Commands, Key, Output, Url
from scheduler_service.cli.output import (
    Column,
    Format,
    at,
    moment_text,
    note,
    note_warnings,
    show,
    show_rows,
)

DAYS = ("date", "count", at("first"), at("last"), Column("noteText", free=True))

app = Commands(no_args_is_help=True, help="What a timer would do, without a job.")


@app.command("preview")
def preview(
    period: Annotated[
        str, typer.Argument(help="A period, a cron expression, or external.", metavar="PERIOD")
    ],
    due_time: Annotated[
        str | None, typer.Option("--due-time", help="The first moment, or a delay; without it: at once.")
    ] = None,
    timezone: Annotated[str | None, typer.Option(help="An IANA zone, as Europe/Berlin.")] = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many firings.")] = 10,
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
) -> None:
    """Show when a timer would fire, as text and as moments.

    Example: punctual timers preview "0 0/5 * * * ?" --timezone Asia/Shanghai --count 3
    """
    timer = {"dueTime": due_time, "period": period, "timezone": timezone}
    body = {"timer": {name: value for name, value in timer.items() if value is not None}, "count": count}
    answer = connect(url, key).exchange("POST", "/timers/preview", body=body)
    if output is Format.TABLE:
        note(describe_timer(answer.data))
    show_coming(answer.data, output)
    note_warnings(answer.warnings)


@app.command("outlook")
def outlook(
    period: Annotated[
        str, typer.Argument(help="A period, a cron expression, or external.", metavar="PERIOD")
    ],
    due_time: Annotated[
        str | None, typer.Option("--due-time", help="The first moment, or a delay; without it: at once.")
    ] = None,
    timezone: Annotated[str | None, typer.Option(help="An IANA zone, as Europe/Berlin.")] = None,
    days: Annotated[int, typer.Option(min=1, max=366, help="How many days.")] = 30,
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
) -> None:
    """Show how often a timer would fire on each day; days of a clock change are marked.

    Example: punctual timers outlook "0 30 2 * * ?" --timezone Europe/Berlin --days 366
    """
    timer = {"dueTime": due_time, "period": period, "timezone": timezone}
    body = {"timer": {name: value for name, value in timer.items() if value is not None}, "days": days}
    answer = connect(url, key).exchange("POST", "/timers/outlook", body=body)
    if output is Format.TABLE:
        show_rows(answer.data["days"], DAYS)
        note(f"{answer.data['total']} firings before {moment_text(answer.data['until'])}")
    else:
        show(answer.data, output)
    note_warnings(answer.warnings)


@app.callback()
def _timers() -> None:
    """What a timer would do, without a job."""
