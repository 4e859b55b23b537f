"""A frame of `punctual top`: what it sums up, and how it looks."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scheduler_service.cli.output import between, length_text, moment_text, text_of

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

SHOWN = 8
BARS = "▁▂▃▄▅▆▇█"
MINUTES = 30

Item = Mapping[str, Any]


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
        _table(
            "nodes", ("node", "state", "address", "version", "held", "running", "heartbeat"), _nodes(frame)
        ),
        Text(),
        _table("slowest of the last minutes", ("job", "longest", "mean", "executions"), _slowest(frame)),
        Text(),
        _table("failing in the last minutes", ("job", "failed", "error", "last"), _failing(frame)),
    )


def describe_figures(stats: Mapping[str, Any]) -> list[str]:
    """What is due now, how late it is, and the executions of each minute as bars."""
    minutes = [int(one["total"]) for one in stats["perMinute"]][-MINUTES:]
    complete = minutes[-2] if len(minutes) > 1 else 0
    lateness = stats["lateness"]
    late = ", ".join(f"{name} {length_text(lateness.get(name)) or '-'}" for name in ("p50", "p99", "max"))
    ended = ", ".join(f"{count} {state}" for state, count in stats["byState"].items() if count)
    missing = stats.get("missing")
    lines = [
        *([f"not counted, since it does not answer: {', '.join(missing)}"] if missing else ()),
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


def _nodes(frame: Mapping[str, Any]) -> list[list[Any]]:
    names = ("nodeId", "state", "address", "version", "jobsHeld", "running")
    return [
        [*(node.get(name) for name in names), moment_text(node.get("lastHeartbeat"))]
        for node in frame["nodes"][:SHOWN]
    ]


def _slowest(frame: Mapping[str, Any]) -> list[list[Any]]:
    return [
        [one["jobId"], length_text(one["longestMs"]), length_text(one["meanMs"]), one["executions"]]
        for one in frame["slowest"]
    ]


def _failing(frame: Mapping[str, Any]) -> list[list[Any]]:
    return [
        [one["jobId"], one["failed"], one["error"], moment_text(one["lastAt"])] for one in frame["failing"]
    ]


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> "Table":
    from rich.table import Table

    table = Table(
        box=None, pad_edge=False, title=f"{title}{'' if rows else ': none'}", title_justify="left",
        title_style="bold", header_style="dim", show_header=bool(rows),
    )  # fmt: skip
    for heading in headings:
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*map(text_of, row))
    return table
