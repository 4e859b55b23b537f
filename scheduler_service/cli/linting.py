"""`punctual lint`: is this definition right? Tried here, without a service."""

from pathlib import Path
from typing import Annotated, Any

import typer

from client_sdk.models import ModelError, parse_definition
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.options import read_json
from scheduler_service.cli.output import tell
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.program import Surroundings

Found = tuple[str, str, str]


def lint(file: Annotated[Path, typer.Argument(help="A JSON file with one definition or an array.")]) -> None:
    """Check a file of definitions; exit code 1 where one is wrong.

    Example: punctual lint nightly.json
    """
    given = read_json(file)
    definitions = given if isinstance(given, list) else [given]
    wrong = 0
    for index, definition in enumerate(definitions):
        prefix = f"/{index}" if isinstance(given, list) else ""
        errors, warnings = check(definition)
        wrong += bool(errors)
        for pointer, code, message in errors:
            print(f"{file}: error: {prefix}{pointer or '/'}: {message} [{code}]")
        for pointer, code, message in warnings:
            print(f"{file}: warning: {prefix}{pointer or '/'}: {message} [{code}]")
    if wrong:
        raise CommandError(f"{wrong} of {len(definitions)} definitions are wrong", Exit.REFUSED)
    tell(f"{len(definitions)} definition{'s are' if len(definitions) != 1 else ' is'} right")


def check(definition: Any) -> tuple[list[Found], list[Found]]:
    """(errors, warnings) of one definition, each a pointer, a code and a message."""
    try:
        compiled = compile_definition(parse_definition(definition), Surroundings())
    except (ModelError, DefinitionError) as error:
        return [(one.pointer, one.code, one.message) for one in error.problems], []
    return [], [(one.pointer, one.code, one.message) for one in compiled.warnings]
