"""What changes between a page and a click: jobs are destroyed, executions end, clicks come twice."""

import pytest
from playwright.sync_api import expect

from tests.console.browsing import Console, hold_up
from tests.console.service import ConsoleService
from tests.console.starter import Starter

STEP = {"url": "service://shop/ok"}


def test_titles_name_what_is_shown(console: Console) -> None:
    """WCAG 2.4.2: the id, then the screen; in the language that is chosen, at once."""
    page = console("#/jobs/orders")
    expect(page).to_have_title("orders · Jobs · Punctual")
    page.get_by_role("button", name="中文").click()
    expect(page).to_have_title("orders · 任务 · Punctual")
    page.get_by_role("button", name="EN", exact=True).click()
    page.get_by_role("link", name="Edit", exact=True).click()
    expect(page).to_have_title("Edit orders · Punctual")


def test_a_double_click_replays_once(console: Console, started: Starter, service: ConsoleService) -> None:
    """The button does nothing while the first click is under way."""
    started.job("replayed-once", STEP)
    page = console(f"#/executions/{started.ended('replayed-once')}")
    page.get_by_role("button", name="Replay", exact=True).click()
    held = hold_up(page, "**/replay")
    button = page.get_by_role("dialog").get_by_role("button", name="Replay", exact=True)
    button.click()
    expect(button).to_be_disabled()
    button.evaluate("one => one.form.requestSubmit()")
    for route in held:
        route.continue_()
    expect(page.get_by_text("#2").first).to_be_visible()
    assert len(held) == 1
    with service.caller() as client:
        rows = client.get("/executions", params={"jobId": "replayed-once"}).json()["data"]["items"]
    assert len(rows) == 2, rows


@pytest.mark.long
def test_a_job_page_says_that_its_job_is_destroyed(
    console: Console, started: Starter, service: ConsoleService
) -> None:
    """Nothing can be done with it any more."""
    console.expect("404")
    started.job("gone-meanwhile", STEP)
    page = console("#/jobs/gone-meanwhile")
    with service.caller() as client:
        assert client.delete("/jobs/gone-meanwhile").is_success
    expect(page.get_by_role("heading", name="This job has been deleted")).to_be_visible()
    expect(page.get_by_role("button", name="Run now")).to_have_count(0)
    expect(page.get_by_role("link", name="Edit", exact=True)).to_have_count(0)


@pytest.mark.long
def test_a_file_without_definitions_is_refused_as_such(console: Console) -> None:
    """An item that has no id is named by its number."""
    page = console("#/jobs")
    page.get_by_role("button", name="Import").click()
    field = page.get_by_label("File")
    field.set_input_files({"name": "a.json", "mimeType": "application/json", "buffer": b'{"items": 5}'})
    expect(page.get_by_role("alert")).to_contain_text("This file has no definitions")
    field.set_input_files({"name": "b.json", "mimeType": "application/json", "buffer": b'[{"jobName": "x"}]'})
    page.get_by_role("button", name="Import 1 job").click()
    expect(page.get_by_role("dialog").get_by_role("row").last).to_contain_text("item 1")
