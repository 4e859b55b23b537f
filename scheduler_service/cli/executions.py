"""`punctual executions …`: list, watch, cancel and replay executions, and wait for their end."""

import json
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from scheduler_service.cli.bulk import bulk_executions
from scheduler_service.cli.errors import AbsentError, CommandError, Exit
from scheduler_service.cli.event_following import Following
from scheduler_service.cli.job_pages import EXECUTIONS, describe_state, reference, show_execution
from scheduler_service.cli.options import (
    Commands,
    Cursor,
    Error,
    ExecutionId,
    Job,
    JobLabels,
    Limit,
    Outcome,
    Output,
    Parameters,
    Since,
    State,
    Timeout,
    Until,
    Wait,
    path_of,
    read_pairs,
    read_seconds,
    read_span,
)
from scheduler_service.cli.output import (
    Column,
    FieldsPage,
    Format,
    RowsPage,
    at,
    counts,
    length_text,
    note,
    show,
    show_as,
    show_rows,
    total,
)
from scheduler_service.cli.service_connection import ApiConnection
from scheduler_service.domain.execution import TERMINAL

ERRORS = (
    Column("error", free=True),
    "failureType",
    "count",
    "jobs",
    at("latestAt"),
    Column("latestExecutionId", spare=True),
)
app = Commands(no_args_is_help=True, help="List, watch, cancel and replay executions.")
LOG = (
    Column("at", lambda row: row["at"].replace("T", " ")),
    Column("kind", lambda row: row["kind"] if row["step"] is None else f"{row['kind']} {row['step']}"),
    Column("text", free=True),
    Column("requestCounts", spare=True),
)
POLL_SECONDS = 0.2
SHORT_SECONDS = 1.0
LONGEST_POLL_SECONDS = 1.0
"""Its progress is no event: it is read as often."""
RECORDED_SECONDS = 2.0
"""How long a started execution may be missing in the history: that of 0.1.0 is a second behind."""


def count_executions(
    api: ApiConnection,
    job: Job = None,
    label: JobLabels = None,
    outcome: Outcome = None,
    error: Error = None,
    since: Since = None,
    until: Until = None,
) -> Any:
    """Count executions by state and by error, of the newest 10,000 and of 10,000 that did not succeed.

    Example: punctual executions count --since 24h
    """
    span = read_span(since, until)
    filters = {"jobId": job, "label": label or None, "outcome": outcome, "error": error, **span}
    return api.get("/counts/executions", **filters)


def _show_counts(found: dict[str, Any]) -> None:
    FieldsPage((total("executions", "total"), counts("state", "byState")))(found)
    if found["byError"]:
        print()
        show_rows(found["byError"], ERRORS)


def _state(name: str, *states: str) -> Column:
    def count(row: Any) -> int:
        return sum(row["byState"].get(state, 0) for state in states)

    return Column(name, count, spare=len(states) > 1)


def _length(name: str, kind: str, member: str) -> Column:
    return Column(name, lambda row: length_text(row[kind][member]))


BUCKETS = (
    at("from"),
    _state("succeeded", "succeeded"),
    _state("failed", "terminated"),
    _state("others", "cancelled", "skipped"),
    _state("live", "scheduled", "enqueued", "processing", "failed"),
    _length("late p99", "latenessMs", "p99"),
    _length("took p50", "durationMs", "p50"),
    _length("took p95", "durationMs", "p95"),
)


def list_series(
    api: ApiConnection,
    job: Job = None,
    label: JobLabels = None,
    outcome: Outcome = None,
    since: Since = None,
    until: Until = None,
    bucket: Annotated[
        str | None, typer.Option(help="The width of a bucket, a multiple of 5m.", metavar="DURATION")
    ] = None,
) -> Any:
    """Show executions by buckets of time, of a day by default; buckets without any are left out.

    Example: punctual executions series --since 6h --bucket 30m
    """
    width = None if bucket is None else round(read_seconds(bucket))
    span: dict[str, Any] = {**read_span(since, until), "bucketSeconds": width}
    filters = {"jobId": job, "label": label or None, "outcome": outcome, **span}
    return api.get("/series/executions", **filters)


def _show_series(found: dict[str, Any]) -> None:
    if filled := [one for one in found["buckets"] if one["byState"]]:
        show_rows(filled, BUCKETS)
    else:
        note("no executions in this time")
    if found["isCapped"]:
        note(f"there are more: what was planned before {found['examinedFrom']} was not looked at")


app.command("count", page=_show_counts)(count_executions)
app.command("series", page=_show_series)(list_series)


@app.command("list")
def list_executions(
    api: ApiConnection,
    output: Output = Format.TABLE,
    limit: Limit = 50,
    cursor: Cursor = None,
    job: Job = None,
    state: State = None,
    outcome: Outcome = None,
    error: Error = None,
    since: Since = None,
    until: Until = None,
) -> None:
    """List executions, the newest first; --since and --until compare with the planned moment.

    Example: punctual executions list --job nightly --since 24h
    """
    filters = {
        "jobId": job,
        "state": state,
        "outcome": outcome,
        "error": error,
        **read_span(since, until),
    }
    page = api.get("/executions", **filters, limit=limit, cursor=cursor)
    has_filters = any(value is not None for value in filters.values())
    empty = "no executions match" if has_filters else "no executions yet; jobs start them as their timers say"
    show_as(page, output, RowsPage(EXECUTIONS, empty))


@app.command("get", page=show_execution)
def get_execution(
    api: ApiConnection,
    execution_id: ExecutionId,
    request_counts: Annotated[
        int | None, typer.Option("--request-counts", help="Only the attempt with this number.", min=0)
    ] = None,
) -> Any:
    """Show an execution with its attempts, steps, checks, feedback and notifications.

    Example: punctual executions get nightly#1
    """
    return api.get(path_of("execution", execution_id), requestCounts=request_counts)


