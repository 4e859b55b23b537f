"""What the page says beside its screens: notices, and places that are not there."""

import pytest
from playwright.sync_api import expect

from tests.console.browsing import Console
from tests.console.starter import Starter

pytestmark = pytest.mark.long


def test_equal_notices_are_one_with_a_count(console: Console, started: Starter) -> None:
    """Three times the same is said once; something else stands beside it."""
    for job_id in ("notice-one", "notice-two"):
        started.job(job_id, {"url": "service://shop/ok"})
    page = console("#/jobs?text=notice-")
    notices = page.locator(".notice")
    for row in ("notice-one", "notice-one", "notice-one", "notice-two"):
        page.get_by_role("row", name=row).get_by_role("button", name="Run now").click()
        expect(notices.last).to_contain_text(row)
    expect(notices.filter(has_text="notice-one")).to_contain_text("× 3")
    expect(notices).to_have_count(2)
    expect(notices.filter(has_text="notice-two")).not_to_contain_text("×")


def test_an_absent_job_is_asked_for_once(console: Console) -> None:
    """What depends on the job is not asked for then."""
    console.expect("404")
    page = console("#/jobs/not-there")
    expect(page.get_by_role("heading", name="There is no such thing")).to_be_visible()
    asked = [one.url for one in console.answers if "/jobs/not-there" in one.url]
    assert len(asked) == 1, asked


def test_the_overview_is_found_by_its_name_too(console: Console) -> None:
    """The root of the console is the overview."""
    page = console("#/overview")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    link = page.get_by_role("navigation").get_by_role("link", name="Overview")
    expect(link).to_have_attribute("aria-current", "page")


def test_a_queue_tells_what_waits(console: Console, started: Starter) -> None:
    """How much, and since when, while no instance has claimed it."""
    started.job("films-waiting", {"url": "queue://films-waiting"})
    started.run("films-waiting")
    page = console("#/queues/films-waiting")
    expect(page.get_by_text("1 part waits for an instance.")).to_contain_text("The oldest was put here")


def test_without_a_key_none_is_told(console: Console) -> None:
    """The page of keys says that there is none, and what that means."""
    page = console("#/keys")
    expect(page.get_by_role("heading", name="No key")).to_be_visible()
