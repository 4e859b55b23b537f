"""What comes first on a page: nothing that is not a row is waited for before the rows are shown."""

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.browsing import Console, hold_up

SHOWN_BEFORE = """
let frames = 0;
const count = () => {
  const isDrawn = document.querySelector("main tbody tr, main .figure") !== null;
  const page = document.getElementById("application");
  if (isDrawn && !page.hidden) frames += 1;
  requestAnimationFrame(count);
};
requestAnimationFrame(count);
const ask = window.fetch;
window.framesBefore = {};
window.fetch = (url, options) => {
  window.framesBefore[new URL(url).pathname] ??= frames;
  return ask(url, options);
};
"""
"""How many frames with rows had begun when something was asked for first."""


FIRST_FRAME = """
const look = () => {
  const page = document.getElementById("application");
  if (page === null || page.hidden || page.childElementCount === 0) return void requestAnimationFrame(look);
  const find = (what) => document.querySelector(`main ${what}`);
  window.firstFrame = find(".waiting") === null && find("tbody tr") !== null;
};
requestAnimationFrame(look);
"""

SEEN_FRAME = "new Promise((then) => requestAnimationFrame(() => then(window.firstFrame)))"

LONG_SOON = """
const wait = window.setTimeout;
window.setTimeout = (then, ms, ...rest) => wait(then, ms === 150 ? 600_000 : ms, ...rest);
"""
"""`soon` (main.js, FIRST_ANSWERS_MS) is as long as a busy machine takes."""


def test_counts_and_outcomes_come_after_the_rows(console: Console) -> None:
    """They are asked for when the rows are there, once, and rows do not wait for them."""
    page = console("#/jobs")
    place = _leave(page)
    listed, counted = hold_up(page, "**/jobs?*"), hold_up(page, "**/counts/jobs*")
    seen = hold_up(page, "**/outcomes*")
    page.goto(place, wait_until="commit")
    _until_held(page, [listed])
    assert (counted, seen) == ([], [])
    _until_held(page, [counted, seen], passing=listed)
    expect(page.locator("main tbody tr").first).to_be_visible()
    assert len(counted) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "rows", "rest"),
    [
        ("jobs", "/jobs", ["/counts/jobs", "/outcomes"]),
        ("executions", "/executions", ["/counts/executions"]),
        ("", "/stats", ["/nodes", "/series/executions", "/counts/jobs", "/services", "/alerts"]),
        ("jobs/orders", "/executions", ["/jobs/orders/statistics", "/outcomes", "/series/executions"]),
    ],
)
def test_the_rest_is_asked_for_when_the_rows_are_seen(
    console: Console, place: str, rows: str, rest: list[str]
) -> None:
    """Service and browser do nothing else until the frame with the rows is on the screen."""
    console.context.add_init_script(SHOWN_BEFORE)
    frames = console(f"#/{place}").evaluate("framesBefore")
    assert frames[rows] == 0
    assert min(frames[one] for one in rest) >= 2


def test_the_first_frame_has_the_rows_where_they_come_soon(console: Console) -> None:
    """A page without them is not drawn before; it is where they come late."""
    console.context.add_init_script(FIRST_FRAME)
    page = console("#/upcoming")
    place = _leave(page)
    listed = hold_up(page, "**/upcoming?*")
    page.goto(place, wait_until="commit")
    expect(page.locator("main .waiting")).to_be_visible()
    assert page.evaluate("firstFrame") is False
    for route in listed:
        route.continue_()
    page.unroute("**/upcoming?*")
    expect(page.locator("main tbody tr").first).to_be_visible()
    console.context.add_init_script(LONG_SOON)
    page.reload(wait_until="commit")
    expect(page.locator("main tbody tr").first).to_be_visible()
    assert page.evaluate(SEEN_FRAME) is True


def _leave(page: Page) -> str:
    """The address of the page that was shown; what it still asks for comes to nobody."""
    place = page.url
    page.goto("about:blank")
    return place


def _until_held(page: Page, held: list[list[Route]], passing: list[Route] | None = None) -> None:
    """Returns when each of the lists has a request; those that are `passing` go on as they come."""
    while not all(held):
        while passing:
            passing.pop(0).continue_()
        page.context.cookies()  # what the browser has said meanwhile arrives before its answer
