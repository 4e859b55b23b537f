"""Commands that refuse an option that is given twice, and the options that many of them share."""

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperOption

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.output import Format, show_as
from scheduler_service.cli.service_connection import connect

Function = TypeVar("Function", bound=Callable[..., Any])


class Commands(typer.Typer):
    """A group of commands of which each refuses an option that has one value and is given twice.

    Without that the last value would win, and the first be lost without a word.
    """

    def command(
        self, name: str | None = None, *, page: Callable[[Any], None] | None = None, **details: Any
    ) -> Callable[[Function], Function]:
        """As that of typer, of functions with fewer parameters.

        A parameter `api` is the service that --url and --key name. With `page` the command has the option
        --output: what the function returns is printed by `page` for people, and whole for programs; of an
        iterator each of its values, as it comes.
        """
        register = super().command(name, cls=_StrictCommand, **details)

        def add(function: Function) -> Function:
            register(_complete(function, page))
            return function

        return add


def _complete(function: Callable[..., Any], page: Callable[[Any], None] | None) -> Callable[..., Any]:
    """The function with the parameters that typer is to see."""
    signature = inspect.signature(function, eval_str=True)
    given = dict(signature.parameters)
    needs_api = given.pop("api", None) is not None
    further: dict[str, tuple[Any, Any]] = {}
    if needs_api:
        further |= {"url": (Url, None), "key": (Key, None)}
    if page is not None:
        further |= {"output": (Output, Format.TABLE)}
    if not further:
        return function
    by_name = inspect.Parameter.KEYWORD_ONLY
    own = {
        name: inspect.Parameter(name, by_name, annotation=one, default=default)
        for name, (one, default) in further.items()
    }
    shown = {name: one.replace(kind=by_name) for name, one in given.items()} | own

    def call(**values: Any) -> None:
        output = values.pop("output") if page is not None else Format.TABLE
        if needs_api:
            values["api"] = connect(values.pop("url"), values.pop("key"))
        found = function(**values)
        if page is not None:
            for one in found if isinstance(found, Iterator) else (found,):
                show_as(one, output, page)
                sys.stdout.flush()  # another program may read them, and more may come after long

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    call.__signature__ = signature.replace(parameters=list(shown.values()), return_annotation=None)  # type: ignore[attr-defined]
    call.__annotations__ = {name: one.annotation for name, one in shown.items()}
    return call


class _StrictCommand(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # of a shell's completion
            _, _, given = self.make_parser(ctx).parse_args(args=list(args))
            for option in given:
                if _has_one_value(option) and given.count(option) > 1:
                    text = f"{max(option.opts, key=len)} is given twice; give it once"
                    raise CommandError(text, Exit.USAGE)
        return super().parse_args(ctx, args)


def _has_one_value(parameter: object) -> bool:
    """Not a switch that can only be turned on, which may be given as often as one likes."""
    if not isinstance(parameter, TyperOption) or parameter.multiple:
        return False
    return not parameter.is_flag or bool(parameter.secondary_opts)


def read_seconds(given: str | float) -> float:
    """Seconds from `90`, `1.5`, `90s`, `1h30m` or `PT1H`. Raises typer.BadParameter."""
    if isinstance(given, int | float):
        return float(given)
    text = given.strip()
    if text.replace(".", "", 1).isdecimal() and text.isascii():
        return float(text)
    seconds = find_seconds(text)
    if seconds is None:
        forms = f"{given!r} is not a duration; write seconds as 90, or 90s, 5m, 1h30m, PT1H"
        raise typer.BadParameter("; ".join(filter(None, [forms, _advise(text)])))
    return seconds


def find_seconds(text: str) -> float | None:
    """The seconds of a duration with units; None if `text` is none. Months and years have no fixed length."""
    from scheduler_service.domain.errors import ExpressionError
    from scheduler_service.timing.durations import parse_duration

    try:
        found = parse_duration(text)
    except ExpressionError:
        return None
    return None if found.months else found.days * 86_400 + found.ms / 1000


def _advise(text: str) -> str:
    """What to write for a duration in other words; empty where there is no advice."""
    from scheduler_service.timing.durations import advise_unit

    return advise_unit(text)


Url = Annotated[
    str | None, typer.Option("--url", help="The service; else PUNCTUAL_URL, else http://127.0.0.1:8000.")
]
Key = Annotated[str | None, typer.Option("--key", help="The API key; else PUNCTUAL_KEY.")]
Output = Annotated[Format, typer.Option("-o", "--output", help="The form of the result.")]
Source = Annotated[
    Path, typer.Option("-f", "--file", help="A file (.json, .json5, .yaml), or - for standard input.")
]
Sources = Annotated[
    list[Path],
    typer.Option(
        "-f",
        "--file",
        help="A file (.json, .json5, .yaml), a folder of them, or - for standard input; may be given again.",
    ),
]
Parameters = Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Parameters.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until the execution has ended.")]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", help="How long to wait: 90, 90s, 5m, 1h.", parser=read_seconds, metavar="DURATION"
    ),
]
Since = Annotated[
    str | None,
    typer.Option("--since", help="Only from here on: a duration ago, as 1h, or a moment.", metavar="MOMENT"),
]
Until = Annotated[
    str | None,
    typer.Option("--until", help="Only up to here: a duration ago, as 1h, or a moment.", metavar="MOMENT"),
]
Job = Annotated[str | None, typer.Option("--job", help="Only of this job.")]
SomeJobs = Annotated[list[str] | None, typer.Option("--job", help="Only of this job; may be given again.")]
State = Annotated[str | None, typer.Option("--state", help="Only in this state.")]
Outcome = Annotated[
    str | None,
    typer.Option("--outcome", help="Only those that ended so: succeeded, failed, cancelled, skipped."),
]
Error = Annotated[str | None, typer.Option("--error", help="Only with this error code.")]
Labels = Annotated[
    list[str] | None, typer.Option("--label", help="Only with this label, KEY:VALUE; may be given again.")
]
JobLabels = Annotated[
    list[str] | None,
    typer.Option("--label", help="Only of jobs with this label, KEY:VALUE; may be given again."),
]
ExecutionId = Annotated[
    str, typer.Argument(help="The execution: JOB#NUMBER, JOB#last, or its executionId.", metavar="EXECUTION")
]
End = Annotated[
    float | None,
    typer.Option(
        "--timeout", help="Stop after this time: 90, 90s, 5m, 1h.", parser=read_seconds, metavar="DURATION"
    ),
]
Cursor = Annotated[str | None, typer.Option("--cursor", help="nextCursor of the previous page.")]
Config = Annotated[Path | None, typer.Option(help="A TOML file with settings; else PUNCTUAL_CONFIG.")]
Limit = Annotated[int, typer.Option("--limit", help="The greatest number of items.", min=1, max=500)]


