"""Both languages on every screen: its texts come with it, and the other ones when the reader switches."""

import json
import re
from importlib.resources import as_file

import pytest
from playwright.sync_api import Page, expect

from scheduler_service.console.assets import own_files
from tests.console.browsing import Console, evaluate
from tests.console.service import ConsoleService

PLACES = (
    "", "jobs", "new", "jobs/orders", "jobs/orders/edit", "executions", "upcoming", "calendars",
    "calendars/office", "new-calendar", "deliveries", "services",
    "queues", "nodes", "alerts", "keys", "audit", "settings",
)  # fmt: skip
ARE_HAN = """(wanted) => {
  const told = [...document.querySelectorAll("main h1, main h2, main th, main dt")];
  return told.length > 0 && told.some((one) => /[\\u4e00-\\u9fff]/.test(one.textContent)) === wanted;
}"""
"""Whether the headings are in the language that is wanted: those of a screen may come after the switch."""
READ = """(known) => {
  const found = [document.title];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { currentNode: node } = walker;
    if (node.nodeType === Node.TEXT_NODE) found.push(node.data);
    else for (const name of ["aria-label", "title", "placeholder"]) found.push(node.getAttribute(name) ?? "");
  }
  const keys = new Set(known);
  return found.flatMap((text) => text.split(/[\\s,;:·()]+/)).filter((word) => keys.has(word));
}"""


def keys() -> list[str]:
    """The keys of all texts, as modules name them."""
    with as_file(own_files() / "language/en.json") as file:
        return [re.sub(r"\.(one|other)$", "", key) for key in json.loads(file.read_text(encoding="utf-8"))]


def switch(console: Console, page: Page, name: str) -> None:
    """Chooses the language that its button names."""
    page.get_by_role("button", name=name, exact=True).click()
    page.locator(f"html[lang='{'zh-CN' if name == '中文' else 'en'}']").wait_for(state="attached")
    console.settle(page)


def test_each_screen_has_its_texts_after_a_switch(
    console: Console, service: ConsoleService, request: pytest.FixtureRequest
) -> None:
    """Screen by screen (`--long`: all) in one page, back and forth: no key, and headings of the language."""
    known = keys()
    with service.caller() as client:
        execution = client.get("/executions", params={"jobId": "orders", "limit": 1}).json()["data"]["items"][
            0
        ]
    page = console("#/jobs")
    switch(console, page, "中文")
    places = [*PLACES, f"executions/{execution['executionId']}"]
    for place in places if request.config.getoption("--long") else places[::4]:
        page.goto(f"{service.url}/console/#/{place}")
        console.settle(page)
        for button, other in (("EN", "中文"), ("中文", "EN")):
            switch(console, page, button)
            expect(page.get_by_role("button", name=other, exact=True)).to_be_visible()
            page.wait_for_function(ARE_HAN, arg=button == "中文")
            assert page.evaluate(READ, known) == [], (place, button)


def test_a_switch_while_a_screen_comes(console: Console) -> None:
    """The screen has its texts in the language that was chosen meanwhile."""
    page = console("#/jobs")
    held = []
    page.route("**/screens/queues.en.js", lambda route: held.append(route))
    page.goto(f"{console.url}/console/#/queues")
    page.get_by_role("button", name="中文", exact=True).click()
    page.get_by_role("button", name="EN", exact=True).wait_for()
    for route in held:
        route.continue_()
    expect(page.get_by_role("heading", level=1)).to_have_text("队列")
    console.settle(page)
    assert page.evaluate(READ, keys()) == []


@pytest.mark.long
def test_moments_are_written_alike_in_each_language(console: Console) -> None:
    """In the zone that is given; without a date, and with milliseconds."""
    at = "2026-03-04T05:06:07.089Z"
    for page in (console("#/jobs"), console.in_language("zh")("#/jobs")):
        formats = "[{}, {withMs: true}, {withDate: false}].map((one) => core.formatMoment(argument, one))"
        assert evaluate(page, f"return {formats}", at) == [
            "2026-03-04 06:06:07",
            "2026-03-04 06:06:07.089",
            "06:06:07",
        ]


@pytest.mark.long
def test_timers_are_told_in_the_language_of_the_page(console: Console) -> None:
    """The service words them; after a switch they are asked for anew, on each screen."""
    page = console("#/jobs?text=nightly")
    for place in ("jobs?text=nightly", "jobs/nightly", "jobs/nightly/edit"):
        page.goto(f"{console.url}/console/#/{place}")
        main = page.get_by_role("main")
        expect(main).to_contain_text("At 02:30 every day")
        switch(console, page, "中文")
        expect(main).to_contain_text("每天 02:30（Europe/Berlin 时间）")
        expect(main).not_to_contain_text("every day")
        switch(console, page, "EN")
