"""`punctual services …`: register, read and compare what services declare."""

from typing import Annotated, Any

import typer

from scheduler_service.cli.definition_commands import point_to_timers, read_declaration, refuse_repeated
from scheduler_service.cli.errors import AbsentError, Exit
from scheduler_service.cli.executions import check_success, wait_for
from scheduler_service.cli.options import (
    Commands,
    Cursor,
    Limit,
    Output,
    Source,
    Timeout,
    Wait,
    path_of,
)
from scheduler_service.cli.output import (
    Column,
    Format,
    RowsPage,
    at,
    moment_text,
    note,
    note_warnings,
    show_as,
    show_fields,
    show_rows,
)
from scheduler_service.cli.service_connection import ApiConnection, SentPart

app = Commands(no_args_is_help=True, help="Register services, and show how their jobs differ.")
KEPT_MEMBERS = ("address", "route", "tags", "onChange", "graceSeconds", "rateLimit", "signing")
"""The members that `PUT /services/{name}` resets when they are left out."""

Name = Annotated[str, typer.Argument(help="The service's name.", metavar="NAME")]
COLUMNS = (
    Column("name", free=True),
    Column("address", free=True),
    "onlineCount",
    "instanceCount",
    at("pausedAt"),
    at("updatedAt", spare=True),
)
DRIFT = (Column("jobId", free=True), "kind", "action", Column("message", free=True))
INSTANCES = (
    Column("instanceId", free=True),
    "state",
    Column("address", free=True),
    "load",
    "capacity",
    at("lastHeartbeat"),
)
TIMERS = (
    Column("jobId", free=True),
    Column("jobName", free=True),
    Column("period", lambda row: _period_of(row.get("timer")), free=True),
)
MOMENTS = ("createdAt", "updatedAt", "pausedAt")


def _show_service(service: dict[str, Any]) -> None:
    tables = {"instances": INSTANCES, "timers": TIMERS}
    shown = service | {name: moment_text(service[name]) for name in MOMENTS}
    shown["tags"] = ", ".join(service["tags"]) or None
    show_fields((name, value) for name, value in shown.items() if name not in tables)
    for name, columns in tables.items():
        print()
        if service[name]:
            print(name)
            show_rows(service[name], columns, indent=2)
        else:
            print(f"no {name}")


def _show_drift(page: dict[str, Any]) -> None:
    if page["items"]:
        RowsPage(DRIFT)(page)
    else:
        print("no drift")


@app.command(
    "list", page=RowsPage(COLUMNS, "no services; register one with 'punctual services apply NAME -f FILE'")
)
def list_services(api: ApiConnection, limit: Limit = 50, cursor: Cursor = None) -> Any:
    """List services.

    Example: punctual services list
    """
    return api.get("/services", limit=limit, cursor=cursor)


@app.command("get", page=_show_service)
def get_service(api: ApiConnection, name: Name) -> Any:
    """Show a service with its timers and instances.

    Example: punctual services get billing
    """
    return api.get(path_of("service", name))


@app.command("apply", page=_show_service)
def apply_service(
    api: ApiConnection,
    name: Name,
    file: Source,
    force: Annotated[
        bool, typer.Option("--force", help="Apply it to its jobs at once, also to edited and foreign ones.")
    ] = False,
    wait: Wait = False,
    timeout: Timeout = 60.0,
) -> Any:
    """Register a service as a file declares it; --wait runs check-timers, so that its jobs exist.

    Example: punctual services apply billing -f billing.yaml --wait
    """
    from scheduler_service.cli.documents import DocumentKind, read_one

    document = read_one(file, DocumentKind.SERVICE, name)
    pointer = point_to_timers(document.value)
    body = _complete(api, name, document.value)
    refuse_repeated(document.definitions(pointer))
    part = SentPart(document, "/timers", pointer)
    query = {"force": "true" if force else None}
    envelope = api.exchange("PUT", path_of("service", name), query=query, body=body, part=part)
    note_warnings(envelope.warnings, part)
    if wait:
        started = api.send("POST", "/jobs/check-timers/trigger")
        check_success(wait_for(api, started["executionId"], timeout))
    elif not force:
        note("new and changed jobs are there; check-timers pauses removed ones later, or now with --wait")
    return envelope.data


@app.command("pause")
def pause_service(api: ApiConnection, name: Name) -> None:
    """Let no step be sent to a service; what waits keeps its place, and what runs goes on.

    Example: punctual services pause billing
    """
    api.send("POST", f"{path_of('service', name)}/pause")
    note(f"no step is sent to the service {name} until: punctual services resume {name}")


@app.command("resume")
def resume_service(api: ApiConnection, name: Name) -> None:
    """Let the steps that wait for a service be sent.

    Example: punctual services resume billing
    """
    api.send("POST", f"{path_of('service', name)}/resume")
    note(f"the service {name} goes on")


@app.command("drift")
def show_drift(
    api: ApiConnection, name: Name, output: Output = Format.TABLE, limit: Limit = 50, cursor: Cursor = None
) -> None:
    """Show which jobs differ from their declaration, and why; exit code 1 if any does.

    Example: punctual services drift billing
    """
    page = api.get(f"{path_of('service', name)}/drift", limit=limit, cursor=cursor)
    show_as(page, output, _show_drift)
    if page["items"]:
        raise typer.Exit(Exit.REFUSED)


def _period_of(timer: Any) -> Any:
    """The period of a declared timer; a timer may be a text, or left out."""
    return timer.get("period") if isinstance(timer, dict) else timer


def _complete(connection: ApiConnection, name: str, given: Any) -> dict[str, Any]:
    """The body to send. A list replaces the timers only: the other members stay as they are."""
    declaration = read_declaration(given)
    if not isinstance(given, list):
        return declaration
    try:
        known = connection.get(path_of("service", name))
    except AbsentError:
        return declaration
    return {member: known[member] for member in KEPT_MEMBERS if known.get(member) is not None} | declaration
