"""`punctual executions …`: list, watch, cancel and replay executions, and wait for their end."""

import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import quote

import typer

from scheduler_service.cli.connection import ApiConnection, connect
from scheduler_service.cli.errors import AbsentError, CommandError, Exit
from scheduler_service.cli.options import Cursor, Key, Limit, Output, Timeout, Url, Wait, read_pairs
from scheduler_service.cli.output import Format, note, show, show_page
from scheduler_service.engine.states import TERMINAL

app = typer.Typer(no_args_is_help=True, help="List, watch, cancel and replay executions.")
ExecutionId = Annotated[str, typer.Argument(help="The execution's id.")]
COLUMNS = ("executionId", "jobId", "state", "error", "plannedAt", "endedAt", "attemptCount")
POLL_SECONDS = 0.2
RECORDED_SECONDS = 2.0
"""How long a started execution may be missing in the history (SPEC section 10: up to a second)."""


@app.command("list")
def list_executions(
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
    limit: Limit = 50,
    cursor: Cursor = None,
    job: Annotated[str | None, typer.Option(help="Only of this job.")] = None,
    state: Annotated[str | None, typer.Option(help="Only in this state.")] = None,
    error: Annotated[str | None, typer.Option(help="Only with this error code.")] = None,
) -> None:
    """List executions, the newest first.

    Example: punctual executions list --job nightly --state terminated
    """
    query = {"limit": limit, "cursor": cursor, "jobId": job, "state": state, "error": error}
    show_page(connect(url, key).get("/executions", **query), output, COLUMNS)


@app.command("get")
def get_execution(
    execution_id: ExecutionId, url: Url = None, key: Key = None, output: Output = Format.TABLE
) -> None:
    """Show an execution with its attempts, steps, checks, feedback and notifications.

    Example: punctual executions get 0f3c…-7 -o json
    """
    show(connect(url, key).get(path_of(execution_id)), output)


@app.command("watch")
def watch(
    execution_id: ExecutionId,
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 3600,
) -> None:
    """Wait until an execution has ended, and show it; exit code 5 unless it succeeded.

    Example: punctual executions watch 0f3c…-7 --timeout 60
    """
    show_end(connect(url, key), execution_id, timeout, output)


@app.command("cancel")
def cancel(
    execution_id: ExecutionId,
    url: Url = None,
    key: Key = None,
    reason: Annotated[str | None, typer.Option(help="Why; kept in the history.")] = None,
) -> None:
    """Cancel a running or waiting execution.

    Example: punctual executions cancel 0f3c…-7 --reason "wrong input"
    """
    body = {} if reason is None else {"reason": reason}
    connect(url, key).send("POST", f"{path_of(execution_id)}/cancel", body=body)
    note(f"{execution_id} is cancelled")


@app.command("replay")
def replay(
    execution_id: ExecutionId,
    parameters: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Parameters.")] = None,
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
    from_step: Annotated[int, typer.Option("--from-step", help="The step's index, from 0.", min=0)] = 0,
    wait: Wait = False,
    timeout: Timeout = 60,
) -> None:
    """Run an execution again, from the start or from a step, with its parameters or edited ones.

    Example: punctual executions replay 0f3c…-7 --from-step 1 --wait
    """
    body: dict[str, object] = {"fromStep": from_step}
    if parameters:
        body["params"] = read_pairs(parameters)
    connection = connect(url, key)
    started = connection.send("POST", f"{path_of(execution_id)}/replay", body=body)
    if wait:
        show_end(connection, started["executionId"], timeout, output)
    else:
        show(started, output)


def show_end(connection: ApiConnection, execution_id: str, timeout: float, output: Format) -> None:
    """Waits for the execution and shows it. Raises CommandError: timed out, or it did not succeed."""
    ended = wait_for(connection, execution_id, timeout)
    show(ended, output)
    check_success(ended)


def wait_for(connection: ApiConnection, execution_id: str, timeout: float) -> dict[str, Any]:
    """The ended execution. Raises CommandError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    shown = ""
    for execution in _poll(connection, execution_id):
        if execution and execution["state"] in TERMINAL:
            return execution
        shown = _show_progress(execution, shown)
        if time.monotonic() >= deadline:
            state = execution["state"] if execution else "not recorded yet"
            text = f"{execution_id} is {state} after {timeout:g} s; ask again with 'punctual executions get'"
            raise CommandError(text, Exit.TIMED_OUT)
    raise AssertionError("polling does not end by itself")


def check_success(execution: dict[str, Any]) -> None:
    """Raises CommandError unless the execution succeeded."""
    if execution["state"] != "succeeded":
        cause = execution.get("error") or execution.get("reason") or ""
        text = f"{execution['executionId']} ended {execution['state']} {cause}".rstrip()
        raise CommandError(text, Exit.FAILED)


def path_of(execution_id: str) -> str:
    """The path of an execution."""
    return f"/executions/{quote(execution_id, safe='')}"


def _poll(connection: ApiConnection, execution_id: str) -> Iterator[dict[str, Any] | None]:
    """The execution, read repeatedly; None while it is not in the history yet.

    Raises CommandError for one that does not appear.
    """
    recorded = time.monotonic() + RECORDED_SECONDS
    while True:
        try:
            yield connection.get(path_of(execution_id))
        except AbsentError:
            if time.monotonic() >= recorded:
                raise
            yield None
        time.sleep(POLL_SECONDS)


def _show_progress(execution: dict[str, Any] | None, shown: str) -> str:
    if execution is None or not sys.stderr.isatty():
        return shown
    text = f"{execution['state']} {execution.get('progress') or ''}".strip()
    if text != shown:
        print(f"… {text}", file=sys.stderr)
    return text
