"""The executions of all jobs: by state and error, without rows that jump, and many at once."""

import re

import pytest
from playwright.sync_api import expect

from tests.console.browsing import Console, violations
from tests.console.service import ConsoleService
from tests.console.starter import Starter
from tests.wire.target import Reply


def test_states_and_errors_are_counted_and_filter(
    console: Console, service: ConsoleService, started: Starter
) -> None:
    """The tabs carry counts; a click on an error lists those that failed so, and the address says it."""
    service.target.answers("/mixed", 200, 500, 404, 500)
    started.job("mixed", {"url": "service://shop/mixed"})
    for _ in range(4):
        started.ended("mixed")
    page = console("#/executions?jobId=mixed")
    expect(page.get_by_role("button", name="failed 3")).to_be_visible()
    expect(page.get_by_role("button", name="succeeded 1")).to_be_visible()
    page.get_by_role("button", name="By error").click()
    page.get_by_role("row", name=re.compile("^500 http 2")).get_by_role("link", name="500").click()
    expect(page.get_by_role("row", name="mixed #4")).to_contain_text("the target answered 500")
    expect(page.get_by_role("row", name="mixed #4")).to_contain_text(re.compile(r"· \w"))
    links = page.get_by_role("link", name=re.compile(r"^mixed #\d+$"))
    expect(links).to_have_text(["mixed #4", "mixed #2"])
    assert "error=500" in page.url
    assert violations(page) == []
    page.get_by_role("link", name="Clear filters").click()
    page.get_by_role("button", name="Failed first").click()
    table = page.get_by_role("table").last
    expect(table.get_by_role("row").nth(1)).to_contain_text("mixed #4")


def test_new_rows_wait_behind_a_button(console: Console, started: Starter) -> None:
    """What is under the pointer stays there until one asks for the rest. Jobs are suggested by a part."""
    started.job("calm", {"url": "service://shop/ok"})
    started.ended("calm")
    page = console("#/executions")
    field = page.get_by_role("combobox", name="Job id")
    field.fill("cal")
    expect(page.locator("option[value=calm]")).to_be_attached()
    field.fill("calm")
    with page.expect_response(re.compile(r"/executions\?jobId=calm")):
        field.press("Enter")
    names = page.get_by_role("link", name=re.compile(r"^calm #\d+$"))
    expect(names).to_have_text(["calm #1"])
    started.ended("calm")
    button = page.get_by_role("button", name="1 new")
    expect(button).to_be_visible()
    expect(names).to_have_text(["calm #1"])
    button.click()
    expect(names).to_have_text(["calm #2", "calm #1"])
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Open by id or name").fill("calm#last")
    page.get_by_role("option", name="calm#last").click()
    expect(page.get_by_role("heading", name="calm #2")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/executions/[^#]+-2$"))


@pytest.mark.long
def test_all_that_the_filters_find_are_replayed(
    console: Console, service: ConsoleService, started: Starter
) -> None:
    """Counted before, reported after; what is chosen is only where one begins."""
    service.target.always("/broken", Reply(500, {}))
    started.job("broken", {"url": "service://shop/broken"})
    for _ in range(3):
        started.ended("broken")
    page = console("#/executions?jobId=broken&state=terminated", height=1200)
    page.get_by_role("checkbox", name=re.compile("^Choose broken #")).first.click()
    page.get_by_role("button", name="Take all 3 that the filters find").click()
    page.get_by_role("region", name="Actions on what is chosen").get_by_role("button", name="Replay").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Replay 3 executions?")
    dialog.get_by_role("button", name="Replay").click()
    report = page.get_by_role("region", name="Report of the action")
    expect(report).to_contain_text("3 done, 0 failed")
    report.get_by_text("3 started").click()
    expect(report.get_by_role("link")).to_have_count(3)
    assert violations(page) == []


def test_an_undeliverable_notification_is_resolved(
    console: Console, service: ConsoleService, started: Starter
) -> None:
    """Its tries are read, it is sent once more in vain, and then dismissed, for which one is asked."""
    service.target.always("/deaf", 503)
    entry = {"url": "service://shop/deaf", "stateEquals": "finalSucceed", "guarantee": "outbox"}
    started.job("heard", {"url": "service://shop/ok"}, notification=[entry])
    started.ended("heard")
    page = console("#/deliveries?jobId=heard")
    expect(page.get_by_role("button", name="in the outbox, tried again 1")).to_be_visible()
    page.get_by_role("button", name="finalSucceed").click()
    expect(page.get_by_role("table").nth(1)).to_contain_text("503")
    assert violations(page) == []
    tries = len(service.target.at("/deaf"))
    page.get_by_role("button", name=re.compile("^Send .* again$")).click()
    expect(page.get_by_text("1 sent again")).to_be_visible()
    page.get_by_role("checkbox", name="Choose all on this page").click()
    page.get_by_role("button", name="Dismiss", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("They are not sent again")
    dialog.get_by_role("button", name="Dismiss").click()
    expect(page.get_by_text("1 dismissed")).to_be_visible()
    page.get_by_role("button", name="dismissed", exact=True).click()
    expect(page.get_by_role("button", name="finalSucceed")).to_be_visible()
    assert len(service.target.at("/deaf")) > tries
