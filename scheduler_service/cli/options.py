"""The options that many commands share."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.output import Format

Url = Annotated[
    str | None, typer.Option("--url", help="The service; else PUNCTUAL_URL, else port 8000 here.")
]
Key = Annotated[str | None, typer.Option("--key", help="The API key; else PUNCTUAL_KEY.")]
Output = Annotated[Format, typer.Option("-o", "--output", help="How the result is shown.")]
Source = Annotated[Path, typer.Option("-f", "--file", help="A JSON file, or - for standard input.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until the execution has ended.")]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds that --wait waits.", min=0)]
Limit = Annotated[int, typer.Option("--limit", help="At most so many.", min=1, max=500)]


def read_json(source: Path) -> Any:
    """The JSON of `-f`. Raises CommandError with the line and column of what is wrong."""
    name = "standard input" if str(source) == "-" else str(source)
    try:
        text = sys.stdin.read() if str(source) == "-" else source.read_text(encoding="utf-8")
        return json.loads(text)
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}", Exit.USAGE) from error
    except UnicodeDecodeError as error:
        raise CommandError(
            f"{name} is not UTF-8: {error.reason} at byte {error.start}", Exit.USAGE
        ) from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise CommandError(f"{name} is no JSON: {error.msg} at {place}", Exit.USAGE) from error
    except RecursionError as error:
        raise CommandError(f"{name} is nested too deeply", Exit.USAGE) from error


def read_pairs(pairs: list[str]) -> dict[str, Any]:
    """`name=value` pairs as an object; a value that is JSON is taken as such."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CommandError(f"{pair!r} is not NAME=VALUE", Exit.USAGE)
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
