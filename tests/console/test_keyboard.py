"""The console without a mouse."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.console.browsing import Console
from tests.console.starter import Starter

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
