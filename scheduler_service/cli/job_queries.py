"""The commands of `punctual jobs` that show jobs, their firings, revisions and retries."""

from typing import Annotated, Any

import typer

from scheduler_service.cli.job_pages import show_job
from scheduler_service.cli.options import (
    Cursor,
    Labels,
    Limit,
    Output,
    Since,
    Until,
    path_of,
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

JobId = Annotated[str, typer.Argument(help="The job's id.", metavar="JOB_ID")]
Text = Annotated[str | None, typer.Option(help="Part of an id, a name, a creator or a label's value.")]
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
LEDGER = (
    at("plannedAt"),
    at("until", spare=True),
    Column("count", spare=True),
    "outcome",
    Column("reason", free=True),
    Column("execution", lambda row: _number_in(row["executionId"])),
    Column("state", lambda row: row.get("state")),
)
FIRED = RowsPage(LEDGER, "no planned firing yet; triggers are executions alone")
CHANGED = RowsPage(REVISIONS, "no revisions")
COUNTED = FieldsPage(
    (
        total("jobs", "total"),
        counts("state", "byState"),
        counts("kind", "byKind"),
        counts("last outcome", "byLastOutcome"),
    )
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


def list_jobs(
    api: ApiConnection,
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
    page = api.get("/jobs", timers="true", **query)
    has_filters = any(filters.values())
    empty = "no jobs match" if has_filters else "no jobs; create one with 'punctual jobs create -f FILE'"
    show_as(page, output, RowsPage(JOBS, empty))


def count_jobs(
    api: ApiConnection,
    state: Annotated[str | None, typer.Option(help="Only active, paused, finished or destroyed.")] = None,
    text: Text = None,
    label: Labels = None,
    last_outcome: LastOutcome = None,
) -> Any:
    """Count jobs by state, kind and what their newest execution came to.

    Example: punctual jobs count --label team:ops
    """
    filters = {"state": state, "text": text, "label": label or None, "lastOutcome": last_outcome}
    return api.get("/counts/jobs", **filters)


def get_job(api: ApiConnection, job_id: JobId, output: Output = Format.TABLE) -> None:
    """Show a job: its timer as text, its next firing, its latest executions.

    Example: punctual jobs get nightly
    """
    path = path_of("job", job_id)
    job = api.get(path)
    if output is not Format.TABLE:
        show(job, output)
        return
    latest = api.get(f"{path}/executions", limit=LATEST_EXECUTIONS)["items"]
    show_job(job, preview=api.get(f"{path}/next", count=1), executions=latest)


def next_firings(
    api: ApiConnection,
    job_id: JobId,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 10,
) -> Any:
    """Show a job's next firings.

    Example: punctual jobs next nightly --count 3
    """
    return api.get(f"{path_of('job', job_id)}/next", count=count)


def list_firings(
    api: ApiConnection,
    job_id: JobId,
    limit: Limit = 50,
    cursor: Cursor = None,
    since: Since = None,
    until: Until = None,
) -> Any:
    """Show what became of a job's planned firings, the newest first: fired, late or skipped.

    Example: punctual jobs firings nightly --since 7d
    """
    query = {**read_span(since, until), "limit": limit, "cursor": cursor}
    return api.get(f"{path_of('job', job_id)}/firings", **query)


def list_revisions(api: ApiConnection, job_id: JobId, limit: Limit = 50, cursor: Cursor = None) -> Any:
    """Show a job's definitions as they were, the oldest first.

    Example: punctual jobs revisions nightly
    """
    return api.get(f"{path_of('job', job_id)}/revisions", limit=limit, cursor=cursor)


def plan_retries(
    api: ApiConnection,
    job_id: JobId,
    error: Annotated[str, typer.Option(help="The code with which every attempt fails.")] = "500",
) -> Any:
    """Show the retries of an execution that fails with one error every time.

    Example: punctual jobs retry-plan nightly --error timeout
    """
    return api.get(f"{path_of('job', job_id)}/retry-plan", error=error)


def show_plan(plan: dict[str, Any]) -> None:
    """Prints the retries of a plan, and how they end."""
    if plan["items"]:
        show_rows(plan["items"], RETRIES)
    number = len(plan["items"]) or "no"
    end = "" if plan["reason"] is None else f"; then {ENDS.get(plan['reason'], plan['reason'])}"
    note(f"{number} retries after the error {plan['error']}{end}")


def show_coming(preview: dict[str, Any]) -> None:
    """Prints the next firings of a timer."""
    if preview["firings"]:
        show_rows(preview["firings"], FIRINGS)
    else:
        note("no further firing")


def _number_in(execution_id: str | None) -> str | None:
    return None if execution_id is None else f"#{execution_id.rpartition('-')[2]}"


def _signs(row: Any) -> str | None:
    return "".join(SIGNS.get(run["state"], LIVE) for run in row["executions"]) or None


def _latest(row: Any) -> str | None:
    runs = row["executions"]
    return f"{runs[-1]['state']} {runs[-1]['error'] or ''}".rstrip() if runs else None


OUTCOMES = (Column("jobId", free=True), Column("outcomes", _signs), Column("latest", _latest))


def list_outcomes(
    api: ApiConnection,
    job_ids: Annotated[list[str], typer.Argument(help="The jobs, 100 at most.", metavar="JOB_ID...")],
    count: Annotated[int, typer.Option(min=1, max=50, help="So many of each, at most.")] = 20,
) -> Any:
    """Show the latest executions of jobs as a row of signs, the newest last.

    Example: punctual jobs outcomes nightly
    """
    return api.get("/outcomes", jobId=job_ids, count=count)


def show_signs(found: dict[str, Any]) -> None:
    """Prints the latest executions of jobs as rows of signs."""
    show_rows(found["items"], OUTCOMES)
    note(LEGEND)
