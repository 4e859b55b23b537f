"""`punctual deliveries …`: notifications on their way and in the outbox."""

from typing import Annotated, Any

import typer

from scheduler_service.cli.job_pages import last_try, reference_by_id
from scheduler_service.cli.options import Commands, Cursor, Job, Limit, Output, path_of
from scheduler_service.cli.output import (
    Column,
    FieldsPage,
    Format,
    RowsPage,
    at,
    counts,
    note,
    show_as,
    total,
)
from scheduler_service.cli.service_connection import ApiConnection

app = Commands(no_args_is_help=True, help="List notifications, send them again, or give them up.")
DeliveryId = Annotated[str, typer.Argument(help="The delivery's id.", metavar="DELIVERY_ID")]


COLUMNS = (
    Column("deliveryId"),
    Column("execution", reference_by_id, free=True),
    "event",
    "state",
    Column("last", last_try, free=True, spare=True),
    at("nextTryAt", spare=True),
    Column("tries", lambda row: len(row["attempts"]), spare=True),
    Column("url", free=True, spare=True),
)


State = Annotated[
    str | None, typer.Option(help="pending, delivered, failed, outbox, superseded or dismissed.")
]
Event = Annotated[str | None, typer.Option(help="Only of this event, as finalFailed.")]


@app.command("list")
def list_deliveries(
    api: ApiConnection,
    output: Output = Format.TABLE,
    limit: Limit = 50,
    cursor: Cursor = None,
    job: Job = None,
    state: State = None,
    event: Event = None,
) -> None:
    """List notifications, the newest first.

    Example: punctual deliveries list --state outbox
    """
    filters = {"jobId": job, "state": state, "event": event}
    page = api.get("/deliveries", **filters, limit=limit, cursor=cursor)
    has_filters = any(value is not None for value in filters.values())
    empty = "no deliveries match" if has_filters else "no deliveries; jobs with notification make them"
    show_as(page, output, RowsPage(COLUMNS, empty))


@app.command("count", page=FieldsPage((total("deliveries", "total"), counts("state", "byState"))))
def count_deliveries(api: ApiConnection, job: Job = None, state: State = None, event: Event = None) -> Any:
    """Count notifications by state, of the newest 10,000 and of 10,000 that were given up once.

    Example: punctual deliveries count --event finalFailed
    """
    filters = {"jobId": job, "state": state, "event": event}
    return api.get("/counts/deliveries", **filters)


@app.command("resend")
def resend(api: ApiConnection, delivery_id: DeliveryId) -> None:
    """Try a notification again now.

    Example: punctual deliveries resend DELIVERY_ID
    """
    api.send("POST", f"{path_of('delivery', delivery_id)}/resend", body={})
    note(f"{delivery_id} is tried again")


@app.command("dismiss")
def dismiss(api: ApiConnection, delivery_id: DeliveryId) -> None:
    """Give a notification up: it is not sent again.

    Example: punctual deliveries dismiss DELIVERY_ID
    """
    api.send("POST", f"{path_of('delivery', delivery_id)}/dismiss", body={})
    note(f"{delivery_id} is dismissed")
