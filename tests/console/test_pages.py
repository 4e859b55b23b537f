"""The console's pages: what they load, keys, notices, languages, operations; nothing is refused."""

import json
import re
from collections.abc import Iterator
from importlib.resources import as_file
from itertools import product
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from scheduler_service.console.assets import own_files
from tests.console.browsing import Console, violations
from tests.console.conftest import KEY, PREFIX
from tests.console.places import PLACES, address_of
from tests.console.service import ConsoleService
from tests.console.starter import Starter

KIB = 1_024
FIRST_VISIT = 116 * KIB


def test_a_first_visit_is_light(console: Console) -> None:
    """The list of jobs: at most 12 requests and FIRST_VISIT; then at most 20 KiB."""
    page = console("#/jobs")
    assert page.get_by_text("orders").first.is_visible()
    first = console.sizes()
    assert len(first) <= 12, first
    assert sum(first.values()) <= FIRST_VISIT, first
    console.answers.clear()
    page.reload()
    console.settle(page)
    assert sum(console.sizes().values()) <= 20 * KIB, console.sizes()


def test_the_policy_is_strict_and_holds(console: Console) -> None:
    """Scripts of the page itself run; what is put into it does not, and the browser says so."""
    page = console("#/jobs")
    policy = console.answers[0].headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    console.expect("Content Security Policy")
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = true'}))"
    )
    assert page.evaluate("window.ran === undefined")


def test_signing_in_and_out_below_a_path(guarded_console: Console) -> None:
    """With a key of the service, in blanks; a wrong one is refused, and its cookie is closed to scripts."""
    guarded_console.expect("401")
    page = guarded_console("#/jobs")
    field = page.get_by_label("Key", exact=False).first
    for key in ("a-wrong-key-of-ours", f"  {KEY} "):
        field.fill(key)
        page.locator("form button").first.click()
        if KEY not in key:
            page.get_by_role("alert").wait_for()
    page.locator("nav").first.wait_for()
    guarded_console.settle(page)
    kept = {cookie["name"]: cookie for cookie in guarded_console.context.cookies()}["punctual_session"]
    assert (kept["path"], kept["httpOnly"], kept["sameSite"]) == (PREFIX, True, "Strict")
    assert "punctual_session" not in page.evaluate("document.cookie")
    assert all(PREFIX in answer.url for answer in guarded_console.answers)
    page.reload()
    page.locator("nav").first.wait_for()
    page.evaluate("fetch('../session', {method: 'DELETE', headers: {'X-Punctual-Console': '1'}})")
    page.reload()
    page.locator("form input[type=password]").wait_for()


WIDE, NARROW = 1_440, 390
LOOKS = list(product(("light", "dark"), (WIDE, NARROW)))


