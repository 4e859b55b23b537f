"""The overview, tables, how values are written, and the first rows of lists (SPEC section 17)."""

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.console.browsing import Console, box_of, evaluate, hold_up
from tests.console.service import ConsoleService

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


LOW, PHONE = 420, 390


def to_the_end(table: Locator) -> None:
    """Scrolls the window until the end of the table is in its upper half."""
    table.evaluate("element => scrollBy(0, element.getBoundingClientRect().bottom - innerHeight / 2)")
    assert table.evaluate("scrollY > 100")


@pytest.mark.parametrize(
    "place",
    ["#/executions", *(pytest.param(one, marks=pytest.mark.long) for one in ("#/jobs", "#/settings"))],
)
def test_heads_stick_to_the_window(console: Console, place: str) -> None:
    """Whoever has scrolled down still reads what the columns are."""
    page = console(place, height=LOW)
    table = page.get_by_role("table").first
    to_the_end(table)
    assert box_of(table.get_by_role("columnheader").last)["y"] == pytest.approx(0, abs=2)


def test_on_a_phone_rows_are_cards(console: Console) -> None:
    """All that a row says is within the window, with the heads beside the values; the head's choice stays."""
    page = console("#/executions?jobId=orders", width=PHONE)
    row = page.get_by_role("row").nth(1)
    for cell in row.get_by_role("cell").all():
        box = cell.bounding_box()
        assert box is None or box["x"] + box["width"] <= PHONE
    told = "element => getComputedStyle(element, '::before').content"
    assert row.locator("[data-label]").first.evaluate(told) == '"Planned"'
    expect(page.get_by_role("checkbox", name="Choose all on this page")).to_be_visible()
    assert page.locator("thead [data-label]").evaluate(told) == '"Choose all on this page"'


NUMBERS = """
const digits = [undefined, 0, 1, 2];
const whole = [0, 1, 999, 1000, 12345, 1234567, -4321, 1e14, 2e15, 1e21];
const numbers = [...whole, 0.5, 2.25, 999.9996, 1234.5678, -0.25];
return numbers.flatMap((number) => digits.map((most) => {
  const options = most === undefined ? undefined : { maximumFractionDigits: most };
  return [core.formatNumber(number, options), new Intl.NumberFormat(argument, options).format(number)];
}));
"""
DISTANCES = """
const units = { second: 1000, minute: 60000, hour: 3600000, day: 86400000 };
const format = new Intl.RelativeTimeFormat(argument, { numeric: "always", style: "short" });
const counts = { second: [1, 2, 59], minute: [1, 2, 59], hour: [1, 47], day: [2, 3, 1200] };
const pair = (count, unit) => [core.formatRelative(count * units[unit], 0), format.format(count, unit)];
const now = new Intl.RelativeTimeFormat(argument, { numeric: "auto" }).format(0, "second");
const pairs = Object.entries(counts).flatMap(
  ([unit, list]) => list.flatMap((count) => [pair(count, unit), pair(-count, unit)])
);
return [...pairs, [core.formatRelative(500, 0), now]];
"""
USED = """
window.made = [];
for (const name of ["NumberFormat", "DateTimeFormat", "RelativeTimeFormat"]) {
  Intl[name] = new Proxy(Intl[name], { construct(target, values) {
    window.made.push([name, ...values]);
    return new target(...values);
  } });
}
"""
ZONE_ALONE = [["DateTimeFormat", "en-GB", None]]
"""What is made of `Intl` for the name of the browser's zone."""


@pytest.mark.parametrize(
    ("language", "tag"), [pytest.param("en", "en-GB", marks=pytest.mark.long), ("zh", "zh-CN")]
)
def test_figures_are_those_of_intl(console: Console, language: str, tag: str) -> None:
    """Numbers with and without fractions, and distances of each unit, in both languages."""
    page = console.in_language(language)("#/settings")
    for pairs in (evaluate(page, NUMBERS, tag), evaluate(page, DISTANCES, tag)):
        assert pairs
        assert [ours for ours, _ in pairs] == [theirs for _, theirs in pairs]


def test_rows_are_drawn_without_intl(console: Console) -> None:
    """All that is made of it is for the name of the zone, which titles have once that is known."""
    console.context.add_init_script(USED)
    for place in ("#/jobs", "#/executions"):
        page = console(place)
        expect(page.locator("main tbody time").first).to_have_attribute("title", re.compile("Europe/Berlin"))
        assert page.evaluate("made") == ZONE_ALONE, place


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
