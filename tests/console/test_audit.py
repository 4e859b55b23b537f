"""The audit in a browser: who paused a job is found, with what was changed (SPEC sections 14, 17)."""

import re
from typing import Any

from playwright.sync_api import expect

from tests.console.browsing import Console
from tests.console.service import ConsoleService

DEFINITION: dict[str, Any] = {
    "jobName": "found by its audit",
    "creator": "1",
    "creatorName": "one",
    "timer": {"period": "external"},
    "request": [{"url": "http://127.0.0.1:9/run", "headers": {"X-Tie": "a secret tie"}}],
}


def test_who_paused_a_job_is_found(console: Console, service: ConsoleService) -> None:
    """By the job, in the address too; a line that is opened has the difference, with no value of a header."""
    step = {"url": "http://127.0.0.1:9/run", "headers": {"X-Tie": "another tie"}}
    with service.caller() as caller:
        caller.post("/jobs/audited", json=DEFINITION).raise_for_status()
        changed = DEFINITION | {"jobName": "renamed", "request": [step]}
        caller.post("/jobs/audited/update", json=changed).raise_for_status()
        caller.put("/jobs/audited?active=0").raise_for_status()
    page = console("#/audit?jobId=audited")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("switchJob")
    expect(rows.nth(0)).to_contain_text("127.0.0.1")
    rows.nth(1).get_by_role("button").click()
    opened = page.locator("tr.unfolded")
    expect(opened).to_contain_text("/jobName")
    expect(opened).to_contain_text("found by its audit")
    expect(opened).to_contain_text("renamed")
    expect(opened).to_contain_text("***")
    expect(page.locator("body")).not_to_contain_text("a secret tie")
    page.get_by_label("Operation").fill("switchJob")
    page.get_by_label("Operation").press("Enter")
    expect(rows).to_have_count(1)
    assert "operation=switchJob" in page.url
    rows.first.get_by_role("link", name="audited").click()
    expect(page).to_have_url(re.compile("#/jobs/audited"))
    page.locator(".job-menu summary").click()
    page.get_by_role("link", name="Who changed it").click()
    expect(rows).to_have_count(3)


def test_what_fits_nothing_says_so(console: Console) -> None:
    """And leads back to all changes."""
    page = console("#/audit?who=nobody")
    page.get_by_text("No change fits").wait_for()
    page.get_by_role("link", name="All changes").click()
    expect(page.locator("tbody tr").first).to_be_visible()
