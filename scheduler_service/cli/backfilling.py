"""`punctual jobs backfill`: runs past moments of a job's timer, and waits for them."""

import sys
import time
from typing import Annotated, Any

import typer

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.job_reads import JobId
from scheduler_service.cli.options import Output, Parameters, Timeout, Wait, path_of, read_ago, read_pairs
from scheduler_service.cli.output import Column, Format, RowsPage, at, note, show_as
from scheduler_service.cli.service_connection import ApiConnection

POLL_SECONDS = 1.0
MOMENTS = (
    at("plannedAt"),
    Column("execution", lambda row: "" if row["executeNumber"] is None else f"#{row['executeNumber']}"),
    Column("state"),
)
Begin = Annotated[
    str,
    typer.Option("--since", help="The first moment: a time ago, as 7d, or a moment.", metavar="MOMENT"),
]
End = Annotated[
    str, typer.Option("--until", help="The last one: a time ago, as 1h, or a moment.", metavar="MOMENT")
]


def backfill_job(
    api: ApiConnection,
    job_id: JobId,
    since: Begin,
    parameters: Parameters = None,
    until: End = "0s",
    which: Annotated[
        str, typer.Option(help="missing: those that never ran; failed: also those that ended badly; all.")
    ] = "missing",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the moments.")] = False,
    output: Output = Format.TABLE,
    wait: Wait = False,
    timeout: Timeout = 3600,
) -> None:
    """Run the past moments of a job's timer, one after the other, behind all else that waits.

    Example: punctual jobs backfill nightly --since 2d --dry-run
    """
    span = {"from": read_ago(since), "to": read_ago(until)}
    body = span | {"which": which, "dryRun": dry_run}
    if parameters:
        body["params"] = read_pairs(parameters)
    path = path_of("job", job_id)
    found = api.send("POST", f"{path}/backfill", body=body)
    if output is not Format.TABLE:
        show_as(found, output, RowsPage(MOMENTS, ""))
    else:
        _show(found, is_planned=dry_run)
    if wait and found["items"] and not dry_run:
        _await(api, f"{path}/executions", found["items"], timeout)


def _show(found: dict[str, Any], *, is_planned: bool) -> None:
    state = "would run" if is_planned else "runs"
    items = [*({**one, "state": state} for one in found["items"]), *found["left"]]
    items.sort(key=lambda row: str(row["plannedAt"]))
    show_as({"items": items, "nextCursor": None}, Format.TABLE, RowsPage(MOMENTS, "no moment in this range"))
    note(f"{len(found['items'])} of {len(items)} moments {'would run' if is_planned else 'run'}")


def _await(api: ApiConnection, path: str, items: list[dict[str, Any]], timeout: float) -> None:
    """Waits until the executions have ended, and tells how many. Raises CommandError: timed out, or one ended
    badly.
    """
    deadline, left, bad = time.monotonic() + timeout, {one["executionId"] for one in items}, 0
    span = {"from": items[0]["plannedAt"], "to": items[-1]["plannedAt"], "triggeredBy": "backfill"}
    told = -1
    while left:
        for execution in api.items(path, **span):
            if execution["executionId"] in left and execution["endedAt"] is not None:
                left.discard(execution["executionId"])
                bad += execution["state"] != "succeeded"
        if (ended := len(items) - len(left)) != told and sys.stderr.isatty():
            told = ended
            note(f"{ended} of {len(items)} have ended, {bad} badly")
        if left and time.monotonic() >= deadline:
            message = f"after {timeout:g} s {len(left)} of {len(items)} executions have not ended"
            raise CommandError(message, Exit.TIMED_OUT)
        if left:
            time.sleep(min(POLL_SECONDS, max(deadline - time.monotonic(), 0)))
    if bad:
        raise CommandError(f"{bad} of {len(items)} executions did not succeed", Exit.FAILED)
    note(f"all {len(items)} succeeded")
