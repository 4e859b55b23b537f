"""What comes first on a page: nothing that is not a row is waited for before the rows are shown."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.browsing import Console, evaluate, hold_up
from tests.console.service import ConsoleService

ROWS = 50
HEIGHTS = {900: 20, 720: 15}
"""Of windows, in pixels, and how many rows are drawn first: those that such a window shows, or one more."""
ASKED = """
const ask = window.fetch;
window.fetch = (url, options) => {
  if (String(url).includes("/jobs?")) window.wasColumn ??= document.querySelector(".navigation") !== null;
  return ask(url, options);
};
"""
COUNT_ROWS = """
new MutationObserver(() => {
  const rows = document.querySelectorAll("main tbody tr").length;
  if (rows > 0 && window.firstRows === undefined) window.firstRows = rows;
}).observe(document, { childList: true, subtree: true });
"""

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

PAINTED_BEFORE = """
const ask = window.fetch;
window.paintedBefore = {};
window.fetch = (url, options) => {
  const isPainted = performance.getEntriesByName("first-contentful-paint").length > 0;
  window.paintedBefore[new URL(url).pathname] ??= isPainted;
  return ask(url, options);
};
"""
"""Whether the page had been painted when something was asked for first."""

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
window.setTimeout = (then, ms, ...rest) => wait(then, ms === 150 ? 60_000 : ms, ...rest);
"""
"""`soon` (main.js, FIRST_ANSWERS_MS) is as long as a busy machine takes."""


@pytest.fixture
def many(service: ConsoleService) -> Iterator[None]:
    """More jobs than a page of the list has; they are gone afterwards."""
    timer, request = {"period": "external"}, [{"url": "service://shop/ok"}]
    definitions = [
        {"jobId": f"many-{n}", "jobName": f"One of many {n}", "labels": {"of": "many"}}
        | {"timer": timer, "request": request}
        for n in range(ROWS + 1)
    ]
    with service.caller() as client:
        assert client.post("/jobs", json=definitions).is_success
        yield
        client.post("/bulk/jobs", json={"action": "destroy", "select": {"filter": {"label": ["of:many"]}}})


@pytest.mark.long
def test_a_start_asks_for_all_at_once(console: Console) -> None:
    """Texts, session and the screen's file are on their way before any of them has come."""
    page = console("#/jobs")
    held = [hold_up(page, pattern) for pattern in ("**/language/*", "**/session", "**/screens/*")]
    page.reload(wait_until="commit")
    _until_held(page, held)
    for routes in held:
        routes[0].continue_()
    expect(page.locator("main tbody tr").first).to_be_visible()


def test_counts_and_outcomes_come_after_the_rows(console: Console) -> None:
    """They are asked for when the rows are there, once, and rows do not wait for them."""
    page = console("#/jobs")
    listed, counted = hold_up(page, "**/jobs?*"), hold_up(page, "**/counts/jobs*")
    seen = hold_up(page, "**/outcomes*")
    page.reload(wait_until="commit")
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


@pytest.mark.long
@pytest.mark.parametrize(("rows", "rest"), [("/jobs", "/counts/jobs"), ("/executions", "/counts/executions")])
def test_the_rest_is_asked_for_when_the_first_frame_is_painted(
    console: Console, rows: str, rest: str
) -> None:
    """A page hands its frame over to the threads that paint it: they have the machine to themselves."""
    console.context.add_init_script(PAINTED_BEFORE)
    painted = console(f"#{rows}").evaluate("paintedBefore")
    assert (painted[rows], painted[rest]) == (False, True)


@pytest.mark.long
@pytest.mark.parametrize(("height", "first"), HEIGHTS.items())
def test_what_is_seen_of_a_long_list_is_drawn_first(
    console: Console, many: None, height: int, first: int
) -> None:
    """The rows that the window shows, and the others after the browser has drawn them."""
    console.context.add_init_script(COUNT_ROWS)
    page = console("#/jobs?label=of:many", height=height)
    assert page.evaluate("firstRows") == first
    assert page.locator("main tbody tr").count() == ROWS


