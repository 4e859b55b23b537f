"""What rows need is written without `Intl`, whose first use takes a page 20 ms; it is what `Intl` writes."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.console.browsing import Console, evaluate

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
MOMENTS = """
const moments = [
  "2026-03-29T00:59:59.999Z", "2026-03-29T01:00:00Z", "2026-10-25T00:30:00Z", "1969-12-31T23:59:59.001Z",
  "1890-01-01T00:00:00Z", "2400-02-29T12:00:00Z", "9999-12-31T23:30:00Z", "+012345-01-01T00:00:00Z",
];
const options = {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
  hourCycle: "h23", fractionalSecondDigits: 3, timeZone: argument ?? undefined,
};
core.preferences.zone = argument === null ? "browser" : "utc";
return moments.map((at) => [core.formatMoment(at, { withMs: true }),
  new Intl.DateTimeFormat("sv-SE", options).format(new Date(at)).replace(",", ".")]);
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


@pytest.mark.parametrize(("language", "tag"), [("en", "en-GB"), ("zh", "zh-CN")])
@pytest.mark.parametrize("script", [NUMBERS, DISTANCES])
def test_figures_are_those_of_intl(console: Console, language: str, tag: str, script: str) -> None:
    """Numbers with and without fractions, and distances of each unit, in both languages."""
    page = console.in_language(language)("#/jobs")
    _hold_equal(evaluate(page, script, tag))


@pytest.mark.long
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_moments_are_those_of_intl(console: Console, zone: str | None) -> None:
    """In the browser's zone and in UTC: about changes of its clock, before 1970, and after the year 9999."""
    _hold_equal(evaluate(console("#/jobs"), MOMENTS, zone))


def test_rows_are_drawn_without_intl(console: Console) -> None:
    """All that is made of it is for the name of the zone, which titles have once that is known."""
    console.context.add_init_script(USED)
    for place in ("#/jobs", "#/executions"):
        page = console(place)
        expect(page.locator("main tbody time").first).to_have_attribute("title", re.compile("Europe/Berlin"))
        assert page.evaluate("made") == ZONE_ALONE, place


def _hold_equal(pairs: list[Any]) -> None:
    assert pairs
    assert [ours for ours, _ in pairs] == [theirs for _, theirs in pairs]
