"""The outlook of a timer stands in that timer's zone."""

import re

import pytest
from playwright.sync_api import expect

from tests.console.browsing import Console
from tests.console.starter import Starter

pytestmark = pytest.mark.long


def test_the_outlook_is_in_the_zone_of_its_timer(console: Console, started: Starter) -> None:
    """Days, hours and moments alike, though the reader's clock is another one's."""
    timer = {"period": "0 0 9,21 * * ?", "timezone": "Asia/Tokyo"}
    started.job("morning", {"url": "service://shop/ok"}, timer=timer)
    page = console("#/jobs/morning?tab=schedule")
    days = page.locator(".outlook > .chart-table")
    days.locator("summary").click()
    expect(days.get_by_role("row").nth(1)).to_contain_text(re.compile(r"21:00:00$"))
    hours = page.locator(".outlook-hours .chart-table").last
    hours.locator("summary").click()
    expect(hours.get_by_role("row").filter(has_text=re.compile(r"^(09|21):00\s*1"))).not_to_have_count(0)
