"""A service that ends and starts again under a form that is half filled."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.console.browsing import Console
from tests.console.service import ConsoleService

pytestmark = pytest.mark.long


def test_a_half_filled_form_outlives_a_restart(browser: Browser, tmp_path: Path) -> None:
    """The page says that nobody answers, keeps what was written, and saves it once the service is back."""
    folder = {"data": str(tmp_path / "data")}
    with ConsoleService(store=folder) as service:
        console = Console(browser=browser, url=service.url)
        console.expect("Failed to load resource", "net::ERR")
        page = console("#/new")
        page.get_by_label("Name", exact=True).fill("Half a job")
        port = int(service.url.rpartition(":")[2])
    page.get_by_label("Address").fill("service://shop/ok")
    expect(page.get_by_text("No answer for")).to_be_visible(timeout=60_000)
    with ConsoleService(store=folder, port=port) as service:
        expect(page.get_by_text("Connected")).to_be_visible(timeout=60_000)
        expect(page.get_by_label("Name", exact=True)).to_have_value("Half a job")
        page.get_by_role("button", name="Create job").click()
        expect(page).to_have_url(f"{service.url}/console/#/jobs/half-a-job", timeout=60_000)
        with service.caller() as client:
            saved = client.get("/jobs/half-a-job").json()["data"]["definition"]
        assert saved["request"][0]["url"] == "service://shop/ok"
        console.close()
    assert console.faults == []
