"""A worker process of the service stands still under an open page."""

import os
import signal
from pathlib import Path

import httpx
from playwright.sync_api import Browser, expect

from tests.console.browsing import Console
from tests.wire.processes.process import serve

SILENT = "worker process 1 does not answer"
JOB = {
    "jobName": "Kept over a pause",
    "timer": {"dueTime": "1d"},
    "request": [{"url": "http://127.0.0.1:9/"}],
}


def test_a_list_says_that_a_process_stands_still_and_goes_on(browser: Browser, tmp_path: Path) -> None:
    """A message names the process instead of an empty list; the rows come by themselves once it goes on."""
    with serve(tmp_path / "data", "--workers", "2") as process:
        url = process.wait_for_url()
        with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
            client.post("/jobs/kept", json=JOB).raise_for_status()
            (node,) = client.get("/nodes").json()["data"]["items"]
        (frozen,) = (one["pid"] for one in node["processes"] if one["shard"] == 1)
        console = Console(browser=browser, url=url)
        console.expect("503")
        os.kill(frozen, signal.SIGSTOP)
        try:
            page = console("#/jobs")
            expect(page.get_by_text(SILENT)).to_be_visible()
            expect(page.get_by_text("No jobs yet")).to_have_count(0)
        finally:
            os.kill(frozen, signal.SIGCONT)
        expect(page.get_by_text("Kept over a pause")).to_be_visible()
        expect(page.get_by_text(SILENT)).to_have_count(0)
        console.close()
    assert console.faults == []
