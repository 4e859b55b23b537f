"""`punctual templates …`: tries templates, without a job."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from scheduler_service.cli.connection import ApiConnection
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.options import Commands
from scheduler_service.cli.output import Format, note_warnings, show

app = Commands(no_args_is_help=True, help="What a template would become, without a job.")


def _show_value(preview: dict[str, Any]) -> None:
    value = preview["value"]
    show(value, Format.TABLE if isinstance(value, str) else Format.JSON)


@app.command("preview", page=_show_value)
def preview(
    api: ApiConnection,
    template: Annotated[str, typer.Argument(help="A text; in a body also a JSON value.", metavar="TEMPLATE")],
    root: Annotated[
        str | None,
        typer.Option(help="The root of the template, a JSON object: latest response, named ones, trigger."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="The root from a file (.json, .json5, .yaml), or -.")
    ] = None,
    place: Annotated[str, typer.Option(help="Where the template is: body, url or header.")] = "body",
) -> Any:
    """Show the value of a template, or the error that a job would get.

    Example: punctual templates preview '{"total": "${$.price}|json"}' --root '{"price": 4.2}'
    """
    body = {"template": _read_template(template, place), "root": _read_root(root, file), "place": place}
    answer = api.exchange("POST", "/templates/preview", body=body)
    note_warnings(answer.warnings)
    return answer.data


@app.callback()
def _templates() -> None:
    """What a template would become, without a job."""


def _read_template(text: str, place: str) -> Any:
    """In a body, a JSON object or array is taken as such; everything else is a text."""
    if place != "body" or not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read_root(text: str | None, file: Path | None) -> Any:
    if text is not None and file is not None:
        raise CommandError("--root and -f both give the root; give one of them", Exit.USAGE)
    if file is not None:
        from scheduler_service.cli.documents import read_document

        return read_document(file).value
    try:
        return {} if text is None else json.loads(text)
    except ValueError as error:
        raise CommandError(f"--root is not valid JSON: {error}", Exit.USAGE) from error
