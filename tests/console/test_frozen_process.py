"""A worker process of the service stands still under an open page."""

import os
import signal
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.console.browsing import Console
from tests.wire.processes.process import serve

pytestmark = pytest.mark.long

JOB = {
    "timer": {"dueTime": "1d"},
    "request": [{"url": "http://127.0.0.1:9/"}],
}


def test_a_list_has_all_jobs_though_a_process_stands_still(browser: Browser, tmp_path: Path) -> None:
    """It is read from the one file of all processes."""
    with serve(tmp_path / "data", "--workers", "2") as process:
        url = process.wait_for_url()
        with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
            for number in range(8):  # of each process some
                client.post(
                    f"/jobs/kept{number}", json=JOB | {"jobName": f"Kept {number}"}
                ).raise_for_status()
            (node,) = client.get("/nodes").json()["data"]["items"]
        (frozen,) = (one["pid"] for one in node["processes"] if one["shard"] == 1)
        console = Console(browser=browser, url=url)
        os.kill(frozen, signal.SIGSTOP)
        try:
            page = console("#/jobs")
            for number in range(8):
                expect(page.get_by_text(f"Kept {number}")).to_be_visible()
        finally:
            os.kill(frozen, signal.SIGCONT)
        console.close()
    assert console.faults == []
