"""What punctual top asks for, and its frame."""

import io
from typing import Any

from rich.console import Console

from scheduler_service.cli.top import (
    LISTS_EVERY_SECONDS,
    FrameSource,
    describe_figures,
    draw,
    render,
    summarize,
)

STATS = {
    "due": 3,
    "waiting": 2,
    "running": 1,
    "byState": {"succeeded": 100, "terminated": 0},
    "lateness": {"p50": 2, "p99": 1500, "max": None},
    "perMinute": [{"total": 0}, {"total": 120}, {"total": 7}],
}


class Service:
    """Answers like a service, and counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.limits: list[int] = []

    def get(self, path: str, **query: Any) -> Any:
        self.asked.append(path)
        self.limits += [query["limit"]] if "limit" in query else []
        return STATS if path == "/stats" else {"items": [], "nextCursor": None}


def test_lists_are_read_seldom() -> None:
    """However often a frame is wanted; each list has a limit."""
    service, now = Service(), 0.0
    source = FrameSource(api=service, clock=lambda: now)  # type: ignore[arg-type]
    for _ in range(5):
        source.read()
    assert service.asked.count("/executions") == 2
    assert (service.asked.count("/stats"), service.asked.count("/nodes")) == (5, 5)
    now += LISTS_EVERY_SECONDS
    frame = source.read()
    assert service.asked.count("/executions") == 4
    assert max(service.limits) <= 200
    assert frame.keys() == {"at", "stats", "nodes", "slowest", "failing"}


def execution(job_id: str, seconds: int | None, error: str | None = None) -> dict[str, object]:
    """One of a list; None: it still runs."""
    ended = None if seconds is None else f"2026-01-01T00:00:{seconds:02}.000Z"
    start = "2026-01-01T00:00:00.000Z"
    return {"jobId": job_id, "startedAt": start, "endedAt": ended, "plannedAt": start, "error": error}


def test_bars_grow_with_their_counts() -> None:
    """Nothing is no bar, a little is the lowest one."""
    assert draw([0, 1, 50, 100]) == " ▁▄█"
    assert draw([]) == ""
    # Figures are those of the last whole minute: the present one is not over
    lines = describe_figures(STATS)
    assert lines[0] == "running 1   waiting 2   due 3   lateness p50 2 ms, p99 1.5 s, max -"
    assert lines[1].startswith("last minute 120 executions (2.0 a second)")
    assert lines[2] == "last hour   100 succeeded"
    # Figures that are texts cannot drive the terminal: what another program gives for a number
    odd = "1\x1b[2J\u202e\ud800"
    figures = {"running": odd, "waiting": odd, "due": odd, "byState": {odd: odd}}
    lines = describe_figures(STATS | figures)
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


def test_the_worst_jobs_come_first() -> None:
    """By their longest execution, and by their number of failures."""
    found = summarize(
        [execution("a", 1), execution("b", 9), execution("a", 3), execution("c", None)],
        [execution("x", 1, "500"), execution("y", 1, "404"), execution("y", 1, "timeout")],
    )
    assert [(one["jobId"], one["longestMs"], one["meanMs"]) for one in found["slowest"]] == [
        ("b", 9000, 9000),
        ("a", 3000, 2000),
    ]
    assert [(one["jobId"], one["failed"], one["error"]) for one in found["failing"]] == [
        ("y", 2, "404"),
        ("x", 1, "500"),
    ]


def test_a_frame_fits_its_terminal() -> None:
    """Also a narrow one; names cannot drive the terminal."""
    node = {"nodeId": "one\x1b[2J", "state": "running", "address": "http://127.0.0.1:8000", "version": "1"}
    lists = summarize([execution("j" * 200, 1)], [execution("k", 1, "500")])
    frame = {"at": "2026-01-01T00:00:00Z", "stats": STATS, "nodes": [node], **lists}
    for width in (60, 120):
        console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
        console.print(render(frame, width))
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert max(map(len, text.splitlines())) <= width
        assert "\x1b[2J" not in text
        assert "failing in the last minutes" in text
