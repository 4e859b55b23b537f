"""The list of jobs and the page of one: many at once, out to a file and in again, and without a mouse."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.browsing import Console, box_of, evaluate, violations
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


@pytest.mark.long
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


FURTHER = ("overview", "executions", "schedule", "definition", "children")
HOSTILE = "<img src=x onerror=\"document.title='hit'\">"


@pytest.fixture
def ledger(service: ConsoleService, console: Console) -> Iterator[dict[str, Any]]:
    """A job in its second revision that fires at once and then each hour; it outlives its pages."""
    definition: dict[str, Any] = {
        "jobName": HOSTILE,
        "labels": {"of": "first"},
        "timer": {"dueTime": "0s", "period": "1h", "timezone": "Europe/Berlin"},
        "request": [{"url": "service://shop/ok"}],
        "paramsSchema": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}},
    }
    with service.caller() as client:
        assert client.post("/jobs/ledger", json=definition).is_success
        changed = {**definition, "labels": {"of": "second"}}
        assert client.post("/jobs/ledger/update", json=changed).is_success
        yield definition
        console.close()
        client.delete("/jobs/ledger")


@pytest.mark.parametrize("tab", ["calendar", *(pytest.param(one, marks=pytest.mark.long) for one in FURTHER)])
@pytest.mark.usefixtures("ledger")
def test_each_part_is_for_everyone(console: Console, tab: str) -> None:
    """Nothing for axe to find; a hostile name is shown as it is and does nothing."""
    page = console(f"#/jobs/ledger?tab={tab}", dark=tab == "calendar")
    expect(page.get_by_role("heading", level=1)).to_contain_text(HOSTILE)
    assert page.title() != "hit"
    assert violations(page) == []


def test_past_moments_are_shown_and_run(console: Console, service: ConsoleService, started: Starter) -> None:
    """First the moments of the last week, then their executions."""
    started.job("filled", {"url": "service://shop/ok"}, timer={"dueTime": "0s", "period": "0 0 0 * * ?"})
    page = console("#/jobs/filled")
    page.get_by_label("More actions").click()
    page.get_by_role("button", name="Run past moments").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Show them").click()
    expect(dialog.get_by_role("listitem")).to_have_count(7)
    assert violations(page) == []
    dialog.get_by_role("button", name="Run 7").click()
    page.wait_for_url("**triggeredBy=backfill**")
    with service.caller() as client:
        items = client.get("/jobs/filled/executions").json()["data"]["items"]
    assert [one["triggeredBy"] for one in items] == ["backfill"] * 7


def test_revisions_are_compared_and_one_restored(
    console: Console, service: ConsoleService, ledger: dict[str, Any]
) -> None:
    """The difference line by line; the first definition becomes the third revision."""
    page = console("#/jobs/ledger?tab=definition")
    difference = page.get_by_role("region", name="Comparison")
    expect(difference.get_by_role("row", name="removed")).to_contain_text('"of": "first"')
    expect(difference.get_by_role("row", name="added")).to_contain_text('"of": "second"')
    page.get_by_role("row", name="Compare from revision 1").get_by_role("button", name="Restore").click()
    page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    expect(page.get_by_text("Revision 1 is restored")).to_be_visible()
    with service.caller() as client:
        job = client.get("/jobs/ledger").json()["data"]
    assert (job["revision"], job["labels"]) == (3, ledger["labels"])


@pytest.mark.long
def test_a_change_meanwhile_is_not_overwritten(
    console: Console, service: ConsoleService, ledger: dict[str, Any]
) -> None:
    """Somebody else's revision stays: the restoration of one that was read before it is refused."""
    page = console("#/jobs/ledger?tab=definition")
    page.get_by_role("row", name="Compare from revision 1").get_by_role("button", name="Restore").click()
    page.route("**/jobs/ledger", lambda route: route.abort())
    console.expect("ERR_FAILED", "412")
    with service.caller() as client:
        assert client.post("/jobs/ledger/update", json={**ledger, "labels": {"of": "third"}}).is_success
    page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    expect(page.get_by_role("status").filter(has_text="revision")).to_be_visible()
    with service.caller() as client:
        assert client.get("/jobs/ledger").json()["data"]["labels"] == {"of": "third"}


