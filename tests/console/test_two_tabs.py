"""Late answers, double clicks and titles: no older answer wins, and nothing is done twice."""

from contextlib import suppress

from playwright.sync_api import Error, expect

from tests.console.browsing import Console, hold_up
from tests.console.service import ConsoleService
from tests.console.starter import Starter

STEP = {"url": "service://shop/ok"}


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
