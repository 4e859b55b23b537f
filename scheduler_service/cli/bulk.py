"""`punctual jobs bulk`, `punctual executions bulk` and `punctual operations …`: commands for many at once."""

import sys
import time
from collections.abc import Callable
from http.client import TOO_MANY_REQUESTS
from typing import Annotated, Any

import typer

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.options import (
    Commands,
    Error,
    Job,
    JobLabels,
    Labels,
    Outcome,
    Output,
    Since,
    State,
    Timeout,
    Until,
    path_of,
    read_pairs,
    read_span,
)
from scheduler_service.cli.output import (
    Column,
    FieldsPage,
    Format,
    note,
    note_warnings,
    show_as,
    show_rows,
    text_of,
)
from scheduler_service.cli.service_connection import ApiConnection

app = Commands(no_args_is_help=True, help="Commands for many jobs or executions, while they run.")
POLL_SECONDS = 0.2
AWAY_SECONDS = 60.0
"""A service that went away amid an operation is awaited so long."""
MOST_ROUNDS = 10
"""An operation that is interrupted is gone on with so often."""
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count them.")]
All = Annotated[bool, typer.Option("--all", help="All that no other filter leaves out.")]
OperationKey = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key", help="Goes on with the operation that was begun under it.", metavar="KEY"
    ),
]
OperationId = Annotated[str, typer.Argument(help="The operation's id.", metavar="OPERATION_ID")]
SPAN = {"from": "--since", "to": "--until"}
"""The options of a filter that may be given from now, by the members of the request."""
OPERATION = (
    "operationId",
    "action",
    "state",
    "total",
    "done",
    "succeeded",
    "failed",
    "startedAt",
    "endedAt",
)
PROBLEMS = (
    Column("what", lambda row: row["jobId"] or row["executionId"], free=True),
    Column("status", lambda row: row["problem"]["status"]),
    Column("problem", lambda row: row["problem"]["detail"], free=True),
)


def bulk_jobs(
    api: ApiConnection,
    action: Annotated[str, typer.Argument(help="pause, resume, disable, enable, trigger, label or destroy.")],
    job_ids: Annotated[list[str] | None, typer.Argument(metavar="[JOB_ID]...", help="These jobs.")] = None,
    output: Output = Format.TABLE,
    dry_run: DryRun = False,
    everything: All = False,
    state: Annotated[str | None, typer.Option(help="Only those in this state.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only with a timer of this kind.")] = None,
    label: Labels = None,
    creator: Annotated[str | None, typer.Option(help="Only of this creator.")] = None,
    text: Annotated[str | None, typer.Option(help="Part of an id or a name.")] = None,
    drain: Annotated[bool, typer.Option("--drain", help="pause: let running executions finish.")] = False,
    misfire: Annotated[
        str | None, typer.Option(help="resume: the firings of the pause: skip, fire_once or fire_all.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="trigger: parameters; may be given again.")
    ] = None,
    put: Annotated[
        list[str] | None, typer.Option(metavar="KEY:VALUE", help="label: set this one; may be given again.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="label: remove this one; may be given again.")
    ] = None,
    idempotency_key: OperationKey = None,
    timeout: Timeout = 3600,
) -> None:
    """Pause, disable, trigger, label or destroy many jobs: those named, or those that fit the filters.

    Example: punctual jobs bulk pause --label team:ops --dry-run
    """
    filters = {"state": state, "kind": kind, "label": label or None, "creator": creator, "text": text}
    changes = [*map(_read_label, put or []), *((name, None) for name in remove or [])]
    labels = dict(changes)
    if len(labels) < len(changes):
        raise CommandError("--put and --remove name a label twice; name each once", Exit.USAGE)
    members = {
        "drain": drain or None,
        "misfire": misfire,
        "params": read_pairs(param) if param else None,
        "labels": labels or None,
    }
    body = {"action": action, "select": _select("jobIds", job_ids, filters, everything), "dryRun": dry_run}
    asked = _BulkRequest(api, "/bulk/jobs", _given(body | members), idempotency_key)
    _carry_out(asked, output, timeout)


def bulk_executions(
    api: ApiConnection,
    action: Annotated[str, typer.Argument(help="cancel or replay.")],
    execution_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[EXECUTION_ID]...", help="These executions.")
    ] = None,
    output: Output = Format.TABLE,
    dry_run: DryRun = False,
    everything: All = False,
    job: Job = None,
    state: State = None,
    outcome: Outcome = None,
    error: Error = None,
    label: JobLabels = None,
    since: Since = None,
    until: Until = None,
    reason: Annotated[str | None, typer.Option(help="cancel: why; kept in the history.")] = None,
    from_step: Annotated[int | None, typer.Option(min=0, help="replay: the step's index, from 0.")] = None,
    param: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="replay: parameters; may be given again.")
    ] = None,
    idempotency_key: OperationKey = None,
    timeout: Timeout = 3600,
) -> None:
    """Cancel or replay many executions: those named by executionId, or those that fit the filters.

    Example: punctual executions bulk replay --outcome failed --since 12h --dry-run
    """
    filters = {
        "jobId": job,
        "state": state,
        "outcome": outcome,
        "error": error,
        "label": label or None,
        **read_span(since, until),
    }
    select = _select("executionIds", execution_ids, filters, everything)
    members = {"reason": reason, "fromStep": from_step, "params": read_pairs(param) if param else None}
    body = {"action": action, "select": select, "dryRun": dry_run} | members
    asked = _BulkRequest(api, "/bulk/executions", _given(body), idempotency_key)
    _carry_out(asked, output, timeout)


def _show(operation: dict[str, Any]) -> None:
    FieldsPage(OPERATION)(operation)
    if operation["problems"]:
        show_rows(operation["problems"], PROBLEMS)


