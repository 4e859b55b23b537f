"""What people come for, from the overview to the end, by what stands on the page; with its clicks counted."""

import re

import pytest
from playwright.sync_api import expect

from tests.console.browsing import Clicks, Console
from tests.console.service import ConsoleService
from tests.console.starter import Starter
from tests.wire.target import Reply

FORTY = 40


@pytest.fixture
def clicks() -> Clicks:
    """Those of one journey."""
    return Clicks()


@pytest.mark.long
def test_why_a_job_failed(
    console: Console, service: ConsoleService, started: Starter, clicks: Clicks
) -> None:
    """From what needs attention over the job to the answer that made it fail."""
    service.target.answers("/invoices", Reply(500, {"reason": "the printer has no paper"}))
    started.job("invoices", {"url": "service://shop/invoices"})
    started.ended("invoices")
    page = console()
    clicks.on(page.get_by_role("link", name="invoices failed with 500"))
    clicks.on(page.get_by_role("table", name="Latest executions").get_by_role("link").first)
    expect(page.get_by_role("note")).to_contain_text("the target answered 500 at step 1")
    expect(page.get_by_role("complementary", name="Details")).to_contain_text("the printer has no paper")
    assert clicks.count == 2


@pytest.mark.long
def test_a_failed_execution_goes_on_at_its_second_step(
    console: Console, service: ConsoleService, started: Starter, clicks: Clicks
) -> None:
    """With another parameter, and without the first step."""
    service.target.answers("/parcels/send", Reply(500, {"error": "too heavy"}))
    body = {"weight": "${trigger.weight}|json"}
    started.job(
        "parcels",
        {"url": "service://shop/parcels/pack"},
        {"url": "service://shop/parcels/send", "body": body},
    )
    started.ended("parcels", weight=30)
    page = console()
    clicks.on(page.get_by_role("link", name="Executions", exact=True))
    clicks.on(page.get_by_role("link", name="parcels #1"))
    clicks.on(page.get_by_role("button", name="Replay from here"))
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Parameters").fill('{"weight": 20}')
    clicks.on(dialog.get_by_role("button", name="Replay"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("parcels #2")
    expect(page.get_by_role("heading", level=1)).to_contain_text("succeeded")
    assert [one.json["weight"] for one in service.target.at("/parcels/send")] == [30, 20]
    assert len(service.target.at("/parcels/pack")) == 1
    assert clicks.count == 4


@pytest.mark.long
def test_forty_jobs_rest_and_go_on(
    console: Console, service: ConsoleService, started: Starter, clicks: Clicks
) -> None:
    """By their label: paused, and resumed when the work is done."""
    for number in range(FORTY):
        started.job(f"fleet-{number}", {"url": "service://shop/ok"}, labels={"fleet": "north"})
    page = console()
    clicks.on(page.get_by_role("link", name="Jobs", exact=True))
    clicks.on(page.get_by_role("link", name="fleet:north").first)
    actions = page.get_by_role("region", name="Actions on what is chosen")
    report = page.get_by_role("region", name="Report of the action")
    with service.caller() as client:
        for word, state in (("Pause", "paused"), ("Resume", "active")):
            clicks.on(page.get_by_role("checkbox", name="Choose all on this page"))
            clicks.on(actions.get_by_role("button", name=word))
            expect(page.get_by_role("dialog")).to_contain_text(f"{FORTY} jobs")
            clicks.on(page.get_by_role("dialog").get_by_role("button", name=word))
            expect(report).to_contain_text(f"{word}{FORTY} done, 0 failed")
            rows = page.get_by_role("row").filter(has_text="fleet:north")
            expect(rows.filter(has_text=state)).to_have_count(FORTY)
            query = {"label": "fleet:north", "state": state, "limit": 100}
            assert len(client.get("/jobs", params=query).json()["data"]["items"]) == FORTY
    assert clicks.count == 8


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


@pytest.mark.parametrize("kind", ["queues", "services"])
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
