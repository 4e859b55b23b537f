"""`punctual queues …`: what waits in pull queues, and who holds what."""

from typing import Annotated, Any

import typer

from scheduler_service.cli.connection import connect
from scheduler_service.cli.execution_page import reference_by_id
from scheduler_service.cli.executions import find_id
from scheduler_service.cli.options import Commands, Cursor, Key, Limit, Output, Url, quote_argument
from scheduler_service.cli.output import (
    Column,
    Format,
    at,
    moment_text,
    note,
    show,
    show_fields,
    show_page,
    total_text,
)

app = Commands(
    no_args_is_help=True, help="What waits in pull queues, and who holds what; pause and resume them."
)
Name = Annotated[str, typer.Argument(help="The queue's name.", metavar="NAME")]


def _shard(row: Any) -> str | None:
    return None if row["shardIndex"] is None else f"{row['shardIndex']} of {row['shardTotal']}"


COLUMNS = (Column("name", free=True), "depth", at("oldestAt"), "held", at("pausedAt"))
HELD = (
    Column("execution", reference_by_id, free=True),
    Column("part", _shard),
    Column("instanceId", free=True),
    at("leaseUntil"),
    Column("executionId", spare=True),
)


@app.command("list")
def list_queues(
    url: Url = None, key: Key = None, output: Output = Format.TABLE, limit: Limit = 50, cursor: Cursor = None
) -> None:
    """List the queues in which parts wait or are held.

    Example: punctual queues list
    """
    page = connect(url, key).get("/queues", limit=limit, cursor=cursor)
    show_page(page, output, COLUMNS, empty="no queue holds anything; a step with queue://NAME fills one")


@app.command("count")
def count_parts(url: Url = None, key: Key = None, output: Output = Format.TABLE) -> None:
    """Count the parts that wait and those that are held, in all queues together.

    Example: punctual queues count
    """
    found = connect(url, key).get("/counts/queues")
    if output is not Format.TABLE:
        show(found, output)
        return
    oldest = moment_text(found["oldestAt"])
    fields = [("queues", total_text(found["queues"])), ("waiting", found["waiting"]), ("oldest", oldest)]
    show_fields([*fields, ("held", found["held"])])


@app.command("free")
def free_part(
    name: Name,
    execution: Annotated[
        str, typer.Argument(help="The execution: JOB_ID#NUMBER, or its executionId.", metavar="EXECUTION")
    ],
    requests: Annotated[int, typer.Option("--request-counts", help="The attempt.", min=1)],
    step: Annotated[int, typer.Option(help="The step, from 0.", min=0)] = 0,
    shard: Annotated[int, typer.Option(help="The part, from 0.", min=0)] = 0,
    url: Url = None,
    key: Key = None,
) -> None:
    """Take a part from the instance that holds it, so that others may claim it.

    Example: punctual queues free images resize#1 --request-counts 1
    """
    connection = connect(url, key)
    part = {
        "executionId": find_id(connection, execution),
        "requestCounts": requests,
        "step": step,
        "shardIndex": shard,
    }
    connection.send("POST", f"{_path(name)}/free", body=part)
    note(f"the part of {execution} is free again")


@app.command("pause")
def pause_queue(name: Name, url: Url = None, key: Key = None) -> None:
    """Let nothing be claimed from a queue; what waits keeps its place, and what is held goes on.

    Example: punctual queues pause images
    """
    connect(url, key).send("POST", f"{_path(name)}/pause")
    note(f"nothing is claimed from the queue {name} until: punctual queues resume {name}")


@app.command("resume")
def resume_queue(name: Name, url: Url = None, key: Key = None) -> None:
    """Let what waits in a queue be claimed again.

    Example: punctual queues resume images
    """
    found = connect(url, key).send("POST", f"{_path(name)}/resume")
    note(f"the queue {name} goes on with {found['depth']} waiting")


@app.command("get")
def get_queue(
    name: Name,
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """Show how many parts wait in a queue, and who holds the others until when.

    Example: punctual queues get images
    """
    queue = connect(url, key).get(_path(name), limit=limit, cursor=cursor)
    if output is not Format.TABLE:
        show(queue, output)
        return
    oldest = moment_text(queue["oldestAt"])
    fields = [("depth", queue["depth"]), ("oldestAt", oldest), ("held", queue["held"])]
    paused = [("pausedAt", moment_text(queue["pausedAt"]))] if queue.get("paused") else []
    show_fields([*fields, *paused])
    if queue["items"]:
        print()
    show_page(queue, output, HELD, empty="no part is held")


def _path(name: str) -> str:
    return f"/queues/{quote_argument('queue', 'NAME', name)}"
