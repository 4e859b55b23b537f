"""`punctual lint` and `punctual doctor`: definitions, and what a service stands on."""

import os
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.options import Config, Output
from scheduler_service.cli.output import Format, note, show, text_of
from scheduler_service.cli.service_connection import read_ca
from scheduler_service.cli.serving import Data, Host, Port, read_settings

if TYPE_CHECKING:
    from client_sdk.models import Problem as ModelProblem
    from scheduler_service.cli.documents import DefinitionInFile
    from scheduler_service.domain.errors import Problem
    from scheduler_service.maintenance.doctor_findings import DoctorFinding

UNNAMED = "unnamed"
WORKING_WEEK = 0b11111
MAX_LINES = 1_000
"""Of so many errors and warnings each is shown."""

Found = tuple[str, str, str]


def lint(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Definitions, or folders of them: .json, .json5 or .yaml; - for standard input.",
            metavar="FILE...",
        ),
    ],
) -> None:
    """Check files of definitions; exit code 1 if any is wrong, 2 if a file cannot be read.

    Example: punctual lint nightly.json
    """
    from scheduler_service.cli.documents import find_repeated, read_sources

    unreadable: list[CommandError] = []
    definitions = []
    for document in read_sources(files, refuse=unreadable.append):
        for one in document.definitions():
            try:
                definitions += [one] if one.kind else []
            except CommandError as error:
                unreadable.append(error)
    if not definitions and not unreadable:
        named = ", ".join(map(str, files))
        raise CommandError(f"there is no definition in {named}: nothing was checked", Exit.USAGE)
    wrong, report = 0, _LintReport()
    repeated = find_repeated(definitions)
    for index, definition in enumerate(definitions):
        errors, warnings = check_document(definition)
        if index in repeated:
            errors.append(("/jobId", "duplicate", repeated[index]))
        wrong += bool(errors)
        report.add(definition, "error", errors)
        report.add(definition, "warning", warnings)
    report.end()
    said = [error.message for error in unreadable]
    said += [f"{wrong} of {len(definitions)} definitions are wrong"] if wrong else []
    if said:
        raise CommandError("\n".join(said), Exit.USAGE if unreadable else Exit.REFUSED)
    note(f"{len(definitions)} definition{'s' if len(definitions) != 1 else ''} OK")


