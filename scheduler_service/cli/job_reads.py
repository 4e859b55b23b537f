"""The commands of `punctual jobs` that show jobs, their firings, revisions and retries."""

from typing import Annotated, Any

import typer

from scheduler_service.cli.connection import connect
from scheduler_service.cli.job_page import show_job
from scheduler_service.cli.options import (
    Cursor,
    Key,
    Limit,
    Output,
    Since,
    Until,
    Url,
    quote_argument,
    read_ago,
)
from scheduler_service.cli.output import (
    Column,
    Format,
    at,
    counts_text,
    length_text,
    note,
    show,
    show_fields,
    show_page,
    show_rows,
    total_text,
)

JobId = Annotated[str, typer.Argument(help="The job's id.", metavar="JOB_ID")]
Text = Annotated[str | None, typer.Option(help="Part of an id, a name, a creator or a label's value.")]
Labels = Annotated[
    list[str] | None, typer.Option("--label", help="Only with this label, KEY:VALUE; may be given again.")
]
LastOutcome = Annotated[
    str | None,
    typer.Option(
        help="Only those whose newest execution is succeeded, terminated, cancelled, skipped, running, "
        "waiting, or none."
    ),
]
LATEST_EXECUTIONS = 5
FIRINGS = (at("utc"), at("local"), Column("note", free=True))
REVISIONS = ("revision", at("createdAt"), Column("definition", lambda row: row["definition"], free=True))
RETRIES = (
    "retry",
    Column("policy", lambda row: f"retry[{row['policy']}]"),
    Column("wait", lambda row: length_text(row["waitMs"])),
    Column("after", lambda row: length_text(row["afterMs"])),
    "jitter",
)
ENDS = {
    "policy_spent": "the policy is spent",
    "limit": "maxRetries is reached",
    "no_policy": "no policy of retry matches",
    "never_retried": "this error is never retried",
}
SIGNS = {"succeeded": ".", "terminated": "x", "cancelled": "c", "skipped": "s"}
LIVE = ">"
LEGEND = "the newest is the last: . succeeded, x terminated, c cancelled, s skipped, > has not ended"


def describe_latest(job: Any) -> str | None:
    """`succeeded`, `terminated 500`: the outcome of the job's latest execution."""
    latest = job["latestExecution"]
    return None if latest is None else f"{latest['state']} {latest['error'] or ''}".rstrip()


def describe_state(job: Any) -> str:
    """`active`, `paused (disabled)`, `active (cannot run)`."""
    marks = ("disabled" if job.get("disabled") else "", "cannot run" if job.get("cannotRun") else "")
    return f"{job['state']} ({', '.join(filter(None, marks))})" if any(marks) else str(job["state"])


JOBS = (
    Column("jobId", free=True),
    Column("jobName", free=True),
    Column("state", describe_state),
    Column("kind", spare=True),
    at("nextFireTime"),
    Column("latest", describe_latest),
    Column("executeNumber", spare=True),
    Column("revision", spare=True),
)
LEDGER = (
    at("plannedAt"),
    at("until", spare=True),
    Column("count", spare=True),
    "outcome",
    Column("reason", free=True),
    Column("execution", lambda row: _number_in(row["executionId"])),
    Column("state", lambda row: row.get("state")),
)


def list_jobs(
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
    limit: Limit = 50,
    cursor: Cursor = None,
    state: Annotated[str | None, typer.Option(help="active, paused or finished.")] = None,
    text: Text = None,
    label: Labels = None,
    last_outcome: LastOutcome = None,
    system: Annotated[bool, typer.Option("--system", help="List the system's own jobs instead.")] = False,
) -> None:
    """List jobs.

    Example: punctual jobs list --state active
    """
    filters = {"state": state, "text": text, "label": label or None, "lastOutcome": last_outcome}
    query = {**filters, "limit": limit, "cursor": cursor, "system": "true" if system else None}
    page = connect(url, key).get("/jobs", timers="true", **query)
    has_filters = any(filters.values())
    empty = "no jobs match" if has_filters else "no jobs; create one with 'punctual jobs create -f FILE'"
    show_page(page, output, JOBS, empty=empty)


