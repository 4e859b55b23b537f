"""`punctual calendars …`: the working days by which jobs fire, over the API of a service."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from scheduler_service.cli.errors import AbsentError, CommandError, Exit
from scheduler_service.cli.options import Commands, Cursor, Limit, Output, Source, path_of
from scheduler_service.cli.output import (
    Column,
    FieldsPage,
    Format,
    RowsPage,
    at,
    moment_text,
    note,
    note_warnings,
    show_as,
)
from scheduler_service.cli.service_connection import ApiConnection, SentPart

app = Commands(no_args_is_help=True, help="Calendars: the working days by which jobs fire.")
Name = Annotated[str, typer.Argument(help="The calendar's name.", metavar="NAME")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only show which jobs would fire at other moments; store nothing.")
]
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
POSTED = ("timezone", "week", "free", "work", "country")
READ = {
    "version",
    "createdAt",
    "updatedAt",
    "year",
    "workingDays",
    "freeDays",
    "makeUpDays",
    "usedBy",
}
"""What an answer has beside what was stored: a file that was made of one may have it."""


def _days(name: str) -> Column:
    return Column(name, lambda row: ", ".join(row[name]) or None, free=True)


def _week(row: Mapping[str, Any]) -> str:
    return " ".join(WEEKDAYS[day - 1] for day in sorted(set(row["week"])))


def _used_by(row: Mapping[str, Any]) -> str:
    used = row["usedBy"]
    return ", ".join([*used["jobs"], *(["…"] if used["isCapped"] else [])]) or "no job"


WEEK = Column("week", _week)
CALENDARS = (
    Column("name"),
    WEEK,
    "country",
    "timezone",
    Column("free", lambda row: len(row["free"]), spare=True),
    Column("work", lambda row: len(row["work"]), spare=True),
    "version",
    at("updatedAt"),
)
CALENDAR = (
    "name", WEEK, "country", "timezone", _days("free"), _days("work"), "version", at("updatedAt"),
    "year", "workingDays", _days("freeDays"), _days("makeUpDays"), Column("usedBy", _used_by, free=True),
)  # fmt: skip
CHANGES = (
    Column("jobId", free=True),
    Column("firstChange", lambda row: moment_text(row["firstChange"]) if row["firstChange"] else "unknown"),
    Column("before", lambda row: moment_text(row["before"][0]) if row["before"] else "never"),
    Column("after", lambda row: moment_text(row["after"][0]) if row["after"] else "never"),
)


@app.command(
    "list", page=RowsPage(CALENDARS, "there are no calendars; store one: punctual calendars put NAME")
)
def list_calendars(api: ApiConnection, limit: Limit = 50, cursor: Cursor = None) -> Any:
    """List the calendars by name; those that list no day of the current year are named.

    Example: punctual calendars list
    """
    answer = api.exchange("GET", "/calendars", query={"limit": limit, "cursor": cursor})
    note_warnings(answer.warnings)
    return answer.data


@app.command("get", page=FieldsPage(CALENDAR))
def read_calendar(
    api: ApiConnection,
    name: Name,
    year: Annotated[int | None, typer.Option(help="Whose days are shown; else the current one.")] = None,
) -> Any:
    """Show a calendar, its days of a year, and the jobs that use it.

    Example: punctual calendars get office -o yaml
    """
    return api.get(path_of("calendar", name), year=year)


@app.command("put")
def put_calendar(
    api: ApiConnection, name: Name, file: Source, dry_run: DryRun = False, output: Output = Format.TABLE
) -> None:
    """Store a calendar from a file, or replace it: timezone, week, free, work, country.

    The output of `get` may be the file; it is refused where the calendar was changed meanwhile.

    Example: punctual calendars put office -f office.yaml --dry-run
    """
    from scheduler_service.cli.documents import DocumentKind, read_one

    document = read_one(file, DocumentKind.CALENDAR, name)
    if not isinstance(document.value, dict):
        raise CommandError(f"{document.name} holds no object; give the members of a calendar", Exit.USAGE)
    given = dict(document.value)
    version = given.get("version")
    calendar = {member: value for member, value in given.items() if member not in READ}
    _store(api, name, calendar, version, dry_run=dry_run, output=output, part=SentPart(document))


@app.command("import")
def import_dates(
    api: ApiConnection,
    name: Name,
    file: Annotated[Path, typer.Argument(help="An iCalendar file (.ics) or a list of dates; -: the input.")],
    kind: Annotated[
        Literal["free", "work"], typer.Option("--as", help="What its days are: holidays, or make-up days.")
    ] = "free",
    replace: Annotated[
        bool, typer.Option("--replace", help="In place of the dates that the calendar lists.")
    ] = False,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Add the days of a file to a calendar: holidays of an iCalendar file, or dates, one a line.

    Example: punctual calendars import office holidays.ics --dry-run
    """
    from scheduler_service.cli.documents import read_text

    try:
        known = api.get(path_of("calendar", name))
    except AbsentError:
        known = {"version": 0}
    calendar = {member: known[member] for member in POSTED if known.get(member) is not None}
    if replace:
        calendar |= {"free": [], "work": []}
    body = {"text": read_text(file), "as": kind, "calendar": calendar}
    found = api.exchange("POST", "/dates/read", body=body, options={"/text": str(file)}).data
    if found["leftOut"]:
        note(f"left out, as neither days off nor make-up days: {', '.join(found['leftOut'])}")
    note(f"{file} has {_count(found['free'])} free and {_count(found['work'])} working days")
    _store(api, name, found["calendar"], known["version"], dry_run=dry_run, output=output)


@app.command("delete")
def delete_calendar(api: ApiConnection, name: Name) -> None:
    """Remove a calendar that no job uses.

    Example: punctual calendars delete office
    """
    api.send("DELETE", path_of("calendar", name))
    note(f"the calendar {name} is removed")


def _store(
    api: ApiConnection,
    name: str,
    calendar: Mapping[str, Any],
    version: object,
    *,
    dry_run: bool,
    output: Format,
    part: SentPart | None = None,
) -> None:
    """Stores it where it is still at this version, or at any for None; or shows what that would do."""
    path = path_of("calendar", name)
    if dry_run:
        _show_changes(api, path, calendar, output, part)
        return
    headers = {} if version is None else {"If-Match": f'"{version}"'}
    answer = api.exchange("PUT", path, body=calendar, headers=headers, part=part)
    note_warnings(answer.warnings)
    if output is Format.TABLE:
        note(f"the calendar {name} is stored as version {answer.data['version']}; it counts within a second")
    else:
        show_as(answer.data, output, FieldsPage(()))


def _show_changes(
    api: ApiConnection, path: str, calendar: Mapping[str, Any], output: Format, part: SentPart | None
) -> None:
    jobs: list[Any] = []
    checked = 0
    cursor: str | None = ""
    while cursor is not None:
        query = {"cursor": cursor or None}
        answer = api.exchange("POST", f"{path}/preview", query=query, body=calendar, part=part)
        jobs += answer.data["jobs"]
        checked += answer.data["checked"]
        cursor = answer.data["nextCursor"]
    note_warnings(answer.warnings)
    page = RowsPage(CHANGES, "no job would fire at another moment")
    show_as({"items": jobs, "checked": checked, "nextCursor": None}, output, page)
    note(f"{len(jobs)} of {checked} jobs that use it would fire at other moments; nothing is stored")


def _count(spans: list[str]) -> int:
    from datetime import date

    ends = (span.partition("/")[::2] for span in spans)
    return sum(
        (date.fromisoformat(last or first) - date.fromisoformat(first)).days + 1 for first, last in ends
    )
