"""The statistics per day as a person reads them; `punctual stats` and `punctual jobs stats`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from scheduler_service.cli.connection import ApiConnection
from scheduler_service.cli.job_reads import JobId, path_of
from scheduler_service.cli.output import Column, Row, length_text, note, show_rows

FirstDay = Annotated[
    str | None,
    typer.Option("--from", help="From this day (UTC) on; default: a week in all.", metavar="YYYY-MM-DD"),
]
LastDay = Annotated[
    str | None,
    typer.Option("--to", help="Up to this day, included; default: today.", metavar="YYYY-MM-DD"),
]


def _outcome(name: str, state: str) -> Column:
    return Column(name, lambda row: row["byOutcome"][state], spare=name in ("cancelled", "skipped"))


def _length(name: str, kind: str, member: str) -> Column:
    return Column(name, lambda row: length_text(row[kind][member]), spare=member == "p50")


DAY_OPTIONS = {"/from": "--from", "/to": "--to"}
"""Elsewhere these parameters are the moments of --since and --until."""

DAYS = (
    "day",
    "executions",
    _outcome("succeeded", "succeeded"),
    _outcome("failed", "terminated"),
    _outcome("cancelled", "cancelled"),
    _outcome("skipped", "skipped"),
    Column("attempts", spare=True),
    _length("late p50", "lateness", "p50"),
    _length("late p99", "lateness", "p99"),
    _length("took p50", "duration", "p50"),
    _length("took p99", "duration", "p99"),
)
FAILING = (
    Column("jobId", free=True),
    "executions",
    "failed",
    Column("share", lambda row: f"{row['failedShare']:.1%}"),
)
SLOWEST = (
    Column("jobId", free=True),
    "executions",
    Column("mean", lambda row: length_text(row["meanMs"])),
)


def read_job_days(api: ApiConnection, job_id: JobId, first: FirstDay = None, last: LastDay = None) -> Any:
    """Show the outcomes, lateness and durations of a job by day, also of days whose executions are gone.

    Example: punctual jobs stats nightly --from 2026-01-01 --to 2026-01-31
    """
    query = {"from": first, "to": last}
    return get_days(api, f"{path_of(job_id)}/statistics", query)


def get_days(api: ApiConnection, path: str, query: dict[str, Any]) -> Any:
    """The statistics by day. Raises CommandError, in which a day has the name of its option."""
    return api.exchange("GET", path, query=query, options=DAY_OPTIONS).data


def show_days(found: Mapping[str, Any]) -> None:
    """Prints the days and their sum, what failed, and the jobs that stand out."""
    if not found["days"]:
        note(f"no execution of {found['from']} to {found['to']} has ended")
        return
    show_rows([*found["days"], {**found["total"], "day": "total"}], DAYS)
    failures = found["total"]["byFailureType"]
    if failures:
        print("failed by: " + ", ".join(f"{kind} {number}" for kind, number in failures.items()))
    _show_top("most failed:", found.get("failing"), FAILING)
    _show_top("slowest:", found.get("slowest"), SLOWEST)


def _show_top(heading: str, rows: list[Row] | None, columns: tuple[str | Column, ...]) -> None:
    if rows:
        print(f"\n{heading}")
        show_rows(rows, columns, indent=2)
