"""The overview counts what is planned and what waits (SPEC section 17)."""

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.console.browsing import Console
from tests.console.service import ConsoleService
from tests.console.starter import Starter

OFTEN = [f"often-{number}" for number in range(20)]


def test_the_next_hour_is_counted_in_full(console: Console, service: ConsoleService) -> None:
    """Also where it has more firings than a page of the list: twenty jobs, each minute of the last forty."""
    common = {"jobName": "often", "request": [{"url": "service://shop/ok"}]}
    jobs = [{"jobId": name, "timer": {"dueTime": "20m", "period": "1m"}, **common} for name in OFTEN]
    with service.caller() as client:
        made = client.post("/jobs", json=jobs).json()["data"]["items"]
        assert {one["status"] for one in made} == {"created"}, made[0]
        page = console("#/")
        shown = page.get_by_role("link", name=re.compile(r"^([789]\d\d|1,\d+) firings$"))
        expect(shown).to_have_attribute("href", "#/upcoming?hours=1")
        for name in OFTEN:
            assert client.delete(f"/jobs/{name}").is_success


@pytest.mark.long
def test_what_waits_is_counted(console: Console, started: Starter) -> None:
    """Parts in queues: how many, and a way to them."""
    started.job("posters", {"url": "queue://posters"}, overlapPolicy="allow")
    for _ in range(2):
        started.run("posters")
    page = console("#/")
    line = page.get_by_role("link", name=re.compile(r"^Queues \d+ parts wait"))
    expect(line).to_have_attribute("href", "#/queues")


@pytest.mark.long
def test_a_job_that_needs_attention_is_listed_once(browser: Browser) -> None:
    """However many alerts are open for it; a failing job without one beside it, unless it is disabled."""
    told = {"on": "failing", "failingCount": 1, "url": "http://127.0.0.1:9/", "jobId": "broken"}
    alerts = [told | {"name": "one"}, told | {"name": "two"}]
    with ConsoleService(alerts=alerts) as service:
        service.target.always("/down", 500)
        starter, console = Starter(service), Console(browser=browser, url=service.url)
        for job_id in ("broken", "other", "silent"):
            starter.job(job_id, {"url": "service://shop/down"})
            starter.ended(job_id)
        with service.caller() as client:
            assert client.put("/jobs/silent?disabled=true").is_success
        page = console("#/")
        panel = page.locator("main .panel", has=page.get_by_role("heading", name="Needs attention"))
        expect(panel.locator(".line.bad", has_text="other")).to_have_count(1)
        expect(panel.locator(".line.bad", has_text="broken")).to_have_count(1)
        expect(panel.locator(".line.bad", has_text="broken")).to_have_attribute("href", "#/jobs/broken")
        expect(panel.locator(".line", has_text="silent")).to_have_count(0)
        starter.close()
        console.close()
    assert console.faults == []