def screens() -> Iterator[object]:
    """Every fifth place in one language and look, these in turns; `--long`: all in both and all looks."""
    for number, place in enumerate(PLACES[::5]):
        yield pytest.param(place, ("en", "zh")[number % 2], [LOOKS[number // 2 % len(LOOKS)]])
    for place, language in product(PLACES, ("en", "zh")):
        yield pytest.param(place, language, LOOKS, marks=pytest.mark.long)


@pytest.mark.parametrize(("place", "language", "looks"), [*screens()])
def test_a_screen_in_all_its_looks(
    console: Console, service: ConsoleService, place: str, language: str, looks: list[tuple[str, int]]
) -> None:
    """axe finds nothing by WCAG 2.2 AA, and nothing makes the page scroll sideways."""
    page = console.in_language(language)(address_of(service, place))
    for colours, width in looks:
        page.emulate_media(color_scheme="dark" if colours == "dark" else "light", reduced_motion="reduce")
        page.set_viewport_size({"width": width, "height": 900})
        assert violations(page) == [], (place, colours, width, language)
        assert _overhang(page) <= 0, (place, colours, width, language)


def _overhang(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    found: int = page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
    return found


MOST_TABS = 5


def test_jobs_are_found_paused_and_opened_without_a_mouse(console: Console, started: Starter) -> None:
    """The palette opens one; the list is searched, two are chosen and paused; `?` tells the keys."""
    for number in range(3):
        started.job(f"keyed-{number}", {"url": "service://shop/ok"})
    page = console()
    head = page.get_by_role("heading", level=1)
    page.keyboard.press("Control+k")
    page.keyboard.type("keyed-2")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_contain_text("keyed-2")
    page.keyboard.press("Enter")
    expect(head).to_contain_text("keyed-2")
    press(page, "g", "j")
    expect(head).to_contain_text("Jobs")
    console.settle(page)
    page.keyboard.press("/")
    page.keyboard.type("keyed-")
    rows = page.get_by_role("checkbox", name=re.compile("^Choose (?!all )"))
    expect(rows).to_have_count(3)
    press(page, "Enter", "j", "j", "k", "x", "j", "x")
    for row, is_chosen in zip(rows.all(), (True, True, False), strict=True):
        expect(row).to_be_checked(checked=is_chosen)
    actions = page.get_by_role("region", name="Actions on what is chosen")
    page.keyboard.press("a")
    expect(actions.get_by_role("button", name="Pause")).to_be_focused()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Pause 2 jobs?")
    to(page, dialog.get_by_role("button", name="Pause"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Report of the action")).to_contain_text("2 done, 0 failed")
    expect(page.get_by_role("row", name="Choose keyed-1")).to_contain_text("paused")
    page.keyboard.press("Enter")
    expect(head).to_contain_text("keyed-1paused")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Search and commands")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def press(page: Page, *keys: str) -> None:
    """Presses them one after the other."""
    for key in keys:
        page.keyboard.press(key)


def to(page: Page, target: Locator) -> None:
    """Presses Tab until the target has the keyboard."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if target.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"Tab does not come to {target}")


TRANSLATED = (
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
    places = [*TRANSLATED, f"executions/{execution['executionId']}"]
    for place in places if request.config.getoption("--long") else places[::4]:
        page.goto(f"{service.url}/console/#/{place}")
        console.settle(page)
        for button, other in (("EN", "中文"), ("中文", "EN")):
            switch(console, page, button)
            expect(page.get_by_role("button", name=other, exact=True)).to_be_visible()
            page.wait_for_function(ARE_HAN, arg=button == "中文")
            assert page.evaluate(READ, known) == [], (place, button)


@pytest.mark.long
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


OPERATION: dict[str, Any] = {
    "operationId": "0" * 32, "kind": "jobs", "action": "trigger", "state": "running", "total": 4000,
    "done": 10, "succeeded": 10, "failed": 0, "problems": [], "moreProblems": 0,
    "started": [], "moreStarted": 0,
}  # fmt: skip


class Losing:
    """A service that loses its answers to the first two requests of an operation, which then ends at once.

    `begun` are the requests that began it: their keys and bodies.
    """

    def __init__(self, page: Page, **end: Any) -> None:
        self.begun: list[tuple[str | None, str | None]] = []
        page.route("**/bulk/jobs", self._begin)
        page.route("**/operations/*", lambda route: route.fulfill(json={"data": OPERATION | end}))

    def _begin(self, route: Route) -> None:
        is_dry = route.request.post_data_json["dryRun"]
        if not is_dry:
            self.begun.append((route.request.headers.get("idempotency-key"), route.request.post_data))
            if len(self.begun) <= 2:
                route.abort()
                return
        operation = None if is_dry else OPERATION
        route.fulfill(
            json={"data": {"dryRun": is_dry, "count": 1, "first": ["nightly"], "operation": operation}}
        )


def test_an_action_whose_answer_is_lost_is_asked_for_again_under_its_key(console: Console) -> None:
    """It may have begun: *Go on* does not begin another one. What was to be said of its choice is shown."""
    console.expect("Failed to load resource", "net::ERR")
    page = console("#/jobs?text=nightly")
    behind = {"pointer": "", "code": "history_behind", "message": "the history is behind"}
    service = Losing(page, state="done", succeeded=4000, warnings=[behind])
    page.get_by_role("checkbox", name="Choose nightly", exact=True).click()
    page.get_by_role("region", name="Actions on what is chosen").get_by_role("button", name="Run").click()
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    report = page.get_by_role("region", name="Report of the action")
    for _ in range(2):
        expect(report).to_contain_text("No answer came; Go on asks for it again")
        report.get_by_role("button", name="Go on").click()
    expect(report).to_contain_text("4,000 done, 0 failed")
    expect(report).to_contain_text("the history is behind")
    assert service.begun == [service.begun[0]] * 3
    assert service.begun[0][0]