@pytest.mark.long
def test_a_screen_asks_before_the_column_is_drawn(console: Console) -> None:
    """What is drawn beside the screen is drawn while its question is on its way."""
    console.context.add_init_script(ASKED)
    page = console("#/jobs")
    assert page.evaluate("wasColumn") is False
    expect(page.locator(".navigation")).to_be_visible()


def test_the_first_frame_has_the_rows_where_they_come_soon(console: Console) -> None:
    """A page without them is not drawn before; it is where they come late."""
    console.context.add_init_script(FIRST_FRAME)
    page = console("#/upcoming")
    listed = hold_up(page, "**/upcoming?*")
    page.reload(wait_until="commit")
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


@pytest.mark.long
def test_the_present_part_is_in_sight_on_a_phone(console: Console) -> None:
    """The line of parts is wider than a phone; the page begins where the present one is seen."""
    page = console("#/audit", width=390)
    expect(page.locator(".navigation [aria-current]")).to_be_in_viewport(ratio=1)


@pytest.mark.long
def test_only_what_there_is_has_a_bar(console: Console, many: None) -> None:
    """The places of outcomes that a job does not have are no elements."""
    page = console("#/jobs?label=of:many")
    assert page.locator("main .outcomes").count() == ROWS
    assert page.locator("main .outcomes *").count() == 0


@pytest.mark.long
def test_marks_are_no_components(console: Console) -> None:
    """Rows have ten of them each: they are drawn where they stand."""
    page = console("#/jobs")
    drawn = [
        '`<${core.Icon} name="play"/>`', '`<${core.StateBadge} state="active"/>`',
        "`<${core.Duration} ms=${5}/>`", "`<${core.OutcomeBars} items=${[]}/>`",
    ]  # fmt: skip
    types = [evaluate(page, f"return core.html{one}.type") for one in drawn]
    assert types == ["svg", "span", "span", "span"]


@pytest.mark.long
def test_the_overview_begins_with_its_figures(console: Console) -> None:
    """Nothing is called calm before it is known, and figures do not wait for charts."""
    page = console("#/")
    told = hold_up(page, "**/alerts")
    slow = [hold_up(page, pattern) for pattern in ("**/series/*", "**/counts/*", "**/nodes")]
    page.reload(wait_until="commit")
    expect(page.locator("main .figure").first).to_be_visible()
    _until_held(page, [told, *slow])
    attention = page.locator("main .panel", has=page.get_by_role("heading", name="Needs attention"))
    expect(attention.locator(".waiting, .attention")).to_be_visible()
    expect(attention.locator(".empty")).to_have_count(0)
    errors = page.locator("main .panel", has=page.get_by_role("heading", name="Failures by error"))
    expect(errors.locator(".waiting")).to_be_visible()


@pytest.mark.long
def test_a_job_is_asked_for_together_with_its_rows(console: Console) -> None:
    """Neither waits for the other, and a part of the page without these rows does not ask for them."""
    page = console("#/jobs/orders")
    job, latest = hold_up(page, "**/jobs/orders"), hold_up(page, "**/executions?jobId=orders*limit=8*")
    page.reload(wait_until="commit")
    _until_held(page, [job, latest])
    job[0].continue_()
    latest[0].continue_()
    expect(page.locator("main tbody tr").first).to_be_visible()
    page = console("#/jobs/orders?tab=schedule")
    assert not [one for one in console.answers if one.frame.page == page and "limit=8" in one.url]


@pytest.mark.long
def test_the_rows_of_a_job_come_before_its_charts(console: Console) -> None:
    """Its latest executions first, then what is drawn of many."""
    page = console("#/jobs/orders")
    latest = hold_up(page, "**/executions?jobId=orders*limit=8*")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload(wait_until="commit")
    _until_held(page, [latest])
    later = ("/series/", "/outcomes", "/statistics")
    assert not [url for url in asked if any(one in url for one in later)]
    latest[0].continue_()
    expect(page.locator("main tbody tr").first).to_be_visible()
    console.settle(page)
    assert all(any(one in url for url in asked) for one in later)


def _until_held(page: Page, held: list[list[Route]], passing: list[Route] | None = None) -> None:
    """Returns when each of the lists has a request; those that are `passing` go on as they come."""
    while not all(held):
        while passing:
            passing.pop(0).continue_()
        page.context.cookies()  # what the browser has said meanwhile arrives before its answer
