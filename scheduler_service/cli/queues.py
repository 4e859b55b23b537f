"""`punctual queues …`: what waits in pull queues, and who holds what."""

from typing import Annotated, Any

import typer

from scheduler_service.cli.job_pages import reference_by_id
from scheduler_service.cli.options import Commands, Cursor, ExecutionId, Limit, path_of
from scheduler_service.cli.output import (
    Column,
    FieldsPage,
    RowsPage,
    at,
    note,
    total,
)
from scheduler_service.cli.service_connection import ApiConnection

app = Commands(
    no_args_is_help=True, help="What waits in pull queues, and who holds what; pause and resume them."
)
Name = Annotated[str, typer.Argument(help="The queue's name.", metavar="NAME")]


def _shard(row: Any) -> str | None:
    return None if row["shardIndex"] is None else f"{row['shardIndex']} of {row['shardTotal']}"


def _show_queue(queue: dict[str, Any]) -> None:
    FieldsPage(("depth", at("oldestAt"), "held", at("pausedAt")))(queue)
    if queue["items"]:
        print()
    RowsPage(HELD, "no part is held")(queue)


COLUMNS = (Column("name", free=True), "depth", at("oldestAt"), "held", at("pausedAt"))
COUNTS = FieldsPage((total("queues", "queues"), "waiting", at("oldestAt", "oldest"), "held"))
HELD = (
    Column("execution", reference_by_id, free=True),
    Column("part", _shard),
    Column("instanceId", free=True),
    at("leaseUntil"),
    Column("executionId", spare=True),
)


@app.command("list", page=RowsPage(COLUMNS, "no queue holds anything; a step with queue://NAME fills one"))
def list_queues(api: ApiConnection, limit: Limit = 50, cursor: Cursor = None) -> Any:
    """List the queues in which parts wait or are held.

    Example: punctual queues list
    """
    return api.get("/queues", limit=limit, cursor=cursor)


@app.command("count", page=COUNTS)
def count_parts(api: ApiConnection) -> Any:
    """Count the parts that wait and those that are held, in all queues together.

    Example: punctual queues count
    """
    return api.get("/counts/queues")


@app.command("free")
def free_part(
    api: ApiConnection,
    name: Name,
    execution: ExecutionId,
    requests: Annotated[int, typer.Option("--request-counts", help="The attempt.", min=1)],
    step: Annotated[int, typer.Option(help="The step, from 0.", min=0)] = 0,
    shard: Annotated[int, typer.Option(help="The part, from 0.", min=0)] = 0,
) -> None:
    """Take a part from the instance that holds it, so that others may claim it.

    Example: punctual queues free images resize#1 --request-counts 1
    """
    part = {
        "executionId": execution,
        "requestCounts": requests,
        "step": step,
        "shardIndex": shard,
    }
    api.send("POST", f"{path_of('queue', name)}/free", body=part)
    note(f"the part of {execution} is free again")


@app.command("pause")
def pause_queue(api: ApiConnection, name: Name) -> None:
    """Let nothing be claimed from a queue; what waits keeps its place, and what is held goes on.

    Example: punctual queues pause images
    """
    api.send("POST", f"{path_of('queue', name)}/pause")
    note(f"nothing is claimed from the queue {name} until: punctual queues resume {name}")


@app.command("resume")
def resume_queue(api: ApiConnection, name: Name) -> None:
    """Let what waits in a queue be claimed again.

    Example: punctual queues resume images
    """
    found = api.send("POST", f"{path_of('queue', name)}/resume")
    note(f"the queue {name} goes on with {found['depth']} waiting")


@app.command("get", page=_show_queue)
def get_queue(api: ApiConnection, name: Name, limit: Limit = 50, cursor: Cursor = None) -> Any:
    """Show how many parts wait in a queue, and who holds the others until when.

    Example: punctual queues get images
    """
    return api.get(path_of("queue", name), limit=limit, cursor=cursor)
