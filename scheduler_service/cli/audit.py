"""`punctual audit`: who changed what, from where and with which key."""

from typing import Annotated, Any

import typer

from scheduler_service.cli.options import Cursor, Job, Limit, Since, Until, read_ago
from scheduler_service.cli.output import Column, Row, RowsPage, at
from scheduler_service.cli.service_connection import ApiConnection


def _by(row: Row) -> str:
    """Who it was; what the service does by itself is told apart from a key of that name."""
    return row["who"] or "(unknown)" if row["via"] == "api" else f"{row['who']} ({row['via']})"


def _what(row: Row) -> str:
    """Each place that changed, what was given, or how many things there were."""
    changed = [f"{one['pointer']}: {one['before']} -> {one['after']}" for one in row["difference"]]
    given = [f"{name}={value}" for name, value in row["given"].items()]
    several = [f"{len(row['items'])} items"] if row["items"] else []
    return "; ".join((*given, *several, *changed))


COLUMNS = (
    at("at"),
    Column("who", _by, free=True),
    Column("from", lambda row: row["address"], spare=True),
    "operation",
    Column("of", lambda row: f"{row['kind']} {row['subject']}".strip(), free=True),
    "outcome",
    Column("what", _what, free=True, spare=True),
    Column("keyId", spare=True),
)


def list_audit(
    api: ApiConnection,
    limit: Limit = 50,
    cursor: Cursor = None,
    who: Annotated[str | None, typer.Option(help="Only by this one: the name of a key, or system.")] = None,
    with_key: Annotated[str | None, typer.Option(help="Only with the key of this id.")] = None,
    operation: Annotated[str | None, typer.Option(help="Only by this operation, as updateJob.")] = None,
    job: Job = None,
    service: Annotated[str | None, typer.Option(help="Only of this service, or for it.")] = None,
    since: Since = None,
    until: Until = None,
) -> Any:
    """List what was changed, the newest first: by whom, from where, and the difference.

    Example: punctual audit --since 24h --operation updateJob
    """
    return api.get(
        "/audit",
        who=who,
        key=with_key,
        operation=operation,
        jobId=job,
        service=service,
        limit=limit,
        cursor=cursor,
        **{"from": read_ago(since), "to": read_ago(until)},
    )


PAGE = RowsPage(COLUMNS, "nothing was changed that fits")
