"""How soon pages show, in ms: `python -m tests.bench.console_pages [executions] [jobs] [folder] [screens]`.

A service with so many jobs and a day of executions, and Chromium on the same machine. Of each screen: from
the navigation to the frame with its first rows, in five new tabs that have come to rest and have the
console's files already; `blank` is a text of the same service, which is the floor. The page itself tells
when: a driver that looks from outside asks after 20, 70, 170, 270 and 770 ms, and has put 30 ms of scripts
of its own into the page by then. A folder is filled once, and kept. `screens`, as `jobs:job:blank`: these
alone.
"""

import json
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page, sync_playwright

from scheduler_service.domain.moments import DAY
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.row_merging import Rows, insert_rows, write_together
from tests.bench.stage import Stage, show, stage
from tests.console.browsing import MISSING, find_chromium, launch

GROUP = 2_000
VISITS = 5
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
ROWS = "main tbody tr, main .figure, main .empty, main .waterfall tr"
BLANK = "body > pre"
"""What Chromium shows of a plain text: the least that a page can be."""
_TOLD = "first rows at "
_WATCH = """
(() => {
  let isFound = false;
  const look = () => {
    const first = document.querySelector(ROWS);
    if (isFound || first === null || first.closest("[hidden]") !== null) return;
    isFound = true;
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => tell(performance.now());
      port2.postMessage(null);
    });
  };
  // The first frame with anything in it is on the screen a little after the page has handed it over.
  const tell = (drawn) => new PerformanceObserver((list) => {
    const [shown] = list.getEntriesByName("first-contentful-paint");
    if (shown) console.debug(TOLD + (performance.timeOrigin + Math.max(drawn, shown.startTime)));
  }).observe({ type: "paint", buffered: true });
  new MutationObserver(look).observe(document, { childList: true, subtree: true, attributes: true });
})();
"""


def main(
    executions: int = 1_000_000, jobs: int = 10_000, folder: Path | None = None, screens: str = ""
) -> None:
    """Prints the figures; of `screens` (names with colons between them) alone where some are named."""
    names = screens.split(":") if screens else list(SCREENS)
    program = find_chromium()
    if program is None:
        sys.exit(MISSING)
    is_full = folder is not None and (folder / "history.db").exists()
    with stage(kept=folder) as on, sync_playwright() as driver:
        if not is_full:
            _fill(on, executions, jobs)
        on.settle()
        show("filled", {"executions": executions, "jobs": jobs, "disk_mib": round(on.disk())})
        context = launch(driver, program).new_context()
        context.set_default_timeout(60_000)
        watch_rows(context)
        places = _places(on)
        for name in names:
            show(name, _visit(on, context, places[name]))
        context.close()


def _fill(on: Stage, executions: int, jobs: int) -> None:
    timer = {"period": "0 0 3 1 1 ?"}
    step = {"method": "GET", "url": f"{on.target}/x"}
    names = [f"job-{number}" for number in range(jobs)]
    same = {"timer": timer, "request": [step], "labels": {"stage": "live"}}
    on.create([{"jobId": name, "jobName": f"Report {name}", **same} for name in names])
    uids = {job["jobId"]: job["uid"] for job in _all_jobs(on)}
    folder = on.folder
    on.restart(lambda: _fill_history(f"sqlite:///{folder}/history.db", executions, names, uids))


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
            insert_rows(
                database.dialect, connection, Rows(rows, [], [], [], []), write_executions=write_together
            )
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


def watch_rows(context: BrowserContext) -> None:
    """Each page that is opened from now on tells when its first rows were shown."""
    given = f"const ROWS = {json.dumps(f'{ROWS}, {BLANK}')}, TOLD = {json.dumps(_TOLD)};"
    context.add_init_script(f"(() => {{ {given} {_WATCH} }})();")


def time_rows(page: Page, url: str) -> float:
    """Milliseconds from the call of the navigation until the first rows are shown."""
    with page.expect_console_message(lambda message: message.text.startswith(_TOLD)) as told:
        began = time.time() * 1_000
        page.goto(url, wait_until="commit")
    return float(told.value.text.removeprefix(_TOLD)) - began


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *map(Path, sys.argv[3:4]), *sys.argv[4:5])
