"""`punctual nodes`, `stats`, `upcoming` and `alerts`: the scheduler as a whole; the page of statistics."""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from scheduler_service.cli.job_queries import JobId
from scheduler_service.cli.options import Cursor, Limit, Output, SomeJobs, path_of, read_ahead, read_seconds
from scheduler_service.cli.output import (
    Column,
    Format,
    Row,
    RowsPage,
    at,
    length_text,
    note,
    show_as,
    show_fields,
    show_rows,
    text_of,
    total_text,
)
from scheduler_service.cli.service_connection import ApiConnection

FirstDay = Annotated[
    str | None,
    typer.Option("--from", help="From this day (UTC) on; default: a week in all.", metavar="YYYY-MM-DD"),
]
LastDay = Annotated[
    str | None,
    typer.Option("--to", help="Up to this day, included; default: today.", metavar="YYYY-MM-DD"),
]
DAY_OPTIONS = {"/from": "--from", "/to": "--to"}
"""Elsewhere these parameters are the moments of --since and --until."""
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
PROCESSES = (
    "shard",
    "pid",
    "state",
    at("startedAt"),
    "jobsHeld",
    "running",
    Column("loop held", lambda row: length_text(row["loopHeldMs"])),
)
PLANNED = (
    at("plannedAt"),
    Column("jobId", free=True),
    Column("jobName", free=True),
    Column("kind", spare=True),
)
LAST_MINUTES = 5
CONFIGURED = (
    Column("name", free=True),
    Column("on", lambda row: ", ".join(row["on"]), free=True),
    Column("url", free=True),
    Column("format", spare=True),
    Column("minIntervalSeconds", spare=True),
    Column("trouble", free=True, spare=True),
)
OPEN = (
    at("since"),
    Column("alert", free=True),
    "kind",
    Column("subject", free=True),
    at("saidAt"),
    Column("executionId", spare=True),
)


def _outcome(name: str, state: str) -> Column:
    return Column(name, lambda row: row["byOutcome"][state], spare=name in ("cancelled", "skipped"))


def _length(name: str, kind: str, member: str) -> Column:
    return Column(name, lambda row: length_text(row[kind][member]), spare=member == "p50")


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


def read_job_days(api: ApiConnection, job_id: JobId, first: FirstDay = None, last: LastDay = None) -> Any:
    """Show the outcomes, lateness and durations of a job by day, also of days whose executions are gone.

    Example: punctual jobs stats nightly --from 2026-01-01 --to 2026-01-31
    """
    query = {"from": first, "to": last}
    return get_days(api, f"{path_of('job', job_id)}/statistics", query)


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


NODES = (
    Column("nodeId", free=True),
    "state",
    Column("address", free=True),
    Column("version", spare=True),
    Column("formats", lambda row: names_text(row.get("formats", {})), spare=True),
    "jobsHeld",
    "running",
    at("startedAt", spare=True),
    at("lastHeartbeat"),
)


def list_nodes(api: ApiConnection) -> Any:
    """List the scheduler's nodes with their state and load, their processes, versions and formats.

    Example: punctual nodes
    """
    return api.get("/nodes")


def show_nodes(page: dict[str, Any]) -> None:
    """Prints the nodes, and what is inside of each."""
    RowsPage(NODES, "no nodes")(page)
    for node in page["items"]:
        _show_inside(node)


def _show_inside(node: dict[str, Any]) -> None:
    """The processes of a node, and what it stands on; of other nodes of a cluster that is not known."""
    processes, versions = node.get("processes", []), node.get("versions", {})
    if processes:
        print(f"\nprocesses of {text_of(node['nodeId'])}:")
        show_rows(processes, PROCESSES, indent=2)
        print("  versions: " + text_of(names_text(versions)))
        print("  formats: " + text_of(names_text(node.get("formats", {}))))


