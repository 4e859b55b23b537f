"""The list of jobs in a browser: many at once, out to a file and in again, and without a mouse."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.browsing import Console, box_of, violations
from tests.console.service import ConsoleService
from tests.console.starter import Starter

NUMBER = 60
"""More than a page has."""


@pytest.fixture
def crew(service: ConsoleService) -> Iterator[list[dict[str, Any]]]:
    """Jobs with the label `crew:night`; they are gone afterwards."""
    definitions = [
        {
            "jobId": f"crew-{number:02}",
            "jobName": f"Of the crew {number}",
            "creator": "1",
            "creatorName": "Ada",
            "labels": {"crew": "night"},
            "timer": {"period": "0 15 4 * * ?", "timezone": "Europe/Berlin"},
            "request": [{"url": "service://shop/ok"}],
        }
        for number in range(NUMBER)
    ]
    with service.caller() as client:
        assert client.post("/jobs", json=definitions).is_success
        yield definitions
        client.post("/bulk/jobs", json={"action": "destroy", "select": {"filter": {"label": ["crew:night"]}}})


def test_all_that_a_label_finds_are_paused(
    console: Console, service: ConsoleService, crew: list[dict[str, Any]]
) -> None:
    """Also those of other pages: counted before, reported after; the timers stand there in words."""
    page = console("#/jobs?label=crew:night")
    expect(page.get_by_text("At 04:15 every day, Europe/Berlin time").first).to_be_visible()
    page.get_by_role("checkbox", name="Choose all on this page").click()
    page.get_by_role("button", name=f"Take all {NUMBER} that the filters find").click()
    page.get_by_role("region", name="Actions on what is chosen").get_by_role("button", name="Pause").click()
    question = page.get_by_role("dialog", name=f"Pause {NUMBER} jobs?")
    assert violations(page) == []
    question.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("region", name="Report of the action")).to_contain_text(
        f"{NUMBER} done, 0 failed"
    )
    with service.caller() as client:
        counted = client.get("/counts/jobs", params={"label": "crew:night"}).json()["data"]["byState"]
    assert counted["paused"] == NUMBER


def test_what_is_exported_is_imported_again(
    console: Console, service: ConsoleService, crew: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Definitions in full; a job that exists is left as it is, one that is wrong says why."""
    page = console("#/jobs?label=crew:night")
    for number in (0, 1):
        page.get_by_role("checkbox", name=f"Choose crew-0{number}", exact=True).click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export").click()
    file = tmp_path / "jobs.json"
    saved.value.save_as(file)
    definitions = json.loads(file.read_text())
    assert definitions == crew[:2]
    with service.caller() as client:
        client.delete("/jobs/crew-00")
    definitions.append({**crew[2], "jobName": ""})
    file.write_text(json.dumps(definitions))
    _import(page, file, len(definitions))
    report = page.get_by_role("dialog", name="Import jobs")
    for words in ("1 created", "1 unchanged", "1 refused", "/jobName"):
        expect(report).to_contain_text(words)
    assert violations(page) == []


def test_long_names_leave_the_table_its_columns(console: Console, started: Starter) -> None:
    """A name of 200 letters and an id of 128 break into lines; the row's actions stay in the window."""
    job_id = "longest-" + "i" * 120
    started.job(job_id, {"url": "service://shop/ok"}, jobName="n" * 200)
    page = console("#/jobs?text=longest-")
    last = page.get_by_role("row").filter(has_text=job_id).get_by_role("button").last
    box = box_of(last)
    assert box["x"] + box["width"] <= 1440
    assert box_of(page.locator("td.job-name"))["width"] <= 500


def _import(page: Page, file: Path, count: int) -> None:
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_label("File").set_input_files(file)
    page.get_by_role("button", name=f"Import {count} jobs").click()
