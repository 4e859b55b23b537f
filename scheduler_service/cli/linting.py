"""`punctual lint`: is this definition right? Tried here, without a service."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from client_sdk.models import ModelError, parse_definition, point_to_posted
from client_sdk.models import Problem as ModelProblem
from scheduler_service.cli.documents import DefinitionFile, read_document
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.output import note
from scheduler_service.domain.errors import DefinitionError, Problem
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.program import Surroundings

UNNAMED = "unnamed"
Found = tuple[str, str, str]


def lint(
    file: Annotated[Path, typer.Argument(help="One definition or an array: .json, .json5 or .yaml.")],
) -> None:
    """Check a file of definitions; exit code 1 where one is wrong.

    Example: punctual lint nightly.json
    """
    document = read_document(file)
    is_list = isinstance(document.value, list)
    definitions = document.value if is_list else [document.value]
    wrong = 0
    seen: set[str] = set()
    for index, definition in enumerate(definitions):
        errors, warnings = check(definition)
        errors.extend(_check_repeated(definition, seen))
        wrong += bool(errors)
        prefix = f"/{index}" if is_list else ""
        _print_all(document, prefix, "error", errors)
        _print_all(document, prefix, "warning", warnings)
    if wrong:
        raise CommandError(f"{wrong} of {len(definitions)} definitions are wrong", Exit.REFUSED)
    note(f"{len(definitions)} definition{'s are' if len(definitions) != 1 else ' is'} right")


def _check_repeated(definition: Any, seen: set[str]) -> list[Found]:
    """One array creates a job once; `seen` are the ids of the definitions before."""
    job_id = definition.get("jobId") if isinstance(definition, dict) else None
    if not isinstance(job_id, str):
        return []
    if job_id in seen:
        return [("/jobId", "duplicate", f"jobId {job_id!r} is given to two definitions; choose another")]
    seen.add(job_id)
    return []


def _print_all(document: DefinitionFile, prefix: str, grade: str, found: list[Found]) -> None:
    """`jobs.json:3:14: error: /request/0/url: …`, so that editors find the place."""
    for pointer, code, message in found:
        place = document.place_of(prefix + pointer)
        print(f"{document.name}:{place}: {grade}: {prefix + pointer or '/'}: {message} [{code}]")


def check(definition: Any) -> tuple[list[Found], list[Found]]:
    """(errors, warnings) of one definition, each a pointer, a code and a message.

    A definition may leave its `jobId` to the path under which it will be posted.
    """
    if isinstance(definition, dict) and "jobId" not in definition:
        definition = {"jobId": UNNAMED, **definition}
    try:
        compiled = compile_definition(parse_definition(definition), Surroundings())
    except (ModelError, DefinitionError) as error:
        return _tell(error.problems, definition), []
    return [], _tell(compiled.warnings, definition)


def _tell(flaws: Iterable[ModelProblem | Problem], definition: Any) -> list[Found]:
    posted = definition if isinstance(definition, dict) else {}
    return [(point_to_posted(flaw.pointer, posted), flaw.code, flaw.message) for flaw in flaws]
