"""`punctual top`: what a service does, live: rates, lateness, nodes, its slowest and its failing jobs."""

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.options import Output, read_ago, read_seconds
from scheduler_service.cli.output import (
    Column,
    Format,
    at,
    between,
    length_text,
    moment_text,
    named,
    show,
    text_of,
)
from scheduler_service.cli.service_connection import ApiConnection

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType
    from rich.table import Table
    from rich.text import Text

SHORTEST_SECONDS = 0.5
RECENT = "5m"
MOST_EXECUTIONS = 200
"""Of so many executions the slowest jobs are found: an answer of the service stays small."""

MOST_FAILED = 100
LISTS_EVERY_SECONDS = 5.0
"""So often lists of executions are read; the figures come with every frame."""

SHARE = 5
"""A frame that takes long to get is shown so many times longer: a busy service is asked less often."""
SHOWN = 8
BARS = "▁▂▃▄▅▆▇█"
MINUTES = 30
Item = Mapping[str, Any]
JOB = Column("job", lambda row: row["jobId"])
NODES = (
    Column("node", lambda row: row.get("nodeId")),
    "state",
    "address",
    "version",
    Column("held", lambda row: row.get("jobsHeld")),
    "running",
    at("lastHeartbeat", "heartbeat"),
)
SLOWEST = (
    JOB,
    Column("longest", lambda row: length_text(row["longestMs"])),
    Column("mean", lambda row: length_text(row["meanMs"])),
    "executions",
)
FAILING = (JOB, "failed", "error", at("lastAt", "last"))


def top(
    api: ApiConnection,
    output: Output = Format.TABLE,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end.")] = False,
    interval: Annotated[
        float,
        typer.Option(
            help="Seconds between two frames, 0.5 or more.", parser=read_seconds, metavar="DURATION"
        ),
    ] = 1.0,
) -> None:
    """Show rates, lateness, nodes, and the slowest and failing jobs of the last minutes, live.

    Off a terminal, or with -o json, it prints one frame.

    Example: punctual top --once
    """
    if interval < SHORTEST_SECONDS:
        remedy = f"give {SHORTEST_SECONDS:g} or more"
        raise CommandError(f"--interval {interval:g} is too short; {remedy}", Exit.USAGE)
    source = FrameSource(api=api)
    if output is not Format.TABLE:
        show(source.read(), output)
    elif once or not sys.stdout.isatty():
        console = _console()
        console.print(render(source.read(), console.width))
    else:
        _follow(source, interval)


