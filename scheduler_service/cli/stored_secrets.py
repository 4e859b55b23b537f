"""`punctual secrets …`: what requests are filled in with; stored over the API of a service, never shown."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.options import Commands, Key, Url, path_of
from scheduler_service.cli.output import Column, RowsPage, at, note
from scheduler_service.cli.service_connection import connect

app = Commands(
    no_args_is_help=True, help="Secrets of a tenant: their names and dates; no value is ever shown."
)
Name = Annotated[str, typer.Argument(help="The secret's name.", metavar="NAME")]
LONGEST_BYTES = 40_000
COLUMNS = (Column("name"), "source", "values", at("updatedAt"), at("createdAt", spare=True))


@app.command("set")
def set_secret(
    name: Name,
    file: Annotated[
        str, typer.Option("--file", "-f", help="The file that has the value; -: the standard input.")
    ] = "-",
    keep_earlier: Annotated[
        bool, typer.Option("--keep-earlier", help="The value before stays valid as the second one.")
    ] = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Store a secret, or replace it. Its value comes from the standard input or a file, never an argument.

    Example: punctual secrets set SHOP_TOKEN < token.txt
    """
    body = {"value": _read_value(file), "keepEarlier": keep_earlier}
    answer = connect(url, key).exchange("PUT", path_of("secret", name), body=body)
    for warning in answer.warnings:
        note(str(warning["message"]))
    note(f"the secret {name} is stored; it counts at all nodes within a second")


@app.command("list", page=RowsPage(COLUMNS, "there are no secrets; store one: punctual secrets set NAME"))
def list_secrets(url: Url = None, key: Key = None) -> Any:
    """List the secrets by name, with their source and dates.

    Example: punctual secrets list
    """
    return {"items": connect(url, key).get("/secrets")["items"], "nextCursor": None}


@app.command("delete")
def delete_secret(name: Name, url: Url = None, key: Key = None) -> None:
    """Remove a stored secret: attempts that name it fail from now on.

    Example: punctual secrets delete SHOP_TOKEN
    """
    connect(url, key).send("DELETE", path_of("secret", name))
    note(f"the secret {name} is removed")


def _read_value(file: str) -> str:
    """The value, without the line end behind it; from a terminal it is asked for, unseen."""
    if file == "-" and sys.stdin.isatty():
        return str(typer.prompt("Value", hide_input=True, err=True))
    try:
        content = sys.stdin.buffer.read(LONGEST_BYTES) if file == "-" else _read_file(Path(file))
        return content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}", Exit.USAGE) from error
    except UnicodeDecodeError:
        raise CommandError("the value is no text in UTF-8", Exit.USAGE) from None


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LONGEST_BYTES)
