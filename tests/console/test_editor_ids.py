"""The editor's ids and its ways out: what is taken, what a copy is called, and a head that stays."""

import pytest
from playwright.sync_api import expect

from tests.console.browsing import Console
from tests.console.starter import Starter

STEP = {"url": "service://shop/ok"}


def test_a_taken_id_is_told_at_its_field(console: Console, started: Starter) -> None:
    """It is marked, in the list of what is wrong, and nothing is sent; another id is free again."""
    started.job("taken-id", STEP)
    page = console("#/new")
    page.get_by_label("Name", exact=True).fill("Taken id")
    page.get_by_label("Address").fill("service://shop/ok")
    field = page.get_by_label("Id", exact=True)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("list", name="What is wrong")).to_contain_text(
        "There is a job of this id already"
    )
    expect(page.get_by_text("The service would take this definition")).to_have_count(0)
    page.get_by_role("button", name="Create job").click()
    expect(field).to_be_focused()
    expect(page.locator(".notice")).to_have_count(0)
    field.fill("taken-id-no-more")
    expect(page.get_by_text("The service would take this definition")).to_be_visible()


@pytest.mark.long
def test_an_id_that_is_taken_meanwhile_is_told_at_its_field(console: Console, started: Starter) -> None:
    """The service refuses it when it is saved; the page says so where it is mended."""
    page = console("#/new")
    page.get_by_label("Name", exact=True).fill("Taken meanwhile")
    page.get_by_label("Address").fill("service://shop/ok")
    expect(page.get_by_text("The service would take this definition")).to_be_visible()
    started.job("taken-meanwhile", STEP)
    console.expect("409")
    page.get_by_role("button", name="Create job").click()
    expect(page.get_by_label("Id", exact=True)).to_be_focused()
    expect(page.get_by_label("Id", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".notice")).to_have_count(0)


@pytest.mark.long
def test_a_copy_has_an_id_that_is_free(console: Console, started: Starter) -> None:
    """That of the job with -copy, or a number behind it."""
    started.job("original", STEP)
    started.job("original-copy", STEP)
    started.job("lonely", STEP)
    page = console("#/jobs/lonely")
    page.get_by_label("More actions").click()
    page.get_by_role("link", name="Duplicate").click()
    expect(page.get_by_label("Id", exact=True)).to_have_value("lonely-copy")
    page = console("#/new?from=original")
    expect(page.get_by_label("Id", exact=True)).to_have_value("original-copy-2")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Copy of original")


@pytest.mark.long
def test_the_head_stays_with_its_ways_out(console: Console, started: Starter) -> None:
    """Whoever has scrolled down can save, and go back to the job."""
    started.job(job_id := "long-form", STEP)
    page = console(f"#/jobs/{job_id}/edit", height=500)
    page.get_by_role("heading", name="Options", exact=True).scroll_into_view_if_needed()
    assert page.evaluate("scrollY > 200")
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("link", name=job_id, exact=True)).to_be_in_viewport(ratio=1)
    page.get_by_role("link", name="Cancel").click()
    expect(page).to_have_url(f"{console.url}/console/#/jobs/{job_id}")
    page.close()
