"""Two tabs of one browser, and two answers to one list: nobody's work is lost, and no older answer wins."""

from contextlib import suppress

import pytest
from playwright.sync_api import Error, expect

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
