"""Secrets in a browser: stored, replaced, removed, and never shown (SPEC section 14)."""

from playwright.sync_api import expect

from tests.console.browsing import Console
from tests.console.service import ConsoleService

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
