"""punctual calendars: what it sends and prints, over a service (SPEC sections 3, 16)."""

import json
from pathlib import Path
from typing import Any

from tests.http_program import Asked, HttpProgram, Said
from tests.unit.cli.running import Ran, enveloped

PROBLEM = {"Content-Type": "application/problem+json"}
SENT = list[tuple[str, Any, str | None]]
STORED = {
    "name": "office", "timezone": None, "week": [1, 2, 3, 4, 5], "free": ["2026-10-01"], "work": [],
    "country": None, "version": 7, "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z",
    "year": 2026, "workingDays": 260, "freeDays": ["2026-10-01"], "makeUpDays": [],
    "usedBy": {"jobs": ["nightly"], "isCapped": True},
}  # fmt: skip
READ = {
    "format": "dates", "free": ["2026-10-02/2026-10-03"], "work": [], "leftOut": ["Valentine"],
    "calendar": {"week": [1], "free": ["2026-10-01/2026-10-03"], "work": []},
}  # fmt: skip
JOB = {
    "jobId": "nightly",
    "firstChange": "2026-10-02T09:00:00Z",
    "before": ["2026-10-02T09:00:00Z"],
    "after": [],
}
ABSENT = {"status": 404, "detail": "not there", "errors": [], "resp_code": 404, "resp_msg": "not there"}
PAGES = [
    {"jobs": [JOB], "checked": 40, "nextCursor": "next"},
    {"jobs": [{**JOB, "jobId": "weekly", "firstChange": None}], "checked": 2, "nextCursor": None},
]


def scheduler(sent: SENT, known: dict[str, Any] | None = STORED) -> HttpProgram:
    """A program that has one calendar, or none, and takes all; a preview has two pages."""
    pages = iter(PAGES)

    def answer(asked: Asked) -> Said:
        posted = json.loads(asked.body) if asked.body else None
        sent.append((asked.method, posted, asked.headers["If-Match"]))
        if asked.method == "GET":
            return enveloped(known) if known else Said(404, json.dumps(ABSENT).encode(), PROBLEM)
        if asked.method == "POST":
            return enveloped(READ if "text" in posted else next(pages))
        return enveloped(STORED)

    return HttpProgram(answer)


def test_a_file_is_stored_under_the_version_that_it_was_read_at(ran: Ran, tmp_path: Path) -> None:
    """The output of `get` may be edited and given back; a file of one's own has no version."""
    path, sent = tmp_path / "office.json", SENT()
    with scheduler(sent) as program:
        code, printed, _ = ran("calendars", "get", "office", "-o", "json", "--url", program.url)
        assert code == 0
        path.write_text(printed, encoding="utf-8")
        code, _, said = ran("calendars", "put", "office", "-f", str(path), "--url", program.url)
        assert (code, "version 7" in said) == (0, True), said
        path.write_text('{"week": [1]}', encoding="utf-8")
        assert ran("calendars", "put", "office", "-f", str(path), "--url", program.url)[0] == 0
        path.write_text("[]", encoding="utf-8")
        assert ran("calendars", "put", "office", "-f", str(path), "--url", program.url)[0] == 2
    members = {name: STORED[name] for name in ("timezone", "week", "free", "work", "country")}
    assert sent[1:] == [("PUT", members, '"7"'), ("PUT", {"week": [1]}, None)]


def test_dates_are_added_to_what_is_there(ran: Ran, tmp_path: Path) -> None:
    """Or take its place; a calendar that is not there is made."""
    path = tmp_path / "dates.txt"
    path.write_text("2026-10-02/2026-10-03\n", encoding="utf-8")
    text = path.read_text(encoding="utf-8")
    own = {"week": [1, 2, 3, 4, 5], "free": ["2026-10-01"], "work": []}
    for options, known, calendar, kind, version in (
        ((), STORED, own, "free", '"7"'),
        (("--replace", "--as", "work"), STORED, own | {"free": []}, "work", '"7"'),
        ((), None, {}, "free", '"0"'),
    ):
        sent = SENT()
        with scheduler(sent, known) as program:
            code, _, said = ran("calendars", "import", "office", str(path), *options, "--url", program.url)
        assert code == 0, said
        assert "2 free and 0 working days" in said
        assert "Valentine" in said
        assert sent[1:] == [
            ("POST", {"text": text, "as": kind, "calendar": calendar}, None),
            ("PUT", READ["calendar"], version),
        ]


def test_what_is_wrong_in_a_file_of_dates_names_the_file(ran: Ran, tmp_path: Path) -> None:
    """The text is no option of the command."""
    path = tmp_path / "days.ics"
    path.write_text("25.12.2026", encoding="utf-8")
    flaw = {"pointer": "/text", "code": "invalid", "message": "line 1: '25.12.2026' is no date"}
    refused = {"status": 422, "detail": "wrong", "errors": [flaw], "resp_code": 422, "resp_msg": "wrong"}

    def answer(asked: Asked) -> Said:
        if asked.method == "GET":
            return Said(404, json.dumps(ABSENT).encode(), PROBLEM)
        return Said(422, json.dumps(refused).encode(), PROBLEM)

    with HttpProgram(answer) as program:
        code, _, said = ran("calendars", "import", "office", str(path), "--url", program.url)
    assert (code, said) == (2, f"punctual: {path}: line 1: '25.12.2026' is no date\n")


def test_a_dry_run_shows_the_jobs_of_all_pages(ran: Ran, tmp_path: Path) -> None:
    """And stores nothing."""
    path = tmp_path / "office.json"
    path.write_text("{}", encoding="utf-8")
    for command in (("put", "office", "-f", str(path)), ("import", "office", str(path))):
        sent = SENT()
        with scheduler(sent) as program:
            code, printed, said = ran("calendars", *command, "--dry-run", "--url", program.url)
        assert code == 0, said
        lines = [line.split() for line in printed.splitlines()[1:]]
        assert [line[0] for line in lines] == ["nightly", "weekly"]
        assert (lines[0][-1], "unknown" in lines[1]) == ("never", True)
        assert "2 of 42 jobs" in said
        assert "PUT" not in [one[0] for one in sent]


def test_it_lists_and_removes(ran: Ran) -> None:
    """With the days of the week by name; who uses one is named."""
    sent = SENT()
    with scheduler(sent, {"items": [STORED], "nextCursor": None}) as program:
        _, printed, _ = ran("calendars", "list", "--url", program.url)
        assert "Mon Tue Wed Thu Fri" in printed
        assert ran("calendars", "delete", "office", "--url", program.url)[0] == 0
        assert ran("calendars", "delete", "no name", "--url", program.url)[0] == 2
    with scheduler(sent) as program:
        _, printed, _ = ran("calendars", "get", "office", "--url", program.url)
    assert "nightly, …" in printed
    assert [one[0] for one in sent] == ["GET", "DELETE", "GET"]
