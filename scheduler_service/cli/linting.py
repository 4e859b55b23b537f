"""`punctual lint`: checks definitions without a service."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.output import note, text_of

if TYPE_CHECKING:
    from client_sdk.models import Problem as ModelProblem
    from scheduler_service.cli.documents import DefinitionFile
    from scheduler_service.domain.errors import Problem

UNNAMED = "unnamed"
MAX_LINES = 1_000
"""Of so many errors and warnings of a file each is shown."""

Found = tuple[str, str, str]


def lint(
    file: Annotated[Path, typer.Argument(help="One definition or an array: .json, .json5 or .yaml.")],
) -> None:
    """Check a file of definitions; exit code 1 if any is wrong.

    Example: punctual lint nightly.json
    """
    from scheduler_service.cli.documents import read_document

    document = read_document(file)
    is_list = isinstance(document.value, list)
    definitions = document.value if is_list else [document.value]
    wrong, report = 0, _Report(document)
    repeated = document.find_repeated("")
    for index, definition in enumerate(definitions):
        errors, warnings = check(definition)
        prefix = f"/{index}" if is_list else ""
        if index in repeated:
            errors.append(("/jobId", "duplicate", repeated[index]))
        wrong += bool(errors)
        report.add(prefix, "error", errors)
        report.add(prefix, "warning", warnings)
    report.end()
    if wrong:
        raise CommandError(f"{wrong} of {len(definitions)} definitions are wrong", Exit.REFUSED)
    note(f"{len(definitions)} definition{'s' if len(definitions) != 1 else ''} OK")


class _Report:
    """Prints `jobs.json:3:14: error: /request/0/url: …`, which editors recognise; at most `MAX_LINES`."""

    def __init__(self, document: "DefinitionFile") -> None:
        self._document = document
        self._count = 0

    def add(self, prefix: str, grade: str, found: list[Found]) -> None:
        """What was found of the definition at the pointer `prefix`."""
        name = self._document.name
        for pointer, code, message in found[: max(0, MAX_LINES - self._count)]:
            place = self._document.place_of(prefix + pointer)
            print(text_of(f"{name}:{place}: {grade}: {prefix + pointer or '/'}: {message} [{code}]"))
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
