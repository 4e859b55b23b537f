"""Two tabs, late answers and a restart: nobody's work is lost, and no older answer wins."""

from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, expect

from tests.console.browsing import Console, hold_up
from tests.console.service import ConsoleService
from tests.console.starter import Starter

STEP = {"url": "service://shop/ok"}


def test_two_tabs_edit_one_job(console: Console, service: ConsoleService, started: Starter) -> None:
    """The second one learns of what the first has saved, combines both, and both are in the definition."""
    started.job("two-tabs-edit", STEP)
    first, second = console("#/jobs/two-tabs-edit/edit"), console("#/jobs/two-tabs-edit/edit")
    second.get_by_label("Name", exact=True).fill("Of the second tab")
    first.bring_to_front()
    first.get_by_text("Description, labels, creator").click()
    first.get_by_label("Description", exact=True).fill("Of the first tab")
    first.get_by_role("button", name="Save", exact=True).click()
    expect(first.get_by_role("heading", level=1)).to_contain_text("two-tabs-edit")
    second.bring_to_front()
    expect(second.get_by_role("heading", name="Somebody else has saved this job meanwhile")).to_be_visible()
    second.get_by_role("button", name="Combine both").click()
    second.get_by_role("button", name="Save", exact=True).click()
    expect(second.get_by_role("heading", level=1)).to_contain_text("Of the second tab")
    with service.caller() as client:
        stored = client.get("/jobs/two-tabs-edit").json()["data"]["definition"]
    assert (stored["jobName"], stored["jobDescription"]) == ("Of the second tab", "Of the first tab")
    # Pages of a job that is destroyed would ask for it in vain.
    first.close()
    second.close()


def test_an_older_answer_never_replaces_a_newer_one(console: Console) -> None:
    """Of a filter that is typed fast, the last stroke counts, in whichever order the answers come."""
    page = console("#/jobs")
    held = hold_up(page, "**/jobs?text=hourl&*")
    search = page.get_by_role("searchbox")
    # The page asks a moment after the last stroke: typed at once, the first word would never be asked for.
    with page.expect_request("**/jobs?text=hourl&*"):
        search.fill("hourl")
    with page.expect_response("**/jobs?text=nightly&*"):
        search.fill("nightly")
    rows = page.get_by_role("checkbox", name="Choose nightly", exact=True)
    expect(rows).to_be_visible()
    assert held
    for route in held:
        with suppress(Error):
            route.continue_()
    console.settle(page)
    expect(rows).to_be_visible()
    expect(page.get_by_role("checkbox", name="Choose hourly", exact=True)).to_have_count(0)


@pytest.mark.long
def test_colours_are_chosen_for_all_tabs_to_come(console: Console) -> None:
    """The button goes from the system's to light to dark, and the browser remembers it."""
    page = console("#/jobs")
    root = page.locator("html")
    expect(root).to_have_attribute("data-theme", "auto")
    for name, theme in (("Colours as the system has them", "light"), ("Light", "dark")):
        page.get_by_role("button", name=name).click()
        expect(root).to_have_attribute("data-theme", theme)
    expect(console("#/upcoming").locator("html")).to_have_attribute("data-theme", "dark")


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


pytestmark = pytest.mark.long


def test_a_half_filled_form_outlives_a_restart(browser: Browser, tmp_path: Path) -> None:
    """The page says that nobody answers, keeps what was written, and saves it once the service is back."""
    folder = {"data": str(tmp_path / "data")}
    with ConsoleService(store=folder) as service:
        console = Console(browser=browser, url=service.url)
        console.expect("Failed to load resource", "net::ERR")
        page = console("#/new")
        page.get_by_label("Name", exact=True).fill("Half a job")
        port = int(service.url.rpartition(":")[2])
    page.get_by_label("Address").fill("service://shop/ok")
    expect(page.get_by_text("No answer for")).to_be_visible(timeout=60_000)
    with ConsoleService(store=folder, port=port) as service:
        expect(page.get_by_text("Connected")).to_be_visible(timeout=60_000)
        expect(page.get_by_label("Name", exact=True)).to_have_value("Half a job")
        page.get_by_role("button", name="Create job").click()
        expect(page).to_have_url(f"{service.url}/console/#/jobs/half-a-job", timeout=60_000)
        with service.caller() as client:
            saved = client.get("/jobs/half-a-job").json()["data"]["definition"]
        assert saved["request"][0]["url"] == "service://shop/ok"
        console.close()
    assert console.faults == []
