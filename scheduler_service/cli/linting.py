"""`punctual lint`: checks definitions without a service."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.output import note, text_of

if TYPE_CHECKING:
    from client_sdk.models import Problem as ModelProblem
    from scheduler_service.cli.documents import DefinitionInFile
    from scheduler_service.domain.errors import Problem

UNNAMED = "unnamed"
MAX_LINES = 1_000
"""Of so many errors and warnings each is shown."""

Found = tuple[str, str, str]


def lint(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Each one definition or an array: .json, .json5 or .yaml; - for standard input.",
            metavar="FILE...",
        ),
    ],
) -> None:
    """Check files of definitions; exit code 1 if any is wrong.

    Example: punctual lint nightly.json
    """
    from scheduler_service.cli.documents import find_repeated, read_document

    definitions = [one for file in files for one in read_document(file).definitions()]
    wrong, report = 0, _LintReport()
    repeated = find_repeated(definitions)
    for index, definition in enumerate(definitions):
        errors, warnings = check(definition.value)
        if index in repeated:
            errors.append(("/jobId", "duplicate", repeated[index]))
        wrong += bool(errors)
        report.add(definition, "error", errors)
        report.add(definition, "warning", warnings)
    report.end()
    if wrong:
        raise CommandError(f"{wrong} of {len(definitions)} definitions are wrong", Exit.REFUSED)
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


def check(definition: Any) -> tuple[list[Found], list[Found]]:
    """(errors, warnings) of one definition, each a pointer, a code and a message.

    A definition may leave its `jobId` to the path under which it will be posted.
    """
    from client_sdk.models import ModelError, parse_definition
    from scheduler_service.domain.errors import DefinitionError
    from scheduler_service.engine.compile import compile_definition
    from scheduler_service.engine.program import Surroundings

    filled_in = definition
    if isinstance(definition, dict) and definition.get("jobId") is None:
        filled_in = {**definition, "jobId": UNNAMED}
    try:
        compiled = compile_definition(parse_definition(filled_in), Surroundings(topics=True))
    except (ModelError, DefinitionError) as error:
        return _point(error.problems, definition), []
    return [], _point(compiled.warnings, definition)


def _point(flaws: "Iterable[ModelProblem | Problem]", definition: Any) -> list[Found]:
    from client_sdk.models import point_to_posted

    posted = definition if isinstance(definition, dict) else {}
    return [(point_to_posted(flaw.pointer, posted), flaw.code, flaw.message) for flaw in flaws]
