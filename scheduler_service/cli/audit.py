"""`punctual audit`: who changed what, from where and with which key."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from scheduler_service.cli.options import Cursor, Job, Limit, Since, Until, read_span
from scheduler_service.cli.output import Column, Row, RowsPage, at
from scheduler_service.cli.service_connection import ApiConnection

POLL_SECONDS = 2.0
LATE = timedelta(seconds=10)
"""So much later than its moment a line may be in the audit, or have its outcome."""


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
    follow: Annotated[
        bool, typer.Option("--follow", help="Then print what is changed as it happens; stop with Ctrl-C.")
    ] = False,
) -> Any:
    """List what was changed, the newest first: by whom, from where, and the difference.

    Example: punctual audit --since 24h --operation updateJob
    """
    wanted = {"who": who, "key": with_key, "operation": operation, "jobId": job, "service": service}

    def read(**more: Any) -> Mapping[str, Any]:
        found: Mapping[str, Any] = api.get("/audit", **{**wanted, "limit": limit, **more})
        return found

    first = read(cursor=cursor, **read_span(since, until))
    return following_audit(first, read) if follow else first


def following_audit(
    page: Mapping[str, Any],
    read: Callable[..., Mapping[str, Any]],
    *,
    rest: Callable[[float], None] = time.sleep,
) -> Iterator[Mapping[str, Any]]:
    """`page`, then pages of what is new or has another outcome, the oldest first, until Ctrl-C.

    Raises CommandError.
    """
    yield page
    items = page["items"]
    known, newest = {(one["id"], one["outcome"]) for one in items}, items[0]["at"] if items else None
    with suppress(KeyboardInterrupt):
        while True:
            rest(POLL_SECONDS)
            items = _read_since(read, newest)
            fresh = [one for one in reversed(items) if (one["id"], one["outcome"]) not in known]
            if items:
                known, newest = {(one["id"], one["outcome"]) for one in items}, items[0]["at"]
            if fresh:
                yield {"items": fresh, "nextCursor": None}


def _read_since(read: Callable[..., Mapping[str, Any]], newest: str | None) -> list[Row]:
    """The lines from shortly before this moment on, the newest first; without one those of one page."""
    since = newest and (datetime.fromisoformat(newest) - LATE).isoformat()
    page = read(cursor=None, **{"from": since})
    items = list(page["items"])
    while since and page["nextCursor"]:
        page = read(cursor=page["nextCursor"], **{"from": since})
        items += page["items"]
    return items


PAGE = RowsPage(COLUMNS, "nothing was changed that fits")
