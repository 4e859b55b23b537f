"""`punctual timers …`: previews of timers, without a job."""

from typing import Annotated, Any

import typer

from scheduler_service.cli.connection import ApiConnection
from scheduler_service.cli.job_page import describe_timer
from scheduler_service.cli.job_reads import show_coming
from scheduler_service.cli.options import Commands
from scheduler_service.cli.output import Column, at, moment_text, note, note_warnings, show_rows

app = Commands(no_args_is_help=True, help="What a timer would do, without a job.")
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


@app.command("preview", page=_show_preview)
def preview(
    api: ApiConnection,
    period: Period,
    due_time: DueTime = None,
    timezone: Timezone = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many firings.")] = 10,
) -> Any:
    """Show when a timer would fire, as text and as moments.

    Example: punctual timers preview "0 0/5 * * * ?" --timezone Asia/Shanghai --count 3
    """
    return _ask(api, "preview", {"dueTime": due_time, "period": period, "timezone": timezone}, count=count)


@app.command("outlook", page=_show_outlook)
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


@app.callback()
def _timers() -> None:
    """What a timer would do, without a job."""