def count_jobs(
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
    state: Annotated[str | None, typer.Option(help="Only active, paused, finished or destroyed.")] = None,
    text: Text = None,
    label: Labels = None,
    last_outcome: LastOutcome = None,
) -> None:
    """Count jobs by state, kind and what their newest execution came to.

    Example: punctual jobs count --label team:ops
    """
    filters = {"state": state, "text": text, "label": label or None, "lastOutcome": last_outcome}
    found = connect(url, key).get("/counts/jobs", **filters)
    if output is not Format.TABLE:
        show(found, output)
        return
    kinds = (("state", "byState"), ("kind", "byKind"), ("last outcome", "byLastOutcome"))
    counted = ((name, counts_text(found[member])) for name, member in kinds)
    show_fields([("jobs", total_text(found["total"])), *counted])


def get_job(job_id: JobId, url: Url = None, key: Key = None, output: Output = Format.TABLE) -> None:
    """Show a job: its timer as text, its next firing, its latest executions.

    Example: punctual jobs get nightly
    """
    connection, path = connect(url, key), path_of(job_id)
    job = connection.get(path)
    if output is not Format.TABLE:
        show(job, output)
        return
    latest = connection.get(f"{path}/executions", limit=LATEST_EXECUTIONS)["items"]
    show_job(job, preview=connection.get(f"{path}/next", count=1), executions=latest)


def next_firings(
    job_id: JobId,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 10,
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
) -> None:
    """Show a job's next firings.

    Example: punctual jobs next nightly --count 3
    """
    show_coming(connect(url, key).get(f"{path_of(job_id)}/next", count=count), output)


def list_firings(
    job_id: JobId,
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
    limit: Limit = 50,
    cursor: Cursor = None,
    since: Since = None,
    until: Until = None,
) -> None:
    """Show what became of a job's planned firings, the newest first: fired, late or skipped.

    Example: punctual jobs firings nightly --since 7d
    """
    query = {"from": read_ago(since), "to": read_ago(until), "limit": limit, "cursor": cursor}
    page = connect(url, key).get(f"{path_of(job_id)}/firings", **query)
    show_page(page, output, LEDGER, empty="no planned firing yet; triggers are executions alone")


def list_revisions(
    job_id: JobId,
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """Show a job's definitions as they were, the oldest first.

    Example: punctual jobs revisions nightly
    """
    page = connect(url, key).get(f"{path_of(job_id)}/revisions", limit=limit, cursor=cursor)
    show_page(page, output, REVISIONS, empty="no revisions")


def show_retry_plan(
    job_id: JobId,
    error: Annotated[str, typer.Option(help="The code with which every attempt fails.")] = "500",
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
) -> None:
    """Show the retries of an execution that fails with one error every time.

    Example: punctual jobs retry-plan nightly --error timeout
    """
    plan = connect(url, key).get(f"{path_of(job_id)}/retry-plan", error=error)
    if output is not Format.TABLE:
        show(plan, output)
        return
    if plan["items"]:
        show_rows(plan["items"], RETRIES)
    number = len(plan["items"]) or "no"
    end = "" if plan["reason"] is None else f"; then {ENDS.get(plan['reason'], plan['reason'])}"
    note(f"{number} retries after the error {plan['error']}{end}")


def show_coming(preview: dict[str, Any], output: Format) -> None:
    """Prints the next firings of a timer."""
    if output is not Format.TABLE:
        show(preview, output)
    elif preview["firings"]:
        show_rows(preview["firings"], FIRINGS)
    else:
        note("no further firing")


def path_of(job_id: str) -> str:
    """The path of a job."""
    return f"/jobs/{quote_argument('job', 'JOB_ID', job_id)}"


def _number_in(execution_id: str | None) -> str | None:
    return None if execution_id is None else f"#{execution_id.rpartition('-')[2]}"


def _signs(row: Any) -> str | None:
    return "".join(SIGNS.get(run["state"], LIVE) for run in row["executions"]) or None


def _latest(row: Any) -> str | None:
    runs = row["executions"]
    return f"{runs[-1]['state']} {runs[-1]['error'] or ''}".rstrip() if runs else None


COLUMNS = (Column("jobId", free=True), Column("outcomes", _signs), Column("latest", _latest))


def show_outcomes(
    job_ids: Annotated[list[str], typer.Argument(help="The jobs, 100 at most.", metavar="JOB_ID...")],
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
    count: Annotated[int, typer.Option(min=1, max=50, help="So many of each, at most.")] = 20,
) -> None:
    """Show the latest executions of jobs as a row of signs, the newest last.

    Example: punctual jobs outcomes nightly
    """
    found = connect(url, key).get("/outcomes", jobId=job_ids, count=count)
    if output is not Format.TABLE:
        show(found, output)
        return
    show_rows(found["items"], COLUMNS)
    note(LEGEND)
