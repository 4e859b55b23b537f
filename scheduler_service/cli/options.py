"""The options that many commands share."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.output import Format

Url = Annotated[
    str | None, typer.Option("--url", help="The service; else PUNCTUAL_URL, else http://127.0.0.1:8000.")
]
Key = Annotated[str | None, typer.Option("--key", help="The API key; else PUNCTUAL_KEY.")]
Output = Annotated[Format, typer.Option("-o", "--output", help="The form of the result.")]
Source = Annotated[
    Path, typer.Option("-f", "--file", help="A file (.json, .json5, .yaml), or - for standard input.")
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until the execution has ended.")]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds that --wait waits.", min=0)]
Cursor = Annotated[str | None, typer.Option("--cursor", help="nextCursor of the previous page.")]
Config = Annotated[Path | None, typer.Option(help="A TOML file with settings; else PUNCTUAL_CONFIG.")]
Limit = Annotated[int, typer.Option("--limit", help="The greatest number of items.", min=1, max=500)]


def read_pairs(pairs: list[str]) -> dict[str, Any]:
    """`name=value` pairs as an object; a value that is valid JSON is read as JSON."""
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