@pytest.mark.usefixtures("ledger")
def test_the_calendar_has_planned_and_actual_firings(console: Console) -> None:
    """What happened and what is still to come on each day; a day that is chosen lists both."""
    page = console("#/jobs/ledger?tab=calendar")
    page.get_by_role("button", name="Today").click()
    today = page.get_by_role("button", pressed=True).and_(page.locator("[aria-current=date]"))
    expect(today).to_have_accessible_name(re.compile("succeeded"))
    expect(page.get_by_role("row", name="fired")).not_to_have_count(0)


def test_the_calendar_says_how_executions_ended(console: Console, service: ConsoleService) -> None:
    """A firing whose execution failed is no success: another sign and word, not the colour alone."""
    service.target.always("/broken", 500)
    definition: dict[str, Any] = {
        "jobName": "breaking",
        "timer": {"dueTime": "0s", "period": "1h"},
        "request": [{"url": "service://shop/broken"}],
    }
    with service.caller() as client:
        assert client.post("/jobs/breaking", json=definition).is_success
        page = console("#/jobs/breaking?tab=calendar")
        page.get_by_role("button", name="Today").click()
        today = page.get_by_role("button", pressed=True).and_(page.locator("[aria-current=date]"))
        expect(today).to_have_accessible_name(re.compile("1 failed"))
        expect(today).not_to_have_accessible_name(re.compile("fired|succeeded"))
        expect(today.locator(".day-count.bad .icon")).to_have_count(1)
        expect(today.locator(".day-count.good")).to_have_count(0)
        expect(today.locator(".day-bar .bad.failed")).to_have_count(1)
        expect(today.locator(".day-bar .good")).to_have_count(0)
        row = page.get_by_role("row", name="fired")
        expect(row.locator(".badge.bad")).to_have_text("failed")
        assert [one["state"] for one in client.get("/jobs/breaking/firings").json()["data"]["items"]] == [
            "terminated"
        ]
        console.close()
        client.delete("/jobs/breaking")


def test_a_chart_is_read_by_keys(console: Console) -> None:
    """One stop of the keyboard: arrows read it, Enter lists what stands behind a bar."""
    page = console("#/jobs/orders?range=24h")
    chart = page.get_by_role("slider", name="Executions by state")
    chart.focus()
    chart.press("ArrowLeft")
    if "succeeded" not in (chart.get_attribute("aria-valuetext") or ""):
        chart.press("ArrowLeft")  # a new bucket may have begun since they ran
    expect(chart).to_have_attribute("aria-valuetext", re.compile("succeeded"))
    chart.press("Enter")
    expect(page.get_by_role("button", name="Executions", pressed=True)).to_be_visible()
    assert "from=" in page.url


def test_scales_differences_and_days(any_page: Page) -> None:
    """What charts and calendars compute: full steps from nought, days of a clock change, lines that moved."""
    assert evaluate(any_page, "return core.scaleOfCounts(7).ticks.map((one) => one.value)") == [0, 5, 10]
    assert evaluate(any_page, "return core.scaleOfDurations(65000).ticks.map((one) => one.text)") == [
        "0",
        "30 s",
        "1 min",
        "1 min 30 s",
    ]
    hours = "(core.startOfDate('2027-03-29', argument) - core.startOfDate('2027-03-28', argument)) / 3600000"
    assert evaluate(any_page, f"return {hours}", "Europe/Berlin") == 23
    lines = evaluate(any_page, "return core.diffLines('a\\nb\\nc', 'a\\nc\\nd').map((one) => one.kind)")
    assert lines == ["same", "removed", "same", "added"]
