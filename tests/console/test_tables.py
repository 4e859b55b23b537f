"""Tables of all screens: heads that stay in sight, hours of a day, and cards on a phone."""

import pytest
from playwright.sync_api import Locator, expect

from tests.console.browsing import Console, box_of
from tests.console.starter import Starter

LOW, PHONE = 420, 390


def to_the_end(table: Locator) -> None:
    """Scrolls the window until the end of the table is in its upper half."""
    table.evaluate("element => scrollBy(0, element.getBoundingClientRect().bottom - innerHeight / 2)")
    assert table.evaluate("scrollY > 100")


@pytest.mark.parametrize("place", ["#/executions", "#/jobs", "#/settings"])
def test_heads_stick_to_the_window(console: Console, place: str) -> None:
    """Whoever has scrolled down still reads what the columns are."""
    page = console(place, height=LOW)
    table = page.get_by_role("table").first
    to_the_end(table)
    assert box_of(table.get_by_role("columnheader").last)["y"] == pytest.approx(0, abs=2)


@pytest.mark.long
def test_days_and_hours_to_come_stick_to_the_window(console: Console, started: Starter) -> None:
    """One panel a day with its hours, where a job fires often."""
    timer = {"dueTime": "10m", "period": "10m"}
    started.job("often", {"url": "service://shop/ok"}, timer=timer)
    page = console("#/upcoming?jobId=often", height=LOW)
    days, hours = page.locator("main section"), page.locator("main .hour th")
    expect(days.first).to_contain_text("firing")
    assert days.count() <= 3
    assert hours.count() >= 15
    day = max(days.all(), key=lambda one: one.locator(".hour").count())
    third = "element.querySelectorAll('.hour')[2].getBoundingClientRect()"
    day.evaluate(f"element => scrollBy(0, {third}.top - 60)")
    head = box_of(day.locator(".panel-head"))
    assert head["y"] == pytest.approx(0, abs=2)
    tops = [box_of(hour)["y"] for hour in day.locator(".hour th").all()[:3]]
    assert pytest.approx(head["height"], abs=3) in tops


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