class _LintReport:
    """Prints `jobs.json:3:14: error: /request/0/url: …`, which editors recognise; at most `MAX_LINES`."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, definition: "DefinitionInFile", grade: str, found: list[Found]) -> None:
        """What was found of a definition."""
        document = definition.document
        for pointer, code, message in found[: max(0, MAX_LINES - self._count)]:
            at = definition.pointer + pointer
            print(
                text_of(f"{document.name}:{document.place_of(at)}: {grade}: {at or '/'}: {message} [{code}]")
            )
        self._count += len(found)

    def end(self) -> None:
        """Says how many are not shown."""
        if self._count > MAX_LINES:
            note(f"{self._count - MAX_LINES} more are not shown")


def check_document(one: "DefinitionInFile") -> tuple[list[Found], list[Found]]:
    """As `check`, of any kind; of a calendar and a service the form alone, and each job that it declares."""
    from client_sdk.models import ServiceDeclaration
    from client_sdk.models.request_bodies import NewCalendar
    from scheduler_service.cli.documents import DocumentKind

    if one.kind is DocumentKind.JOB:
        return check(one.body)
    errors = _check_form(NewCalendar if one.kind is DocumentKind.CALENDAR else ServiceDeclaration, one.body)
    if one.name is None:
        errors.append(("/name", "required", "a name is missing; add one"))
    warnings: list[Found] = []
    timers = one.body.get("timers")
    for index, definition in enumerate(timers if isinstance(timers, list) else ()):
        for all_found, found in zip((errors, warnings), check(definition), strict=True):
            all_found += [(f"/timers/{index}{pointer}", code, text) for pointer, code, text in found]
    return errors, warnings


def _check_form(model: Any, body: Any) -> list[Found]:
    from client_sdk.models import ModelError, parse_model

    try:
        parse_model(model, body)
    except ModelError as error:
        return _point(error.problems, body)
    return []


def check(definition: Any) -> tuple[list[Found], list[Found]]:
    """(errors, warnings) of one definition, each a pointer, a code and a message.

    A definition may leave its `jobId` to the path under which it will be posted. Calendars are those of a
    service: any name is taken for one.
    """
    from client_sdk.models import ModelError, parse_definition
    from scheduler_service.domain.errors import DefinitionError
    from scheduler_service.engine.compile import compile_definition
    from scheduler_service.engine.definition_checks import find_further
    from scheduler_service.engine.program import Surroundings
    from scheduler_service.timing.calendar_days import make_calendar

    filled_in = definition
    if isinstance(definition, dict) and definition.get("jobId") is None:
        filled_in = {**definition, "jobId": UNNAMED}
    usual = make_calendar("any", version=1, changed_at=0, week=WORKING_WEEK, layers=(), zone=None)
    around = Surroundings(topics=True, find_calendar=lambda *_: usual)  # which there are, a service knows
    try:
        compiled = compile_definition(parse_definition(filled_in), around)
    except DefinitionError as error:
        return _point(error.problems, definition), []
    except ModelError as error:
        wrong = [one.pointer for one in error.problems]
        further = find_further(deepcopy(filled_in), wrong, lambda rest: compile_definition(rest, around))
        return _point((*error.problems, *further), definition), []
    return [], _point(compiled.warnings, definition)


def _point(flaws: "Iterable[ModelProblem | Problem]", definition: Any) -> list[Found]:
    from client_sdk.models import point_to_posted

    posted = definition if isinstance(definition, dict) else {}
    return [(point_to_posted(flaw.pointer, posted), flaw.code, flaw.message) for flaw in flaws]


COLOURS = {"ok": "green", "warning": "yellow", "failed": "red"}


def examine(
    host: Host = None,
    port: Port = None,
    data: Data = None,
    runtime: Annotated[str, typer.Option(help="As for serve: embedded or dapr.")] = "embedded",
    config: Config = None,
    url: Annotated[str | None, typer.Option(help="A service to ask; else PUNCTUAL_URL, else --port.")] = None,
    key: Annotated[str | None, typer.Option(help="Its key; else PUNCTUAL_KEY, else server.key.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Examine what a service needs: folder, clock, ports, limits, servers, versions. Changes nothing.

    Takes the settings of the service; each line is ok, warning or failed, with what to do. Exit code 1 where
    one has failed.

    Example: punctual doctor --data data --port 0
    """
    if runtime not in ("embedded", "dapr"):
        raise CommandError(f"--runtime {runtime} is unknown; use embedded or dapr", Exit.USAGE)
    given = {"server.host": host, "server.port": port, "store.data": data}
    loaded = read_settings(given, config)
    import asyncio

    from scheduler_service.app.store_opening import data_folder
    from scheduler_service.maintenance import doctor
    from scheduler_service.maintenance.doctor_findings import ExaminedService, worst_of

    named = config or (Path(os.environ["PUNCTUAL_CONFIG"]) if os.environ.get("PUNCTUAL_CONFIG") else None)
    subject = ExaminedService(
        loaded=loaded,
        folder=data_folder(loaded.settings),
        config=named,
        is_node=runtime == "dapr",
        url=url or os.environ.get("PUNCTUAL_URL"),
        key=key or os.environ.get("PUNCTUAL_KEY"),
        ca=read_ca(),
    )
    findings = asyncio.run(doctor.examine(subject))
    state = worst_of(findings)
    if output is Format.TABLE:
        show_findings(findings)
    else:
        show({"state": state.value, "findings": [_members(one) for one in findings]}, output)
    if state == "failed":
        count = sum(one.state == "failed" for one in findings)
        raise CommandError(f"{count} of {len(findings)} checks failed", Exit.REFUSED)


def show_findings(findings: "list[DoctorFinding]") -> None:
    """A line for each, its remedy below it; the state is a word, and on a terminal has a colour as well."""
    from rich.console import Console
    from rich.text import Text

    console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
    for one in findings:
        line = Text(f"{one.state:<8}", style=COLOURS[one.state])
        line.append(f" {one.part:<9} {one.check}: {text_of(one.detail)}", style="default")
        console.print(line)
        if one.remedy:
            console.print(Text(f"{'':<18} remedy: {text_of(one.remedy)}"))


def _members(finding: "DoctorFinding") -> dict[str, str]:
    names = ("part", "check", "state", "detail", "remedy")
    return {name: str(getattr(finding, name)) for name in names}
