"""Drafts of the editor: one for each tab, offered to others, and of use when the job is destroyed."""

import pytest
from playwright.sync_api import Page, expect

from tests.console.browsing import Console
from tests.console.conftest import KEY
from tests.console.service import ConsoleService
from tests.console.starter import Starter

STEP = {"url": "service://shop/ok"}


@pytest.mark.long
def test_a_draft_belongs_to_its_tab(console: Console, started: Starter) -> None:
    """What one tab throws away is its own; a new tab may take over what another one has kept."""
    started.job("draft-of-a-tab", STEP)
    first, second = (console("#/jobs/draft-of-a-tab/edit") for _ in range(2))
    for page, name in ((first, "Of the first"), (second, "Of the second")):
        page.bring_to_front()
        page.get_by_label("Name", exact=True).fill(name)
    first.bring_to_front()
    first.reload()
    expect(first.get_by_label("Name", exact=True)).to_have_value("Of the first")
    first.get_by_role("button", name="Back to what is saved").click()
    first.close(run_before_unload=True)
    second.bring_to_front()
    second.reload()
    expect(second.get_by_label("Name", exact=True)).to_have_value("Of the second")
    second.close()
    third = console("#/jobs/draft-of-a-tab/edit")
    expect(third.get_by_label("Name", exact=True)).to_have_value("draft-of-a-tab")
    third.get_by_role("button", name="Take it over").click()
    expect(third.get_by_label("Name", exact=True)).to_have_value("Of the second")


@pytest.mark.long
def test_a_job_that_is_destroyed_is_created_again(
    console: Console, started: Starter, service: ConsoleService
) -> None:
    """The text stays, also over a reload, and makes the job anew."""
    console.expect("404")
    started.job("edited-and-gone", STEP)
    page = console("#/jobs/edited-and-gone/edit")
    page.get_by_label("Name", exact=True).fill("Of the draft")
    with service.caller() as client:
        assert client.delete("/jobs/edited-and-gone").is_success
        expect(page.get_by_text("This job has been destroyed meanwhile")).to_be_visible()
        page.reload()
        expect(page.get_by_text("This job has been destroyed meanwhile")).to_be_visible()
        expect(page.get_by_label("Name", exact=True)).to_have_value("Of the draft")
        page.get_by_role("button", name="Create it again").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Of the draft")
        assert client.get("/jobs/edited-and-gone").is_success
    page.close()


@pytest.mark.long
def test_the_newest_twenty_drafts_are_kept(console: Console) -> None:
    """None is older than thirty days; the one that is written now stays."""
    page = console("#/new")
    page.evaluate(
        """() => {
            const some = { tenant: "default", text: "{}", saved: "{}", etag: null };
            const keep = (name, age) => localStorage.setItem(
                `punctual.draft.default.other.${name}`,
                JSON.stringify({ ...some, name, at: Date.now() - age }),
            );
            for (const number of Array(25).keys()) keep(`job-${number}`, (number + 1) * 1000);
            keep("forgotten", 31 * 24 * 3600 * 1000);
        }"""
    )
    page.get_by_label("Name", exact=True).fill("The newest")
    until_drafts(page, 20)
    kept = page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('punctual.draft.'))")
    others = {key.rpartition(".")[2] for key in kept if ".other." in key}
    assert others == {f"job-{number}" for number in range(19)}
    page.reload()
    expect(page.get_by_label("Name", exact=True)).to_have_value("The newest")


def until_drafts(page: Page, count: int) -> None:
    """Returns once this browser keeps so many; the page's policy forbids `wait_for_function`."""
    page.evaluate(
        """(count) => new Promise((done) => {
            const isDraft = (key) => key.startsWith("punctual.draft.");
            const kept = () => Object.keys(localStorage).filter(isDraft).length;
            const look = () => (kept() === count ? done() : requestAnimationFrame(look));
            look();
        })""",
        count,
    )


def test_drafts_go_with_the_session(guarded_console: Console) -> None:
    """Whoever signs out is asked, and no draft stays in the browser."""
    guarded_console.expect("401")
    page = guarded_console("#/new")
    page.get_by_label("Key", exact=False).first.fill(KEY)
    page.locator("form button").first.click()
    page.get_by_label("Name", exact=True).fill("Not for the next one")
    until_drafts(page, 1)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("dialog").get_by_role("button", name="Sign out").click()
    page.locator("form input[type=password]").wait_for()
    until_drafts(page, 0)