class FrameSource:
    """Reads frames from a service: four small answers, two of them every 5 s. `clock` counts seconds."""

    def __init__(self, *, api: ApiConnection, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._listed = float("-inf")
        self._lists: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        """One frame. Raises CommandError."""
        if self._clock() - self._listed >= LISTS_EVERY_SECONDS:
            since = read_ago(RECENT)
            ended = {"from": since, "limit": MOST_EXECUTIONS}
            failed = {"from": since, "limit": MOST_FAILED, "outcome": "failed"}
            self._lists = summarize(
                self._api.get("/executions", **ended)["items"],
                self._api.get("/executions", **failed)["items"],
            )
            self._listed = self._clock()
        return {
            "at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            "stats": self._api.get("/stats"),
            "nodes": self._api.get("/nodes")["items"],
            **self._lists,
        }


def _follow(source: FrameSource, interval: float) -> None:
    """Until Ctrl-C; a service that does not answer is waited for, once there was a first frame."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    console = _console()
    frame: RenderableType = render(source.read(), console.width)
    with _until_interrupted(), Live(frame, console=console, screen=True, auto_refresh=False) as live:
        while True:
            began = time.monotonic()
            try:
                frame = render(source.read(), console.width)
                live.update(frame, refresh=True)
            except CommandError as error:
                live.update(Group(Text(error.message, style="bold red"), frame), refresh=True)
            time.sleep(max(interval, SHARE * (time.monotonic() - began)))


@contextmanager
def _until_interrupted() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        return


def _console() -> "Console":
    """As wide as the terminal; off one, as wide as a frame needs."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 120
    return Console(markup=False, emoji=False, highlight=False, width=width)


def summarize(recent: Sequence[Item], failed: Sequence[Item]) -> dict[str, Any]:
    """`slowest` and `failing` jobs, the worst first, out of lists of executions."""
    durations: dict[str, list[float]] = defaultdict(list)
    for one in recent:
        took = between(one["startedAt"], one["endedAt"])
        if took is not None:
            durations[one["jobId"]].append(took)
    slowest = [
        {
            "jobId": job_id,
            "executions": len(all_of),
            "longestMs": max(all_of),
            "meanMs": sum(all_of) / len(all_of),
        }
        for job_id, all_of in durations.items()
    ]
    failures: dict[str, list[Item]] = defaultdict(list)
    for one in failed:
        failures[one["jobId"]].append(one)
    failing = [
        {
            "jobId": job_id,
            "failed": len(all_of),
            "error": all_of[0]["error"],
            "lastAt": all_of[0]["plannedAt"],
        }
        for job_id, all_of in failures.items()
    ]
    return {
        "slowest": sorted(slowest, key=lambda one: -float(str(one["longestMs"])))[:SHOWN],
        "failing": sorted(failing, key=lambda one: -int(str(one["failed"])))[:SHOWN],
    }


def render(frame: Mapping[str, Any], width: int) -> "Group":
    """The frame for a terminal of this width."""
    from rich.console import Group
    from rich.text import Text

    return Group(
        _headline(frame),
        Text(),
        *(Text(line, no_wrap=True, overflow="ellipsis") for line in describe_figures(frame["stats"])),
        Text(),
        _table("nodes", NODES, frame["nodes"][:SHOWN]),
        Text(),
        _table("slowest of the last minutes", SLOWEST, frame["slowest"]),
        Text(),
        _table("failing in the last minutes", FAILING, frame["failing"]),
    )


def describe_figures(stats: Mapping[str, Any]) -> list[str]:
    """What is due now, how late it is, and the executions of each minute as bars."""
    minutes = [int(one["total"]) for one in stats["perMinute"]][-MINUTES:]
    complete = minutes[-2] if len(minutes) > 1 else 0
    lateness = stats["lateness"]
    late = ", ".join(f"{name} {length_text(lateness.get(name)) or '-'}" for name in ("p50", "p99", "max"))
    ended = ", ".join(f"{count} {state}" for state, count in stats["byState"].items() if count)
    lines = [
        f"running {stats['running']}   waiting {stats['waiting']}   due {stats['due']}   lateness {late}",
        f"last minute {complete} executions ({complete / 60:.1f} a second)   {draw(minutes)}",
        f"last hour   {ended or 'none'}",
    ]
    return [text_of(line) for line in lines]  # figures may be texts, where another program answers


def draw(counts: Sequence[int]) -> str:
    """A bar for each; the highest is full, and nothing is none."""
    most = max(counts, default=0)
    return "".join(
        BARS[min(len(BARS) - 1, count * len(BARS) // (most + 1))] if count else " " for count in counts
    )


def _headline(frame: Mapping[str, Any]) -> "Text":
    from rich.text import Text

    version = next((node["version"] for node in frame["nodes"]), "?")
    return Text(f"Punctual {text_of(version)}   {moment_text(frame['at'])}   Ctrl-C ends", style="bold")


def _table(title: str, columns: Sequence[str | Column], rows: Sequence[Item]) -> "Table":
    from rich.table import Table

    table = Table(
        box=None, pad_edge=False, title=f"{title}{'' if rows else ': none'}", title_justify="left",
        title_style="bold", header_style="dim", show_header=bool(rows),
    )  # fmt: skip
    listed = named(columns)
    for column in listed:
        table.add_column(column.name, no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(column.text(row) for column in listed))
    return table
