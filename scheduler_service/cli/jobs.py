"""`punctual jobs …`: create, read, change and trigger jobs."""

import contextlib
import json
import time
from typing import Annotated, Any
from urllib.parse import quote

import typer

from scheduler_service.cli.connection import ApiConnection, connect
from scheduler_service.cli.declarations import compare, read_definitions, read_value
from scheduler_service.cli.errors import AbsentError, CommandError, Exit
from scheduler_service.cli.executions import show_end
from scheduler_service.cli.options import Cursor, Key, Limit, Output, Source, Timeout, Url, Wait, read_pairs
from scheduler_service.cli.output import Format, note, note_warnings, show, show_page

app = typer.Typer(no_args_is_help=True, help="Create, read, change and trigger jobs.")
JobId = Annotated[str, typer.Argument(help="The job's id.")]
COLUMNS = ("jobId", "state", "kind", "nextFireTime", "executeNumber", "revision")
FIRINGS = ("utc", "local", "note")
WATCH_POLL_SECONDS = 1.0


@app.command("list")
def list_jobs(
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
    limit: Limit = 50,
    cursor: Cursor = None,
    state: Annotated[str | None, typer.Option(help="active, paused or finished.")] = None,
    text: Annotated[str | None, typer.Option(help="Part of an id or a name.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="Only with this label, KEY:VALUE.")] = None,
    system: Annotated[bool, typer.Option("--system", help="List the system's own jobs instead.")] = False,
) -> None:
    """List jobs.

    Example: punctual jobs list --state active -o json
    """
    query = {"limit": limit, "cursor": cursor, "state": state, "text": text, "label": label}
    found = connect(url, key).get("/jobs", **query, system="true" if system else None)
    show_page(found, output, COLUMNS)


@app.command("get")
def get_job(job_id: JobId, url: Url = None, key: Key = None, output: Output = Format.TABLE) -> None:
    """Show a job.

    Example: punctual jobs get nightly -o yaml
    """
    show(connect(url, key).get(path_of(job_id)), output)


@app.command("create")
def create_job(file: Source, url: Url = None, key: Key = None, output: Output = Format.TABLE) -> None:
    """Create the job of a file; refused if it exists with another definition.

    Example: punctual jobs create -f nightly.json
    """
    definition = _require_one(read_value(file))
    envelope = connect(url, key).exchange("POST", path_of(definition["jobId"]), body=definition)
    note_warnings(envelope.warnings)
    show(envelope.data, output)


@app.command("apply")
def apply_jobs(file: Source, url: Url = None, key: Key = None, output: Output = Format.TABLE) -> None:
    """Create or update the jobs of a file: one definition, or an array of them.

    Example: punctual jobs apply -f jobs.json
    """
    given = read_value(file)
    body = given if isinstance(given, list) else [_require_one(given)]
    answer = connect(url, key).exchange("POST", "/jobs", query={"onExisting": "update"}, body=body)
    note_warnings(answer.warnings)
    items = answer.data["items"]
    show(items, output, ("jobId", "status"))
    refused = [item for item in items if item["status"] == "refused"]
    for item in refused:
        note(f"{item['jobId']}: {json.dumps(item['problem'], ensure_ascii=False)}")
    if refused:
        raise CommandError(f"{len(refused)} of {len(items)} jobs were refused")


@app.command("diff")
def diff_jobs(file: Source, url: Url = None, key: Key = None) -> None:
    """Show how the definitions of a file differ from the stored ones; exit code 1 if any does.

    The file holds one definition, an array of them, or what a service declares (`timers`).

    Example: punctual jobs diff -f nightly.json
    """
    connection = connect(url, key)
    differing = 0
    for given in read_definitions(read_value(file)):
        lines = _diff_one(connection, given, str(file))
        differing += bool(lines)
        print("\n".join(lines), end="\n" if lines else "")
    if differing:
        raise typer.Exit(Exit.REFUSED)
    print("no difference")


@app.command("delete")
def delete_job(job_id: JobId, url: Url = None, key: Key = None) -> None:
    """Destroy a job; its history stays until it is cleaned up.

    Example: punctual jobs delete nightly
    """
    connect(url, key).send("DELETE", path_of(job_id))
    note(f"{job_id} is destroyed")


@app.command("pause")
def pause_job(
    job_id: JobId,
    url: Url = None,
    key: Key = None,
    drain: Annotated[bool, typer.Option("--drain", help="Let running executions finish.")] = False,
) -> None:
    """Stop a job's timer, and cancel its running executions unless --drain is given.

    Example: punctual jobs pause nightly --drain
    """
    connect(url, key).send("PUT", path_of(job_id), query={"active": 0, "drain": "true" if drain else None})
    note(f"{job_id} is paused")


@app.command("resume")
def resume_job(
    job_id: JobId,
    url: Url = None,
    key: Key = None,
    misfire: Annotated[
        str, typer.Option(help="What to do with the firings of the pause: skip, fire_once or fire_all.")
    ] = "skip",
) -> None:
    """Let a paused job fire again, from now.

    Example: punctual jobs resume nightly --misfire fire_once
    """
    answer = connect(url, key).send("PUT", path_of(job_id), query={"active": 1, "misfire": misfire}) or {}
    note(f"{job_id} is active; {answer.get('missed', 0)} firings fell into the pause")


@app.command("trigger")
def trigger_job(
    job_id: JobId,
    parameters: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Parameters.")] = None,
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
    wait: Wait = False,
    timeout: Timeout = 60,
    delay: Annotated[float | None, typer.Option(help="Seconds from now.", min=0)] = None,
) -> None:
    """Start one execution, also of a paused or finished job.

    Example: punctual jobs trigger nightly size=3 --wait
    """
    connection = connect(url, key)
    body = read_pairs(parameters or [])
    started = connection.send("POST", f"{path_of(job_id)}/trigger", query={"delaySeconds": delay}, body=body)
    if wait:
        show_end(connection, started["executionId"], timeout, output)
    else:
        show(started, output)


@app.command("next")
def next_firings(
    job_id: JobId,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 10,
    url: Url = None,
    key: Key = None,
    output: Output = Format.TABLE,
) -> None:
    """Show a job's next firings.

    Example: punctual jobs next nightly --count 3
    """
    found = connect(url, key).get(f"{path_of(job_id)}/next", count=count)
    show(found if output is not Format.TABLE else found["firings"], output, FIRINGS)


@app.command("watch")
def watch_job(
    job_id: JobId,
    url: Url = None,
    key: Key = None,
    timeout: Annotated[float | None, typer.Option(help="Stop after this many seconds.", min=0)] = None,
) -> None:
    """Print a line for each of a job's executions as it ends; stop with Ctrl-C.

    Example: punctual jobs watch nightly --timeout 60
    """
    connection = connect(url, key)
    deadline = None if timeout is None else time.monotonic() + timeout
    seen: set[str] = set()
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            for line in _describe_ended(connection, job_id, seen):
                print(line, flush=True)
            if deadline is not None and time.monotonic() >= deadline:
                return
            time.sleep(WATCH_POLL_SECONDS)


def path_of(job_id: str) -> str:
    """The path of a job."""
    return f"/jobs/{quote(job_id, safe=':')}"


def _describe_ended(connection: ApiConnection, job_id: str, seen: set[str]) -> list[str]:
    items = connection.get(f"{path_of(job_id)}/executions", limit=50)["items"]
    new = [item for item in reversed(items) if item["endedAt"] and item["executionId"] not in seen]
    seen.update(item["executionId"] for item in new)
    return [
        f"{item['endedAt']}  #{item['executeNumber']}  {item['state']}  {item['error'] or ''}".rstrip()
        for item in new
    ]


def _require_one(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not isinstance(value.get("jobId"), str):
        raise CommandError("the file must hold one definition with a jobId", Exit.USAGE)
    return value


def _diff_one(connection: ApiConnection, given: dict[str, Any], name: str) -> list[str]:
    try:
        stored = connection.get(path_of(given["jobId"]))["definition"]
    except AbsentError:
        return [f"{given['jobId']}: there is no such job"]
    return compare(stored, given, f"{name} {given['jobId']}")
