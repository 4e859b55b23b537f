"""What punctual top asks for."""

from typing import Any

from scheduler_service.cli.top import LISTS_EVERY_SECONDS, FrameSource

STATS = {"due": 0, "waiting": 0, "running": 0, "byState": {}, "lateness": {}, "perMinute": []}


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
