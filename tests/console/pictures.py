"""Draws the pictures of the README: `python -m tests.console.pictures` writes them to `docs/pictures`."""

import itertools
import sys
import time
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, sync_playwright

from tests.checkout import ROOT
from tests.console.browsing import MISSING, Console, find_chromium, launch
from tests.console.service import PATIENCE_SECONDS, ConsoleService
from tests.wire.target import Reply

FOLDER = ROOT / "docs" / "pictures"
NAMES = ("jobs.png", "execution.png")
WIDTH, HEIGHT = 1_440, 860
ROUNDS = 12

WEEKDAYS = {"period": "0 0 9 ? * MON-FRI", "timezone": "Europe/Berlin"}
QUARTER_HOURS = {"period": "*/15 * * * *", "timezone": "Asia/Shanghai"}
NIGHTLY = {"period": "0 30 2 * * ?", "timezone": "America/New_York"}
HOURLY = {"dueTime": "1h", "period": "1h"}
JOBS: dict[str, tuple[str, dict[str, Any], dict[str, str], str]] = {
    "backup-verify": ("Verify the backups", NIGHTLY, {"team": "platform"}, "/good"),
    "billing-close": ("Close the day's books", WEEKDAYS, {"team": "billing", "env": "prod"}, "/flaky"),
    "cache-warm-up": ("Warm up the cache", QUARTER_HOURS, {"team": "web"}, "/good"),
    "fx-rates": ("Fetch exchange rates", HOURLY, {"team": "billing"}, "/good"),
    "index-rebuild": ("Rebuild the search index", NIGHTLY, {"team": "search", "env": "prod"}, "/good"),
    "invoice-mails": ("Send invoices", WEEKDAYS, {"team": "billing", "env": "prod"}, "/flaky"),
    "ledger-export": ("Export the ledger", NIGHTLY, {"team": "data"}, "/good"),
    "model-training": ("Train the forecast", WEEKDAYS, {"team": "data"}, "/good"),
    "quota-reset": ("Reset quotas", HOURLY, {"team": "platform"}, "/good"),
    "report-weekly": ("Weekly report", {"period": "@weekly"}, {"team": "data"}, "/bad"),
    "session-purge": ("Purge old sessions", QUARTER_HOURS, {"team": "web", "env": "prod"}, "/good"),
    "thumbnails": ("Draw thumbnails", QUARTER_HOURS, {"team": "web"}, "/good"),
}


def fill(service: ConsoleService, *, rounds: int = ROUNDS) -> None:
    """Creates the jobs of a small company, and lets them run; returns when they have."""
    replies = itertools.cycle([200, 200, 200, 503, 200])
    service.target.always("/good", Reply(200, {"rows": 1_280, "status": "ready"}))
    service.target.always("/bad", Reply(500, {"error": "the warehouse is closed"}))
    service.target.always("/flaky", lambda _: Reply(next(replies), {"batch": 7}))
    with service.caller() as client:
        for job_id, (name, timer, labels, path) in JOBS.items():
            client.post(f"/jobs/{job_id}", json=_definition(name, timer, labels, path)).raise_for_status()
        for _ in range(rounds):
            for job_id in JOBS:
                client.post(f"/jobs/{job_id}/trigger", json={}).raise_for_status()
            _until_quiet(client)
        client.put("/jobs/model-training", params={"active": 0}).raise_for_status()


def draw(browser: Browser, service: ConsoleService, folder: Path) -> None:
    """Draws the pictures of the filled service into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    console = Console(browser=browser, url=service.url)
    with service.caller() as client:
        query = {"jobId": "report-weekly", "limit": 1}
        failed = client.get("/executions", params=query).json()["data"]["items"][0]["executionId"]
    for name, place, dark in zip(NAMES, ("#/jobs", f"#/executions/{failed}"), (False, True), strict=True):
        page = console(place, dark=dark, width=WIDTH, height=HEIGHT)
        page.screenshot(path=folder / name)
    console.close()


def _definition(name: str, timer: dict[str, Any], labels: dict[str, str], path: str) -> dict[str, Any]:
    return {
        "jobName": name,
        "creator": labels["team"],
        "creatorName": labels["team"],
        "labels": labels,
        "timer": timer,
        "retry": [{"errorEquals": "5xx", "intervalSeconds": 0.2, "maxAttempts": 2}],
        "notification": [{"url": "service://shop/good", "stateEquals": ["finalFailed", "finalSucceed"]}],
        "request": [
            {
                "url": f"service://shop{path}",
                "body": {"day": "${schedulingFireTime}"},
                "respEnvName": "batch",
            },
            {"method": "GET", "url": "service://shop/good"},
        ],
    }


def _until_quiet(client: httpx.Client) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while (stats := client.get("/stats").json()["data"])["running"] + stats["waiting"] > 0:
        assert time.monotonic() < end, stats


def main() -> None:
    """Draws them anew."""
    program = find_chromium()
    if program is None:
        sys.exit(MISSING)
    with ConsoleService() as service, sync_playwright() as driver:
        fill(service)
        draw(launch(driver, program), service, FOLDER)


if __name__ == "__main__":
    main()