@app.command("get", page=_show)
def get_operation(api: ApiConnection, operation_id: OperationId) -> Any:
    """Show how far an operation is, and what was refused.

    Example: punctual operations get OPERATION_ID
    """
    return api.get(path_of("operation", operation_id))


@app.command("cancel", page=_show)
def cancel_operation(api: ApiConnection, operation_id: OperationId) -> Any:
    """End an operation before it is done; what is done stays done.

    Example: punctual operations cancel OPERATION_ID
    """
    return api.send("POST", f"{path_of('operation', operation_id)}/cancel", body={})


def _select(name: str, ids: list[str] | None, filters: dict[str, Any], everything: bool) -> dict[str, object]:
    """What the request selects. Raises CommandError where it would be nothing, or all by accident."""
    where = _given(filters)
    if ids and (where or everything):
        raise CommandError("give ids or filters, not both", Exit.USAGE)
    if not (ids or where or everything):
        raise CommandError("give ids, a filter such as --label KEY:VALUE, or --all", Exit.USAGE)
    return {name: ids} if ids else {"filter": where}


def _given(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _read_label(given: str) -> tuple[str, str]:
    name, colon, value = given.partition(":")
    if not (name and colon):
        raise CommandError(f"{given!r} is not KEY:VALUE", Exit.USAGE)
    return name, value


class _BulkRequest:
    """A bulk request under its Idempotency-Key, with which it can be sent again: nothing is done twice."""

    def __init__(self, connection: ApiConnection, path: str, body: dict[str, Any], key: str | None) -> None:
        from client_sdk.client.jobs import write_key

        self.connection = connection
        self.action = body["action"]
        self._path = path
        self._body = body
        try:
            self._key = write_key(key)
        except ValueError as error:
            raise CommandError(str(error), Exit.USAGE) from error

    def begin(self) -> dict[str, Any]:
        """The answer; where one was lost it is asked for again. Raises CommandError."""
        try:
            return self._send()
        except CommandError as error:
            if error.code is not Exit.UNREACHABLE or not getattr(error.__cause__, "was_sent", True):
                raise
        return self.go_on()

    def go_on(self) -> dict[str, Any]:
        """The answer once the service is there, or there again. Raises CommandError."""
        return self.patiently(self._send)

    def look(self, operation_id: str) -> dict[str, Any]:
        """The operation as it is now. Raises CommandError."""
        path = path_of("operation", operation_id)
        return self.patiently(lambda: self.connection.get(path))

    def patiently(self, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What `ask` gives, asked again while no service answers. Raises CommandError: how to go on."""
        deadline = time.monotonic() + AWAY_SECONDS
        while True:
            try:
                return ask()
            except CommandError as error:
                if not _is_passing(error):
                    raise
                if time.monotonic() >= deadline:
                    raise CommandError(f"{error.message}; {self.advice()}", error.code) from error
            time.sleep(POLL_SECONDS)

    def advice(self) -> str:
        """How a person goes on: moments that the command counted from its start have to be the same."""
        given = self._body["select"].get("filter", {})
        options = [f"--idempotency-key {self._key}"]
        options += [f"{option} {given[name]}" for name, option in SPAN.items() if name in given]
        return f"to go on with it give the same command with {' '.join(options)}"

    def _send(self) -> dict[str, Any]:
        headers = {"Idempotency-Key": self._key}
        answer = self.connection.exchange("POST", self._path, body=self._body, headers=headers)
        if self._body["dryRun"]:
            note_warnings(answer.warnings)
        data: dict[str, Any] = answer.data
        return data


def _is_passing(error: CommandError) -> bool:
    """Whether no service answered, or it had no time or no store now."""
    return error.code is Exit.UNREACHABLE or getattr(error.__cause__, "status", None) == TOO_MANY_REQUESTS


def _carry_out(asked: _BulkRequest, output: Format, timeout: float) -> None:
    """Sends the request and has it done to its end. Raises CommandError where not all was done in time."""
    deadline = time.monotonic() + timeout
    answer = asked.begin()
    operation = answer["operation"]
    if operation is None:
        show_as(answer, output, lambda found: _show_dry(found, asked.action))
        return
    operation = _wait(asked, operation, deadline)
    for _ in range(MOST_ROUNDS):
        if operation["state"] != "interrupted":
            break
        note(f"the service ended at {operation['done']} of {operation['total']}; the command goes on with it")
        operation = _wait(asked, asked.go_on()["operation"], deadline)
    note_warnings(operation.get("warnings", ()))
    show_as(operation, output, _show)
    if operation["state"] != "done" or operation["failed"]:
        text = f"{operation['failed']} of {operation['total']} were refused; it is {operation['state']}"
        further = f"; {asked.advice()}" if operation["state"] == "interrupted" else ""
        raise CommandError(text + further, Exit.REFUSED)


def _wait(asked: _BulkRequest, operation: dict[str, Any], deadline: float) -> dict[str, Any]:
    name = operation["operationId"]
    while operation["state"] == "running":
        if time.monotonic() >= deadline:
            text = (
                f"{operation['done']} of {operation['total']} are done in the time of --timeout; it goes on"
            )
            raise CommandError(f"{text}: 'punctual operations get {name}'", Exit.TIMED_OUT)
        if sys.stderr.isatty():
            note(f"… {operation['done']} of {operation['total']}")
        time.sleep(POLL_SECONDS)
        operation = asked.look(name)
    return operation


def _show_dry(answer: dict[str, Any], action: str) -> None:
    note(f"{action}: {answer['count']} selected; nothing was done")
    for name in answer["first"]:
        print(text_of(name))