@app.command("log", page=RowsPage(LOG, "the log is empty"))
def show_log(api: ApiConnection, execution_id: ExecutionId, limit: Limit = 500, cursor: Cursor = None) -> Any:
    """Show what happened to an execution, in order of time.

    Example: punctual executions log nightly#1
    """
    return api.get(f"{path_of('execution', execution_id)}/log", limit=limit, cursor=cursor)


@app.command("result")
def show_result(
    api: ApiConnection,
    execution_id: ExecutionId,
    output: Output = Format.TABLE,
    wait: Wait = False,
    timeout: Timeout = 60,
) -> None:
    """Print what an execution was answered last, where its job has keepResult.

    Example: punctual executions result nightly#1
    """
    if wait:
        ended = wait_for(api, execution_id, timeout)
        check_success(ended)
        execution_id = ended["executionId"]
    found = api.get(f"{path_of('execution', execution_id)}/result")
    if output is Format.TABLE:
        print_result(found)
    else:
        show(found, output)


def print_result(found: dict[str, Any]) -> None:
    """Prints the body alone: JSON with line breaks, a text as it is, bytes as they are."""
    sys.stdout.flush()
    if found["encoding"] == "base64":
        sys.stdout.buffer.write(b64decode(found["body"]))
        return
    is_json = found["encoding"] == "json"
    print(json.dumps(found["body"], indent=2, ensure_ascii=False) if is_json else found["body"])


@app.command("watch")
def watch(
    api: ApiConnection, execution_id: ExecutionId, output: Output = Format.TABLE, timeout: Timeout = 3600
) -> None:
    """Wait until an execution has ended, and show it; exit code 5 unless it succeeded.

    Example: punctual executions watch nightly#1 --timeout 1h
    """
    show_end(api, execution_id, timeout, output)


@app.command("cancel")
def cancel(
    api: ApiConnection,
    execution_id: ExecutionId,
    reason: Annotated[str | None, typer.Option(help="Why; kept in the history.")] = None,
) -> None:
    """Cancel a running or waiting execution.

    Example: punctual executions cancel nightly#1 --reason "wrong input"
    """
    body = {} if reason is None else {"reason": reason}
    cancelled = api.send("POST", f"{path_of('execution', execution_id)}/cancel", body=body)
    name = execution_id.replace("#last", f"#{cancelled['executeNumber']}")
    note(f"{name} is cancelled")


@app.command("replay")
def replay(
    api: ApiConnection,
    execution_id: ExecutionId,
    parameters: Parameters = None,
    output: Output = Format.TABLE,
    from_step: Annotated[int, typer.Option("--from-step", help="The step's index, from 0.", min=0)] = 0,
    wait: Wait = False,
    timeout: Timeout = 60,
) -> None:
    """Run an execution again, from the start or from a step, with its parameters or edited ones.

    Example: punctual executions replay nightly#1 --from-step 0 --wait
    """
    body: dict[str, object] = {"fromStep": from_step}
    if parameters:
        body["params"] = read_pairs(parameters)
    started = api.send("POST", f"{path_of('execution', execution_id)}/replay", body=body)
    if wait:
        show_end(api, started["executionId"], timeout, output)
    else:
        show(started, output)


app.command("bulk")(bulk_executions)


def show_end(connection: ApiConnection, execution_id: str, timeout: float, output: Format) -> None:
    """Waits for the execution and shows it. Raises CommandError: timed out, or it did not succeed."""
    ended = wait_for(connection, execution_id, timeout)
    show_as(ended, output, show_execution)
    if ended.get("result") and output is Format.TABLE:
        print("\nresult")
        print_result(connection.get(f"{path_of('execution', ended['executionId'])}/result"))
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
            state = describe_state(execution) if execution else "not recorded yet"
            name = reference(execution) if execution else execution_id
            text = f"after {timeout:g} s {name} is {state}; see 'punctual executions get {name}'"
            raise CommandError(text, Exit.TIMED_OUT)
    raise AssertionError("polling does not end by itself")


def check_success(execution: dict[str, Any]) -> None:
    """Raises CommandError unless the execution succeeded."""
    if execution["state"] != "succeeded":
        cause = execution.get("error") or execution.get("reason") or ""
        text = f"{reference(execution)} ended {execution['state']} {cause}".rstrip()
        raise CommandError(text, Exit.FAILED)


def _poll(connection: ApiConnection, execution_id: str) -> Iterator[dict[str, Any] | None]:
    """The execution, read repeatedly; None while it is not in the history yet.

    Raises CommandError for one that does not appear.
    """
    recorded = time.monotonic() + RECORDED_SECONDS
    following: Following | None = None
    begun = time.monotonic()
    while True:
        try:
            found = connection.get(path_of("execution", execution_id))
            execution_id = found["executionId"]  # the last one may be another one by now
            yield found
        except AbsentError:
            if time.monotonic() >= recorded:
                raise
            yield None
        if time.monotonic() - begun < SHORT_SECONDS:  # the end of a short one needs no stream
            time.sleep(POLL_SECONDS)
            continue
        following = following or Following(connection, kinds=[], jobs=[], execution=execution_id)
        following.wait(LONGEST_POLL_SECONDS, poll=POLL_SECONDS)


def _show_progress(execution: dict[str, Any] | None, shown: str) -> str:
    if execution is None or not sys.stderr.isatty():
        return shown
    text = f"{execution['state']} {execution.get('progress') or ''}".strip()
    if text != shown:
        note(f"… {text}")
    return text
