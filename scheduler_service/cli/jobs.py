"""`punctual jobs …`: create, change, trigger and watch jobs; `cli.job_queries` shows them."""

import contextlib
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler_service.cli import job_queries
from scheduler_service.cli.bulk import bulk_jobs
from scheduler_service.cli.definition_commands import check_definitions, create_definition, try_definition
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.event_following import Following
from scheduler_service.cli.executions import show_end
from scheduler_service.cli.job_pages import show_job
from scheduler_service.cli.job_queries import JobId
from scheduler_service.cli.options import (
    Commands,
    End,
    Labels,
    Output,
    Parameters,
    Source,
    Sources,
    Timeout,
    Wait,
    path_of,
    read_pairs,
    read_seconds,
    read_span,
)
from scheduler_service.cli.output import (
    Column,
    Format,
    RowsPage,
    at,
    moment_text,
    note,
    show,
    show_as,
    show_fields,
    text_of,
)
from scheduler_service.cli.overview import read_job_days, show_days
from scheduler_service.cli.service_connection import ApiConnection

if TYPE_CHECKING:
    from scheduler_service.cli.applying import PlannedChange
    from scheduler_service.cli.documents import DefinitionInFile

app = Commands(no_args_is_help=True, help="Create, read, change and trigger jobs.")
app.command("list")(job_queries.list_jobs)
app.command("get")(job_queries.get_job)
app.command("count", page=job_queries.COUNTED)(job_queries.count_jobs)
app.command("outcomes", page=job_queries.show_signs)(job_queries.list_outcomes)
WATCH_POLL_SECONDS = 1.0
Prune = Annotated[
    bool, typer.Option("--prune", help="Destroy the jobs with --label that the files do not have.")
]
Pruned = Annotated[
    list[str] | None,
    typer.Option("--label", help="NAME:VALUE, which jobs that --prune may destroy have; may be given again."),
]
AllowEmpty = Annotated[
    bool, typer.Option("--allow-empty", help="Let --prune destroy all that have the label.")
]
ENDS = ["finalSucceed", "finalFailed", "skipped"]
WATCH_BACKLOG = 10
"""How many executions that have ended before are shown first."""


BACKFILL_POLL_SECONDS = 1.0
MOMENTS = (
    at("plannedAt"),
    Column("execution", lambda row: "" if row["executeNumber"] is None else f"#{row['executeNumber']}"),
    Column("state"),
)
BackfilledFrom = Annotated[
    str,
    typer.Option("--since", help="The first moment: a time ago, as 7d, or a moment.", metavar="MOMENT"),
]
BackfilledTo = Annotated[
    str, typer.Option("--until", help="The last one: a time ago, as 1h, or a moment.", metavar="MOMENT")
]


