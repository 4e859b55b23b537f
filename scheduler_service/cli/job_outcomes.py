"""`punctual jobs outcomes`: the latest executions of jobs as a row of signs."""

from typing import Annotated, Any

import typer

from scheduler_service.cli.connection import connect
from scheduler_service.cli.options import Key, Output, Url
from scheduler_service.cli.output import Column, Format, note, show, show_rows

SIGNS = {"succeeded": ".", "terminated": "x", "cancelled": "c", "skipped": "s"}
LIVE = ">"
LEGEND = "the newest is the last: . succeeded, x terminated, c cancelled, s skipped, > has not ended"


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