def names_text(values: Mapping[str, str]) -> str:
    """Versions or formats by the names of what has them, in a line."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


def list_upcoming(
    api: ApiConnection,
    output: Output = Format.TABLE,
    limit: Limit = 50,
    cursor: Cursor = None,
    within: Annotated[
        str | None,
        typer.Option(help="Up to here: a time from now, as 2h, or a moment; default 1d.", metavar="MOMENT"),
    ] = None,
    job: SomeJobs = None,
    per_job: Annotated[
        int | None, typer.Option(help="How many firings of a job at most; default: all.", min=1, max=1000)
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="Count them by spans of this length instead, as 1h.", metavar="DURATION"),
    ] = None,
) -> None:
    """List the planned firings of all jobs, the soonest first; --per-job 1 shows each job once.

    Example: punctual upcoming --within 2h --per-job 1

    Example: punctual upcoming --within 6h --by 30m
    """
    if by is not None:
        if job or per_job or cursor:
            raise typer.BadParameter(
                "--by counts the firings of all jobs; leave --job, --per-job, --cursor out"
            )
        show_as(_count_upcoming(api, within or "1d", by), output, _show_counts)
        return
    query = {"to": read_ahead(within), "jobId": job or None, "perJob": per_job}
    page = api.get("/upcoming", **query, limit=limit, cursor=cursor)
    show_as(page, output, RowsPage(PLANNED, "nothing is planned within this time"))


def _count_upcoming(api: ApiConnection, within: str, by: str) -> Any:
    """How many firings there are in each span; of many jobs only the next one is counted.

    Spans begin at full ones, the first before now: with one more, all of the time is in them.
    """
    width = round(read_seconds(by))
    buckets = math.ceil(read_seconds(within) / max(width, 1)) + 1
    return api.get("/counts/upcoming", bucketSeconds=width, buckets=buckets)


def _show_counts(found: dict[str, Any]) -> None:
    width, begin = found["bucketSeconds"], datetime.fromisoformat(found["from"])
    spans = enumerate(found["counts"])
    rows = [{"from": _utc(begin + timedelta(seconds=width * at)), "firings": one} for at, one in spans if one]
    if rows:
        show_rows(rows, (at("from"), "firings"))
    note(f"{total_text(found['total'])} firings are planned in this time")


def _utc(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def show_statistics(
    api: ApiConnection,
    output: Output = Format.TABLE,
    daily: Annotated[bool, typer.Option("--daily", help="By day, instead of the last hour.")] = False,
    first: FirstDay = None,
    last: LastDay = None,
    job: Annotated[str | None, typer.Option(help="By day, only of this job.", metavar="JOB_ID")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="By day, only of jobs with this label, KEY:VALUE; may be given again."),
    ] = None,
) -> None:
    """Show what is due and running now and the last hour; with --daily or a day, outcomes by day.

    Example: punctual stats

    Example: punctual stats --from 2026-01-01 --to 2026-01-31 --label team:ops
    """
    query = {"from": first, "to": last, "jobId": job, "label": label or None}
    if daily or any(query.values()):
        show_as(get_days(api, "/statistics", query), output, show_days)
    else:
        show_as(api.get("/stats"), output, _show_present)


def _show_present(found: dict[str, Any]) -> None:
    lateness = found["lateness"]
    recent = found["perMinute"][-LAST_MINUTES:]
    show_fields(
        (
            ("jobs", _count(found.get("jobs", {}))),
            ("due now", found["due"]),
            ("waiting", found["waiting"]),
            ("running", found["running"]),
            ("last hour", _count(found["byState"])),
            ("lateness", ", ".join(f"{name} {length_text(lateness[name]) or '-'}" for name in lateness)),
            (f"last {LAST_MINUTES} min", _describe(recent)),
        )
    )


def _count(numbers: dict[str, int]) -> str:
    return ", ".join(f"{number} {state}" for state, number in numbers.items() if number) or "none"


def _describe(minutes: list[dict[str, Any]]) -> str:
    """Executions a minute, the oldest minute first."""
    return ", ".join(str(minute["total"]) for minute in minutes) + " executions a minute"


def list_alerts(api: ApiConnection) -> Any:
    """List the alerts of the settings, and what of them is open.

    Example: punctual alerts
    """
    return api.get("/alerts")


def show_alerts(data: dict[str, Any]) -> None:
    """Prints the alerts, and what of them is open."""
    RowsPage(CONFIGURED, "no alerts; the setting alerts has them")({"items": data["configured"]})
    if data["configured"]:
        print()
        RowsPage(OPEN, "nothing is open")({"items": data["open"]})
    more = data["openCount"] - len(data["open"])
    if more > 0:
        note(f"and {more} more")
