"""How soon pages show, in ms: `python -m tests.bench.console_pages [executions] [jobs] [folder] [screens]`.

A service with so many jobs and a day of executions, and Chromium on the same machine. Of each screen: from
the navigation to the frame with its first rows, in five new tabs that have come to rest and have the
console's files already; `blank` is a text of the same service, which is the floor. Then what 50 open tabs
cost the service, and how late firings are with and without the requests of 20 people who click every two
seconds. A folder is filled once, and kept. `screens`, as `jobs:job:blank`: these alone; `tabs` and
`firings` are the other two parts.
"""

import contextlib
import itertools
import random
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import BrowserContext, Page, sync_playwright

from scheduler_service.domain.moments import DAY, rfc3339
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.row_merging import Rows, insert_rows, write_together
from tests.bench.page_clock import ROWS, time_rows, watch_rows
from tests.bench.stage import Stage, show, stage
from tests.console.browsing import MISSING, find_chromium, launch

GROUP = 2_000
VISITS = 5
TABS = 50
PEOPLE = 20
CLICK_SECONDS = 2.0
FIRING_JOBS = 200
SPAN_SECONDS = 30
REST_SECONDS = 1.5

SCREENS = {
    "blank": "a/no/such",
    "overview": "#/",
    "jobs": "#/jobs",
    "jobs, searched": "#/jobs?text=job-99",
    "jobs, failed last": "#/jobs?lastOutcome=terminated",
    "job": "#/jobs/job-7",
    "executions": "#/executions",
    "executions, failed": "#/executions?state=terminated",
    "execution": "#/executions/{execution}",
    "upcoming": "#/upcoming",
    "deliveries": "#/deliveries",
}
TABS_PART = "tabs"
FIRINGS_PART = "firings"
CLICKS = (
    ("/jobs?limit=50", "/counts/jobs"),
    ("/executions?limit=50", "/counts/executions"),
    ("/stats", "/series/executions?buckets=60", "/upcoming?limit=500"),
    ("/jobs/job-7", "/jobs/job-7/executions?limit=10", "/jobs/job-7/statistics"),
    ("/jobs?text=job-99&limit=50", "/counts/jobs?text=job-99"),
)


def main(
    executions: int = 1_000_000, jobs: int = 10_000, folder: Path | None = None, screens: str = ""
) -> None:
    """Prints the figures; of `screens` (names with colons between them) alone where some are named."""
    names = screens.split(":") if screens else [*SCREENS, TABS_PART, FIRINGS_PART]
    program = find_chromium()
    if program is None:
        sys.exit(MISSING)
    is_full = folder is not None and (folder / "history.db").exists()
    with stage(kept=folder) as on, sync_playwright() as driver:
        if not is_full:
            _fill(on, executions, jobs)
        _destroy_left(on)
        on.settle()
        show("filled", {"executions": executions, "jobs": jobs, "disk_mib": round(on.disk())})
        context = launch(driver, program).new_context()
        context.set_default_timeout(60_000)
        _time_screens(on, context, [name for name in names if name in SCREENS])
        if TABS_PART in names:
            show("tabs", _open_tabs(on, context))
        context.close()
        if FIRINGS_PART in names:
            show("firings alone", _watch_firings(on, "alone"))
            with _people(on):
                show("firings, 20 people", _watch_firings(on, "watched"))


def _time_screens(on: Stage, context: BrowserContext, names: Sequence[str]) -> None:
    watch_rows(context)
    places = _places(on)
    for name in names:
        show(name, _visit(on, context, places[name]))


def _fill(on: Stage, executions: int, jobs: int) -> None:
    timer = {"period": "0 0 3 1 1 ?"}
    step = {"method": "GET", "url": f"{on.target}/x"}
    names = [f"job-{number}" for number in range(jobs)]
    same = {"timer": timer, "request": [step], "labels": {"stage": "live"}}
    on.create([{"jobId": name, "jobName": f"Report {name}", **same} for name in names])
    uids = {job["jobId"]: job["uid"] for job in _all_jobs(on)}
    folder = on.folder
    on.restart(lambda: _fill_history(f"sqlite:///{folder}/history.db", executions, names, uids))


def _destroy_left(on: Stage) -> None:
    """Ends the jobs of an earlier run that was broken off: what they fire delays reads of executions."""
    for job_id in [job["jobId"] for job in _all_jobs(on) if not job["jobId"].startswith("job-")]:
        on.client.delete(f"/jobs/{job_id}").raise_for_status()


def _all_jobs(on: Stage) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        page = on.client.get("/jobs", params={"limit": 500} | ({"cursor": cursor} if cursor else {})).json()
        yield from page["data"]["items"]
        if (cursor := page["data"]["nextCursor"]) is None:
            return


