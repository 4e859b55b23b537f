"""What people come for, from the overview to the end, by what stands on the page; with its clicks counted."""

import re
from contextlib import suppress

import pytest
from playwright.sync_api import Error, expect

from tests.console.browsing import Clicks, Console, hold_up
from tests.console.service import ConsoleService
from tests.console.starter import Starter


@pytest.fixture
def clicks() -> Clicks:
    """Those of one journey."""
    return Clicks()


def test_what_a_schedule_does_when_clocks_change(console: Console, clicks: Clicks) -> None:
    """At half past two of each night in Berlin: one night has no such moment, and one has it twice."""
    page = console()
    clicks.on(page.get_by_role("link", name="Jobs", exact=True))
    clicks.on(page.get_by_role("link", name="The job nightly"))
    clicks.on(page.get_by_role("button", name="Schedule"))
    changes = page.get_by_role("list", name="Clock changes").get_by_role("listitem")
    expect(changes).to_have_count(2)
    forward, back = changes.filter(has_text="clocks go forward"), changes.filter(has_text="clocks go back")
    expect(forward).to_contain_text(re.compile(r"Mar .*03:00:00.*1 firing"))
    expect(back).to_contain_text(re.compile(r"Oct .*02:30:00.*1 firing"))
    assert clicks.count == 3


def test_a_part_that_is_stuck_is_freed(
    console: Console, service: ConsoleService, started: Starter, clicks: Clicks
) -> None:
    """Which instance holds it stands in its queue; another one may claim it then."""
    started.job("films", {"url": "queue://films", "leaseSeconds": 600, "unexpectedRetryDelaySeconds": 0})
    execution = started.run("films")
    with service.caller() as client:
        claim = {"instanceId": "worker-7", "max": 1, "waitSeconds": 10}
        assert client.post("/queues/films/claim", json=claim).is_success
        page = console()
        clicks.on(page.get_by_role("link", name="Queues", exact=True))
        clicks.on(page.get_by_role("link", name="films"))
        held = page.get_by_role("row", name=re.compile("worker-7"))
        expect(held).to_contain_text(execution)
        clicks.on(held.get_by_role("button", name="Free"))
        clicks.on(page.get_by_role("dialog").get_by_role("button", name="Free"))
        expect(page.get_by_text("Nothing is held")).to_be_visible()
        claimed = client.post("/queues/films/claim", json=claim | {"instanceId": "worker-8"}).json()["data"]
        assert [one["executionId"] for one in claimed["items"]] == [execution]
    assert clicks.count == 4


@pytest.mark.parametrize("kind", ["queues", pytest.param("services", marks=pytest.mark.long)])
def test_a_queue_or_a_service_is_paused_and_goes_on(
    console: Console, service: ConsoleService, clicks: Clicks, kind: str
) -> None:
    """From its page; the mark stands there and in the list."""
    with service.caller() as client:
        assert client.put("/services/halted", json={"address": service.url}).is_success
        assert client.post("/queues/halted/pause").is_success
        assert client.post("/queues/halted/resume").is_success
        page = console(f"#/{kind}/halted")
        clicks.on(page.get_by_role("button", name="Pause", exact=True))
        expect(page.get_by_role("heading", name="halted")).to_contain_text("paused")
        assert client.get(f"/{kind}/halted").json()["data"]["paused"] is True
        page.goto(f"{service.url}/console/#/{kind}")
        expect(page.get_by_role("row", name=re.compile("halted"))).to_contain_text("paused")
        clicks.on(page.get_by_role("link", name="halted"))
        clicks.on(page.get_by_role("button", name="Resume", exact=True))
        expect(page.get_by_role("heading", name="halted")).not_to_contain_text("paused")
        assert client.get(f"/{kind}/halted").json()["data"]["paused"] is False
        assert client.delete("/services/halted").is_success
    assert clicks.count == 3


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