@app.command("create")
def create_job(
    api: ApiConnection,
    file: Source,
    job_id: Annotated[
        str | None, typer.Argument(help="The job's id, where the file has none.", metavar="[JOB_ID]")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Create the job of a file; refused if it exists with another definition.

    Example: punctual jobs create -f nightly.json
    """
    job = create_definition(api, file, job_id)
    if output is Format.TABLE:
        show_job(job, preview=api.get(f"{path_of('job', job['jobId'])}/next", count=1))
    else:
        show(job, output)


@app.command("apply")
def apply_jobs(
    api: ApiConnection,
    files: Sources,
    output: Output = Format.TABLE,
    prune: Prune = False,
    label: Pruned = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what --prune destroys.")] = False,
    allow_empty: AllowEmpty = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")
    ] = False,
) -> None:
    """Make jobs, calendars and services as files have them; all is checked before the first is changed.

    Example: punctual jobs apply -f jobs.json
    """
    from scheduler_service.cli import applying

    labels = _read_pruning(label or [], prune=prune)
    changes = _plan(
        api, applying.read_schedule(files, allow_empty=allow_empty), labels, allow_empty=allow_empty
    )
    applying.refuse_wrong(changes)
    if dry_run:
        applying.show_results(changes, output)
        note(f"{applying.count_changes(changes) or 'nothing'}: nothing was changed, as --dry-run asks")
        return
    applying.confirm_destruction(changes, is_confirmed=yes)
    try:
        applying.Application(api, changes, labels).carry_out()
    except (CommandError, KeyboardInterrupt) as error:
        done = [change for change in changes if change.done or change.status == applying.UNCHANGED]
        text = "apply the files again, which leaves unchanged what is done"
        if done:
            applying.show_results(done, output)
            text = f"{len(done)} of {len(changes)} have the results above; {text}"
        if isinstance(error, KeyboardInterrupt):
            note(f"interrupted; {text}")
            raise
        raise CommandError(f"{error.message}; {text}", error.code) from error
    applying.show_results(changes, output)
    if any(change.status == applying.REFUSED for change in changes):
        raise CommandError(f"{applying.count_changes(changes)}: what was refused is as it was")


@app.command("export")
def export_jobs(
    api: ApiConnection,
    job_ids: Annotated[list[str] | None, typer.Argument(metavar="[JOB_ID]...", help="These jobs.")] = None,
    label: Labels = None,
    service: Annotated[
        list[str] | None,
        typer.Option("--service", help="This service and what it declares, too; may be given again."),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("--to", metavar="PATH", help="A file (.json, .yaml), or a folder: a file for each."),
    ] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="yaml or json.")] = Format.YAML,
) -> None:
    """Write the definitions of jobs, and the calendars that they name, as 'jobs apply' takes them.

    Example: punctual jobs export --label team:ops
    """
    from scheduler_service.cli.exporting import Selection, export_definitions

    if output is Format.TABLE:
        raise CommandError("-o table shows no definitions; use yaml or json", Exit.USAGE)
    if job_ids and label:
        raise CommandError("give ids of jobs or --label, not both", Exit.USAGE)
    export_definitions(api, Selection(job_ids or (), label or (), service or ()), target, output)


@app.command("check")
def check_jobs(api: ApiConnection, files: Sources, output: Output = Format.TABLE) -> None:
    """Let the service try the definitions of files without creating anything.

    Example: punctual jobs check -f nightly.json
    """
    check_definitions(api, files, output)


@app.command("try")
def try_job(
    api: ApiConnection,
    file: Source,
    parameters: Parameters = None,
    output: Output = Format.TABLE,
    wait: Wait = False,
    timeout: Timeout = 60,
) -> None:
    """Run the definition of a file once without saving it; what it sends is really sent.

    Example: punctual jobs try -f nightly.json size=3 --wait
    """
    started = try_definition(api, file, read_pairs(parameters or []))
    _show_started(api, started, started["jobId"], timeout if wait else None, output)


@app.command("schema")
def show_schema(api: ApiConnection) -> None:
    """Print the JSON Schema of a definition, for editors and forms.

    Example: punctual jobs schema
    """
    show(api.get("/schemas/job"), Format.JSON)


@app.command("diff")
def diff_jobs(
    api: ApiConnection,
    files: Sources,
    output: Output = Format.TABLE,
    prune: Prune = False,
    label: Pruned = None,
    allow_empty: AllowEmpty = False,
) -> None:
    """Show what apply would change; exit code 0: nothing, 1: something, more: it cannot be told.

    Example: punctual jobs diff -f nightly.json
    """
    from scheduler_service.cli import applying

    try:
        labels = _read_pruning(label or [], prune=prune)
        found = applying.read_schedule(files, takes_declarations=True, allow_empty=allow_empty)
        changes = _plan(api, found, labels, allow_empty=allow_empty)
        applying.refuse_wrong(changes)
        lines = [applying.describe_changes(api, change) for change in changes]
    except CommandError as error:  # a difference alone ends with 1
        code = Exit.USAGE if error.code is Exit.REFUSED else error.code
        raise CommandError(error.message, code) from error
    if output is not Format.TABLE:
        show([change.row | {"diff": own} for change, own in zip(changes, lines, strict=True)], output)
    for line in (line for own in lines for line in own if output is Format.TABLE):
        print(text_of(line))
    if any(lines):
        note(f"apply would do this: {applying.count_changes(changes)}")
        raise typer.Exit(Exit.REFUSED)
    if output is Format.TABLE:
        print("no difference")


@app.command("delete")
def delete_job(api: ApiConnection, job_id: JobId) -> None:
    """Destroy a job; its history stays until it is cleaned up.

    Example: punctual jobs delete nightly
    """
    api.send("DELETE", path_of("job", job_id))
    note(f"{job_id} is destroyed")


@app.command("pause")
def pause_job(
    api: ApiConnection,
    job_id: JobId,
    drain: Annotated[bool, typer.Option("--drain", help="Let running executions finish.")] = False,
) -> None:
    """Stop a job's timer, and cancel its running executions unless --drain is given.

    Example: punctual jobs pause nightly --drain
    """
    api.send("PUT", path_of("job", job_id), query={"active": 0, "drain": "true" if drain else None})
    note(f"{job_id} is paused")


@app.command("resume")
def resume_job(
    api: ApiConnection,
    job_id: JobId,
    misfire: Annotated[
        str, typer.Option(help="What to do with the firings of the pause: skip, fire_once or fire_all.")
    ] = "skip",
) -> None:
    """Let a paused job fire again, from now.

    Example: punctual jobs resume nightly --misfire fire_once
    """
    answer = api.send("PUT", path_of("job", job_id), query={"active": 1, "misfire": misfire}) or {}
    note(f"{job_id} is active; {answer.get('missed', 0)} firings fell into the pause")


@app.command("disable")
def disable_job(api: ApiConnection, job_id: JobId) -> None:
    """Let nothing of a job run: firings are skipped, triggers refused; what runs ends by itself.

    Example: punctual jobs disable nightly
    """
    api.send("PUT", path_of("job", job_id), query={"disabled": "true"})
    note(f"{job_id} is disabled")


@app.command("enable")
def enable_job(api: ApiConnection, job_id: JobId) -> None:
    """Let a disabled job go on with its plan.

    Example: punctual jobs enable nightly
    """
    api.send("PUT", path_of("job", job_id), query={"disabled": "false"})
    note(f"{job_id} is enabled")


@app.command("trigger")
def trigger_job(
    api: ApiConnection,
    job_id: JobId,
    parameters: Parameters = None,
    output: Output = Format.TABLE,
    wait: Wait = False,
    timeout: Timeout = 60,
    delay: Annotated[
        float | None,
        typer.Option(help="How long from now: 90, 90s, 5m, 1h.", parser=read_seconds, metavar="DURATION"),
    ] = None,
) -> None:
    """Start one execution, also of a paused or finished job.

    Example: punctual jobs trigger nightly size=3 --wait
    """
    body = read_pairs(parameters or [])
    started = api.send("POST", f"{path_of('job', job_id)}/trigger", query={"delaySeconds": delay}, body=body)
    _show_started(api, started, job_id, timeout if wait else None, output)


@app.command("watch")
def watch_job(
    api: ApiConnection,
    job_id: JobId,
    timeout: End = None,
) -> None:
    """Print a line for each of a job's executions as it ends; stop with Ctrl-C.

    Example: punctual jobs watch nightly --timeout 1s
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    seen: set[str] = set()
    following = Following(api, kinds=ENDS, jobs=[job_id])
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            for line in _describe_ended(api, job_id, seen):
                print(text_of(line), flush=True)
            if deadline is not None and time.monotonic() >= deadline:
                return
            left = math.inf if deadline is None else deadline - time.monotonic()
            following.wait(left, poll=WATCH_POLL_SECONDS)


@app.command("backfill")
def backfill_job(
    api: ApiConnection,
    job_id: JobId,
    since: BackfilledFrom,
    parameters: Parameters = None,
    until: BackfilledTo = "0s",
    which: Annotated[
        str, typer.Option(help="missing: those that never ran; failed: also those that ended badly; all.")
    ] = "missing",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the moments.")] = False,
    output: Output = Format.TABLE,
    wait: Wait = False,
    timeout: Timeout = 3600,
) -> None:
    """Run the past moments of a job's timer, one after the other, behind all else that waits.

    Example: punctual jobs backfill nightly --since 2d --dry-run
    """
    span = read_span(since, until)
    body = span | {"which": which, "dryRun": dry_run}
    if parameters:
        body["params"] = read_pairs(parameters)
    path = path_of("job", job_id)
    found = api.send("POST", f"{path}/backfill", body=body)
    if output is not Format.TABLE:
        show_as(found, output, RowsPage(MOMENTS, ""))
    else:
        _show_backfilled(found, is_planned=dry_run)
    if wait and found["items"] and not dry_run:
        _await_backfilled(api, f"{path}/executions", found["items"], timeout)


app.command("next", page=job_queries.show_coming)(job_queries.next_firings)
app.command("firings", page=job_queries.FIRED)(job_queries.list_firings)
app.command("revisions", page=job_queries.CHANGED)(job_queries.list_revisions)
app.command("stats", page=show_days)(read_job_days)
app.command("bulk")(bulk_jobs)
app.command("retry-plan", page=job_queries.show_plan)(job_queries.plan_retries)


def _show_started(
    connection: ApiConnection, started: dict[str, Any], job_id: str, timeout: float | None, output: Format
) -> None:
    """Shows the execution that was started; its end, where that is waited for (`timeout` in seconds)."""
    if timeout is not None:
        show_end(connection, started["executionId"], timeout, output)
    elif output is Format.TABLE:
        show_fields([("execution", f"{job_id}#{started['executeNumber']}"), *started.items()])
    else:
        show(started, output)


def _describe_ended(connection: ApiConnection, job_id: str, seen: set[str]) -> list[str]:
    """A line for each execution that has ended and is not in `seen`; at first for the newest ones."""
    limit = 50 if seen else WATCH_BACKLOG
    items = connection.get(f"{path_of('job', job_id)}/executions", limit=limit)["items"]
    new = [item for item in reversed(items) if item["endedAt"] and item["executionId"] not in seen]
    seen.update(item["executionId"] for item in new)
    return [_describe_end(item) for item in new]


def _describe_end(execution: dict[str, Any]) -> str:
    cause = execution["error"] or execution["reason"] or ""
    parts = (moment_text(execution["endedAt"]), f"#{execution['executeNumber']}", execution["state"], cause)
    return "  ".join(map(text_of, parts)).rstrip()


def _read_pruning(labels: list[str], *, prune: bool) -> list[str]:
    """The labels of what may be destroyed; none: nothing may. Raises CommandError."""
    if prune != bool(labels):
        text = "--prune needs --label NAME:VALUE, which the jobs that it may destroy have"
        raise CommandError(text if prune else "--label belongs to --prune", Exit.USAGE)
    for label in labels:
        if not all(label.partition(":")):
            raise CommandError(f"--label {label!r} is not NAME:VALUE", Exit.USAGE)
    return labels


def _plan(
    connection: ApiConnection, found: "list[DefinitionInFile]", labels: list[str], *, allow_empty: bool
) -> "list[PlannedChange]":
    """What applying these would do, and what it would destroy. Raises CommandError."""
    from scheduler_service.cli import applying

    if not labels:
        return applying.plan_changes(connection, found)
    if not allow_empty:
        applying.refuse_nothing_to_keep(found)
    applying.warn_of_labels(found, labels)
    return applying.plan_changes(connection, found) + applying.plan_pruning(connection, found, labels)


def _show_backfilled(found: dict[str, Any], *, is_planned: bool) -> None:
    state = "would run" if is_planned else "runs"
    items = [*({**one, "state": state} for one in found["items"]), *found["left"]]
    items.sort(key=lambda row: str(row["plannedAt"]))
    show_as({"items": items, "nextCursor": None}, Format.TABLE, RowsPage(MOMENTS, "no moment in this range"))
    note(f"{len(found['items'])} of {len(items)} moments {'would run' if is_planned else 'run'}")


def _await_backfilled(api: ApiConnection, path: str, items: list[dict[str, Any]], timeout: float) -> None:
    """Waits until the executions have ended, and tells how many. Raises CommandError: timed out, or one ended
    badly.
    """
    deadline, left, bad = time.monotonic() + timeout, {one["executionId"] for one in items}, 0
    span = {"from": items[0]["plannedAt"], "to": items[-1]["plannedAt"], "triggeredBy": "backfill"}
    told = -1
    while left:
        for execution in api.items(path, **span):
            if execution["executionId"] in left and execution["endedAt"] is not None:
                left.discard(execution["executionId"])
                bad += execution["state"] != "succeeded"
        if (ended := len(items) - len(left)) != told and sys.stderr.isatty():
            told = ended
            note(f"{ended} of {len(items)} have ended, {bad} badly")
        if left and time.monotonic() >= deadline:
            message = f"after {timeout:g} s {len(left)} of {len(items)} executions have not ended"
            raise CommandError(message, Exit.TIMED_OUT)
        if left:
            time.sleep(min(BACKFILL_POLL_SECONDS, max(deadline - time.monotonic(), 0)))
    if bad:
        raise CommandError(f"{bad} of {len(items)} executions did not succeed", Exit.FAILED)
    note(f"all {len(items)} succeeded")
