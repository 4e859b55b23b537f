"""Screens that the service refuses what they need show why, and nothing that pretends to work."""

import pytest
from playwright.sync_api import expect

from tests.console.browsing import Console

pytestmark = pytest.mark.long


@pytest.mark.parametrize("place", ["#/new?from=nope", "#/jobs/nope/edit"])
def test_an_editor_without_its_job_has_no_live_buttons(console: Console, place: str) -> None:
    """There is nothing to try, copy or save: beside the error stands the way to the jobs."""
    console.expect("Failed to load resource")
    page = console(place)
    expect(page.get_by_role("alert")).to_contain_text("nope")
    expect(page.locator(".page-head").get_by_role("button")).to_have_count(0)
    expect(page.locator(".page-head .actions").get_by_role("link", name="Jobs")).to_be_visible()


def test_executions_that_are_refused_are_not_counted(console: Console) -> None:
    """A number beside an error would say that there are so many of what was asked for."""
    console.expect("Failed to load resource")
    page = console("#/executions")
    expect(page.locator("h1 .count")).to_be_visible()
    problem = {"type": "about:blank", "title": "refused", "status": 422}
    page.route("**/executions?*", lambda route: route.fulfill(status=422, json=problem))
    page.evaluate("location.hash = '#/executions?state=succeeded'")
    expect(page.get_by_text("refused", exact=True)).to_be_visible()
    expect(page.locator("h1 .count")).to_have_count(0)
