"""Secrets in a browser: stored, replaced, removed, and never shown (SPEC section 14)."""

import time

from playwright.sync_api import expect

from tests.console.browsing import Console
from tests.console.service import PATIENCE_SECONDS, ConsoleService
from tests.wire.target import Reply

VALUE = "t0p-secret-of-the-shop"


def test_a_secret_is_stored_replaced_and_removed(console: Console, service: ConsoleService) -> None:
    """Its value is typed unseen, and in no answer after that."""
    page = console("#/secrets")
    page.get_by_role("button", name="Store a secret").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("SHOP_TOKEN")
    value = dialog.locator("#secret-value")
    assert value.get_attribute("type") == "password"
    value.fill(VALUE)
    dialog.get_by_role("button", name="Store a secret").click()
    row = page.get_by_role("row").filter(has_text="SHOP_TOKEN")
    expect(row).to_contain_text("stored")
    row.get_by_role("button", name="Replace").click()
    dialog.locator("#secret-value").fill(f"{VALUE}-2")
    dialog.get_by_label("Keep the value before").check()
    dialog.get_by_role("button", name="Store a secret").click()
    expect(row).to_contain_text("two values")
    assert VALUE not in page.content()
    with service.caller() as client:
        assert VALUE not in client.get("/secrets").text + client.get("/audit").text
    row.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)


def test_no_page_shows_what_a_target_says_back(console: Console, service: ConsoleService) -> None:
    """Of a step and a notification that fail: in answers, errors, parameters and definitions."""
    told = f"wrong key {VALUE}"
    service.target.always("/echo", lambda seen: Reply(500, {"message": told, "got": seen.headers["x-own"]}))
    named = {"url": f"{service.target.url}/echo?k=${{secrets.ECHO}}", "headers": {"X-Own": "${secrets.ECHO}"}}
    definition = {
        "jobName": "echo", "creator": "1", "creatorName": "one", "timer": {"period": "external"},
        "request": [named], "notification": [named],
    }  # fmt: skip
    with service.caller() as client:
        assert client.put("/secrets/ECHO", json={"value": VALUE}).is_success
        assert client.post("/jobs/echo", json=definition).is_success
        started = client.post("/jobs/echo/trigger", json={"given": VALUE}).json()["data"]["executionId"]
        end = time.monotonic() + PATIENCE_SECONDS
        while client.get(f"/executions/{started}").json()["data"]["endedAt"] is None:
            assert time.monotonic() < end
            time.sleep(0.05)
    shown = []
    for place in (
        "/jobs/echo",
        "/jobs/echo/edit",
        f"/executions/{started}",
        "/executions",
        "/deliveries",
        "/audit",
    ):
        page = console(f"#{place}")
        for details in page.locator("details").all():
            details.evaluate("one => { one.open = true }")
        shown.append(page.content())
        page.close()
    assert all(VALUE not in text for text in shown)
    assert "***" in "".join(shown)
    with service.caller() as client:
        assert client.delete("/jobs/echo").is_success
        assert client.delete("/secrets/ECHO").is_success
