"""punctual audit --follow: what is changed, as it is changed."""

from collections.abc import Mapping
from typing import Any

from scheduler_service.cli.audit import following_audit


def line(number: int, outcome: str = "done") -> dict[str, str]:
    return {"id": f"id-{number}", "at": f"2026-01-31T09:00:{number:02}.000Z", "outcome": outcome}


class Audit:
    """Lines, the newest first, two a page; `rest` adds the next ones, and ends as Ctrl-C does."""

    def __init__(self, *later: list[dict[str, str]]) -> None:
        self.lines: list[dict[str, str]] = []
        self.asked: list[str | None] = []
        self._later = list(later)

    def read(self, *, cursor: str | None = None, **more: Any) -> Mapping[str, Any]:
        since = (more["from"] or "").replace("+00:00", "Z")
        self.asked.append(more["from"])
        found = [one for one in self.lines if one["at"] >= since]
        start = int(cursor or 0)
        rest = len(found) > start + 2
        return {"items": found[start : start + 2], "nextCursor": str(start + 2) if rest else None}

    def rest(self, _seconds: float) -> None:
        if not self._later:
            raise KeyboardInterrupt
        for one in self._later.pop(0):
            self.lines = [known for known in self.lines if known["id"] != one["id"]]
            self.lines.append(one)
        self.lines.sort(key=lambda known: known["at"], reverse=True)


def test_what_is_new_is_told_once_the_oldest_first() -> None:
    """Over several pages, also what comes late, or has another outcome than before."""
    audit = Audit(
        [line(1), line(2)],
        [line(7), line(9, "asked"), line(5), line(8)],
        [],
        [line(9, "done"), line(4)],
        [line(30)],
    )
    pages = following_audit({"items": [], "nextCursor": None}, audit.read, rest=audit.rest)
    told = [[(one["id"], one["outcome"]) for one in page["items"]] for page in pages]
    assert told == [
        [],
        [("id-1", "done"), ("id-2", "done")],
        [("id-5", "done"), ("id-7", "done"), ("id-8", "done"), ("id-9", "asked")],
        [("id-4", "done"), ("id-9", "done")],
        [("id-30", "done")],
    ]
    assert audit.asked[0] is None
    assert audit.asked[-1] == "2026-01-31T08:59:59+00:00"