def read_ago(given: str | None) -> str | None:
    """A moment as the API reads it: a duration is that long ago, anything else stays as it is."""
    return _moment_away(given, -1)


def read_span(since: str | None, until: str | None) -> dict[str, str | None]:
    """`from` and `to` of a query by --since and --until. Raises CommandError for one after the other."""
    from datetime import UTC, datetime

    first, last = read_ago(since), read_ago(until)
    with suppress(ValueError):  # what is no such moment the service judges
        begin, end = (datetime.fromisoformat(one or "") for one in (first, last))
        if begin.replace(tzinfo=begin.tzinfo or UTC) > end.replace(tzinfo=end.tzinfo or UTC):
            text = f"--since {since} is after --until {until}: nothing is between them; exchange the two"
            raise CommandError(text, Exit.USAGE)
    return {"from": first, "to": last}


def read_ahead(given: str | None) -> str | None:
    """A moment as the API reads it: a duration is that long from now, anything else stays as it is."""
    return _moment_away(given, 1)


def _moment_away(given: str | None, direction: int) -> str | None:
    seconds = None if given is None else find_seconds(given)
    if seconds is None:
        if given is not None and (advice := _advise(given)):
            text = f"{given!r} is neither a duration, as 1h, nor a moment, as 2026-01-31 09:00:00"
            raise CommandError(f"{text}; {advice}", Exit.USAGE)
        return given
    from datetime import UTC, datetime, timedelta

    try:
        return (datetime.now(UTC) + direction * timedelta(seconds=seconds)).isoformat()
    except OverflowError as error:
        raise CommandError(f"{given!r} leads out of the calendar; give a shorter one", Exit.USAGE) from error


PLACES = {
    "job": ("jobs", "JOB_ID"),
    "execution": ("executions", "EXECUTION"),
    "delivery": ("deliveries", "DELIVERY_ID"),
    "operation": ("operations", "OPERATION_ID"),
    "key": ("keys", "KEY_ID"),
    "calendar": ("calendars", "NAME"),
    "secret": ("secrets", "NAME"),
    "queue": ("queues", "NAME"),
    "service": ("services", "NAME"),
}
"""Of each kind that the command line names: its route, and the argument."""


def path_of(kind: str, given: str) -> str:
    """The path of what the command line names. Raises CommandError for what nothing can have."""
    from client_sdk.id_patterns import quote_name

    route, argument = PLACES[kind]
    try:
        return f"/{route}/{quote_name(kind, given)}"
    except ValueError as error:
        _, _, reason = str(error).partition(" ")
        raise CommandError(f"{argument} {reason}", Exit.USAGE) from error


def read_pairs(pairs: list[str]) -> dict[str, Any]:
    """`name=value` pairs as an object; a value that is valid JSON is read as JSON."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CommandError(f"{pair!r} is not NAME=VALUE", Exit.USAGE)
        if name in found:
            raise CommandError(f"NAME {name!r} is given twice; give each parameter once", Exit.USAGE)
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
