"""`punctual top`: what a service does, live: rates, lateness, nodes, its slowest and its failing jobs."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler_service.cli.connection import ApiConnection, connect
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.options import Key, Output, Url, read_ago, read_seconds
from scheduler_service.cli.output import Format, show
from scheduler_service.cli.top_frame import render, summarize

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

SHORTEST_SECONDS = 0.5
RECENT = "5m"
MOST_EXECUTIONS = 200
"""Of so many executions the slowest jobs are found: an answer of the service stays small."""

MOST_FAILED = 100
LISTS_EVERY_SECONDS = 5.0
"""So often lists of executions are read; the figures come with every frame."""

SHARE = 5
"""A frame that takes long to get is shown so many times longer: a busy service is asked less often."""


def top(
    url: Url = None,
    key: Key = None,
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
    source = FrameSource(api=connect(url, key))
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
