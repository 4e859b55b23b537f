"""`punctual executions count` and `series`: how many executions there are, by state, error and time."""

from typing import Annotated, Any

import typer

from scheduler_service.cli.connection import connect
from scheduler_service.cli.options import Key, Output, Since, Until, Url, read_ago, read_seconds
from scheduler_service.cli.output import (
    Column,
    Format,
    at,
    counts_text,
    length_text,
    note,
    show,
    show_fields,
    show_rows,
    total_text,
)

Job = Annotated[str | None, typer.Option(help="Only of this job.")]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", help="Only of jobs with this label, KEY:VALUE; may be given again."),
]
Outcome = Annotated[
    str | None, typer.Option(help="Only those that ended so: succeeded, failed, cancelled, skipped.")
]
ERRORS = (
    Column("error", free=True),
    "failureType",
    "count",
    "jobs",
    at("latestAt"),
    Column("latestExecutionId", spare=True),
)


def count_executions(
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
    job: Job = None,
    label: Labels = None,
    outcome: Outcome = None,
    error: Annotated[str | None, typer.Option(help="Only with this error code.")] = None,
    since: Since = None,
    until: Until = None,
) -> None:
    """Count executions by state and by error, of the newest 10,000 and of 10,000 that did not succeed.

    Example: punctual executions count --since 24h
    """
    span = {"from": read_ago(since), "to": read_ago(until)}
    filters = {"jobId": job, "label": label or None, "outcome": outcome, "error": error, **span}
    found = connect(url, key).get("/counts/executions", **filters)
    if output is not Format.TABLE:
        show(found, output)
        return
    show_fields([("executions", total_text(found["total"])), ("state", counts_text(found["byState"]))])
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


def show_series(
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
    job: Job = None,
    label: Labels = None,
    outcome: Outcome = None,
    since: Since = None,
    until: Until = None,
    bucket: Annotated[
        str | None, typer.Option(help="The width of a bucket, a multiple of 5m.", metavar="DURATION")
    ] = None,
) -> None:
    """Show executions by buckets of time, of a day by default; buckets without any are left out.

    Example: punctual executions series --since 6h --bucket 30m
    """
    width = None if bucket is None else round(read_seconds(bucket))
    span: dict[str, Any] = {"from": read_ago(since), "to": read_ago(until), "bucketSeconds": width}
    filters = {"jobId": job, "label": label or None, "outcome": outcome, **span}
    found = connect(url, key).get("/series/executions", **filters)
    if output is not Format.TABLE:
        show(found, output)
        return
    if filled := [one for one in found["buckets"] if one["byState"]]:
        show_rows(filled, BUCKETS)
    else:
        note("no executions in this time")
    if found["isCapped"]:
        note(f"there are more: what was planned before {found['examinedFrom']} was not looked at")
