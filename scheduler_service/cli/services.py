"""`punctual services …`: register, read and compare what services declare; `punctual nodes`."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from scheduler_service.cli.connection import ApiConnection, connect
from scheduler_service.cli.declarations import read_declaration, read_value
from scheduler_service.cli.errors import AbsentError, Exit
from scheduler_service.cli.executions import check_success, wait_for
from scheduler_service.cli.options import Cursor, Key, Limit, Output, Source, Timeout, Url, Wait
from scheduler_service.cli.output import Format, note, note_warnings, show, show_page

app = typer.Typer(no_args_is_help=True, help="Register services, and show how their jobs differ.")
KEPT_MEMBERS = ("address", "route", "tags", "onChange", "graceSeconds", "rateLimit")
"""The members that `PUT /services/{name}` resets when they are left out."""

Name = Annotated[str, typer.Argument(help="The service's name.")]
COLUMNS = ("name", "address", "onlineCount", "instanceCount", "updatedAt")
DRIFT = ("jobId", "kind", "action", "message")
NODES = ("nodeId", "state", "address", "version", "jobsHeld", "running", "lastHeartbeat")


@app.command("list")
def list_services(
    url: Url = None, key: Key = None, output: Output = Format.TABLE, limit: Limit = 50, cursor: Cursor = None
) -> None:
    """List services.

    Example: punctual services list -o json
    """
    show_page(connect(url, key).get("/services", limit=limit, cursor=cursor), output, COLUMNS)


@app.command("get")
def get_service(name: Name, url: Url = None, key: Key = None, output: Output = Format.TABLE) -> None:
    """Show a service with its timers and instances.

    Example: punctual services get billing -o yaml
    """
    show(connect(url, key).get(path_of(name)), output)


@app.command("apply")
def apply_service(
    name: Name,
    file: Source,
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
    force: Annotated[
        bool, typer.Option("--force", help="Apply it to its jobs at once, also to edited and foreign ones.")
    ] = False,
    wait: Wait = False,
    timeout: Timeout = 60.0,
) -> None:
    """Register a service as a file declares it; --wait runs check-timers, so that its jobs exist.

    Example: punctual services apply billing -f billing.yaml --wait
    """
    connection = connect(url, key)
    query = {"force": "true" if force else None}
    body = _complete(connection, name, read_value(file))
    envelope = connection.exchange("PUT", path_of(name), query=query, body=body)
    note_warnings(envelope.warnings)
    if wait:
        started = connection.send("POST", "/jobs/check-timers/trigger")
        check_success(wait_for(connection, started["executionId"], timeout))
    elif not force:
        note("check-timers applies it to its jobs within its period; --wait runs it now")
    show(envelope.data, output)


@app.command("drift")
def show_drift(
    name: Name,
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """Show which jobs differ from their declaration, and why; exit code 1 if any does.

    Example: punctual services drift billing
    """
    page = connect(url, key).get(f"{path_of(name)}/drift", limit=limit, cursor=cursor)
    if output is Format.TABLE and not page["items"]:
        print("no drift")
    else:
        show_page(page, output, DRIFT)
    if page["items"]:
        raise typer.Exit(Exit.REFUSED)


def list_nodes(url: Url = None, key: Key = None, output: Output = Format.TABLE) -> None:
    """List the scheduler's processes with their state and load.

    Example: punctual nodes
    """
    show_page(connect(url, key).get("/nodes"), output, NODES)


def _complete(connection: ApiConnection, name: str, given: Any) -> dict[str, Any]:
    """The body to send. A list replaces the timers only: the other members stay as they are."""
    declaration = read_declaration(given)
    if not isinstance(given, list):
        return declaration
    try:
        known = connection.get(path_of(name))
    except AbsentError:
        return declaration
    return {member: known[member] for member in KEPT_MEMBERS if known.get(member) is not None} | declaration


def path_of(name: str) -> str:
    """The path of a service."""
    return f"/services/{quote(name, safe='')}"
