"""What changes between a page and a click: jobs are destroyed, executions end, clicks come twice."""

import pytest
from playwright.sync_api import expect

from tests.console.browsing import Console, hold_up
from tests.console.service import ConsoleService
from tests.console.starter import Starter

STEP = {"url": "service://shop/ok"}


@pytest.mark.long
def test_a_screen_that_is_left_asks_nothing_of_the_next_ones_query(console: Console) -> None:
    """Jobs know no state `terminated`; while the next screen is loaded, the list of jobs still stands."""
    page = console("#/jobs")
    console.answers.clear()
    page.evaluate("location.hash = '#/executions?state=terminated'")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Executions")
    console.settle(page)
    asked = [one.request.url for one in console.answers]
    assert not [url for url in asked if "/jobs?" in url and "state=terminated" in url], asked


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
def test_an_execution_of_a_destroyed_job_is_not_replayed(
    console: Console, started: Starter, service: ConsoleService
) -> None:
    """The button says why."""
    console.expect("404")
    started.job("gone-before", STEP)
    execution = started.ended("gone-before")
    with service.caller() as client:
        assert client.delete("/jobs/gone-before").is_success
    page = console(f"#/executions/{execution}")
    button = page.get_by_role("button", name="Replay", exact=True)
    expect(button).to_be_disabled()
    expect(button).to_have_accessible_description("Its job is deleted: nothing is left to replay.")


@pytest.mark.long
def test_cancelling_what_has_ended_closes_the_dialog(
    console: Console, started: Starter, service: ConsoleService
) -> None:
    """It says why, and there is nothing left to cancel."""
    console.expect("409")
    started.job("ended-meanwhile", {"url": "queue://ended-meanwhile"})
    execution = started.run("ended-meanwhile")
    page = console(f"#/executions/{execution}")
    page.get_by_role("button", name="Cancel it").click()
    dialog = page.get_by_role("dialog")
    with service.caller() as client:
        assert client.post(f"/executions/{execution}/cancel", json={}).is_success
    dialog.get_by_role("button", name="Cancel it").click()
    expect(dialog).to_have_count(0)
    expect(page.locator(".notice")).not_to_contain_text("/executionId")


@pytest.mark.long
def test_a_refused_filter_counts_nothing(console: Console) -> None:
    """The list says what is wrong, and no number stands above it; the words have no pointer."""
    console.expect("422")
    page = console("#/jobs?state=bogus")
    expect(page.get_by_role("alert")).to_contain_text("state")
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    expect(page.get_by_role("alert")).not_to_contain_text("/state:")


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