def _fill_history(address: str, executions: int, names: list[str], uids: dict[str, str]) -> None:
    dice, end = random.Random(1), int(time.time() * 1_000)
    database = HistoryDatabase(url=address, durability="process")
    for start in range(0, executions, GROUP):
        rows = []
        for n in range(start, min(start + GROUP, executions)):
            name = names[n % len(names)]
            planned = end - DAY + n * DAY // executions
            rows.append(_row(name, uids[name], n // len(names) + 1, n, planned, dice))
        with database.writing() as connection:
            insert_rows(database.dialect, connection, Rows(rows, [], [], []), write_executions=write_together)
    database.close()


def _row(name: str, uid: str, number: int, sequence: int, planned: int, dice: random.Random) -> Any:
    error = dice.choice(("500", "timeout", "404")) if dice.random() < 0.05 else None
    state = "succeeded" if error is None else "terminated"
    started = planned + dice.randrange(30)
    ended = started + dice.randrange(5, 30) * dice.randrange(1, 60)
    times = (planned, planned, started, ended)
    failure = None if error is None else "http"
    life = (uid, number, name, "default", sequence, 1)
    return (*life, state, "timer", *times, None, error, failure, 1, None, bytearray(b"{}"), 1)


def _places(on: Stage) -> dict[str, str]:
    newest = on.client.get("/executions", params={"limit": 1}).json()["data"]["items"][0]["executionId"]
    return {name: place.replace("{execution}", newest) for name, place in SCREENS.items()}


def _visit(on: Stage, context: BrowserContext, place: str) -> dict[str, float]:
    spent = [_first_rows(on, context.new_page(), place) for _ in range(VISITS + 1)][1:]
    return {"median_ms": round(statistics.median(spent)), "longest_ms": round(max(spent))}


def _first_rows(on: Stage, page: Page, place: str) -> float:
    # A new tab keeps Chromium busy with parts of its own window for about a second.
    time.sleep(REST_SECONDS)
    spent = time_rows(page, f"{on.client.base_url}/console/{place}")
    page.close()
    return spent


def _open_tabs(on: Stage, context: BrowserContext) -> dict[str, float]:
    before = on.memory()
    pages = [context.new_page() for _ in range(TABS)]
    for page in pages:
        page.goto(f"{on.client.base_url}/console/#/jobs", wait_until="commit")
    pages[-1].locator(ROWS).first.wait_for()
    time.sleep(5)
    return {"before_mib": round(before), "with_50_tabs_mib": round(on.memory())}


def _watch_firings(on: Stage, span: str) -> dict[str, float]:
    """How late the firings of one span are, of jobs of its own."""
    timer = {"dueTime": "1s", "period": "1s"}
    step = {"method": "GET", "url": f"{on.target}/fired"}
    names = [f"{span}-{n}" for n in range(FIRING_JOBS)]
    began = int(time.time() * 1_000)
    on.create([{"jobId": name, "jobName": name, "timer": timer, "request": [step]} for name in names])
    time.sleep(SPAN_SECONDS)
    for name in names:
        on.client.delete(f"/jobs/{name}").raise_for_status()
    late = sorted(one["latenessMs"] for one in _executions_since(on, began) if one["jobId"] in names)
    p50, p99 = late[len(late) // 2], late[len(late) * 99 // 100]
    return {"firings": len(late), "p50_ms": p50, "p99_ms": p99, "max_ms": late[-1]}


def _executions_since(on: Stage, began: int) -> Iterator[dict[str, Any]]:
    """Those that have started, of what was planned from `began` (wall ms) on."""
    asked: dict[str, Any] = {"from": rfc3339(began), "limit": 500}
    while True:
        page = on.client.get("/executions", params=asked).json()["data"]
        yield from (one for one in page["items"] if one["latenessMs"] is not None)
        if page["nextCursor"] is None:
            return
        asked["cursor"] = page["nextCursor"]


@contextlib.contextmanager
def _people(on: Stage) -> Iterator[None]:
    end = threading.Event()

    def click(first: int) -> None:
        with httpx.Client(base_url=on.client.base_url, timeout=60, trust_env=False) as client:
            for paths in itertools.cycle(CLICKS[first:] + CLICKS[:first]):
                for path in paths:
                    client.get(path).raise_for_status()
                if end.wait(CLICK_SECONDS):
                    return

    people = [threading.Thread(target=click, args=(n % len(CLICKS),)) for n in range(PEOPLE)]
    for person in people:
        person.start()
    try:
        yield
    finally:
        end.set()
        for person in people:
            person.join()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *map(Path, sys.argv[3:4]), *sys.argv[4:5])
