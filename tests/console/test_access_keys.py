"""Keys in a browser: made, shown once, rotated, revoked; what a lesser role is shown (SPEC section 14)."""

import re

import httpx
from playwright.sync_api import Page, expect

from tests.console.browsing import Console
from tests.console.conftest import KEY
from tests.console.service import ConsoleService


def sign_in(page: Page, key: str) -> None:
    page.locator("form input[type=password]").fill(key)
    page.locator("form button").first.click()
    page.locator("nav").first.wait_for()


def status(service: ConsoleService, key: str) -> int:
    """What a program with this key is answered."""
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.get(f"{service.url}/jobs", headers=headers, trust_env=False).status_code


def shown(page: Page) -> str:
    """The text of a key, where it is shown."""
    return page.locator(".code pre").inner_text()


def test_a_key_is_made_rotated_and_revoked(guarded_console: Console, guarded: ConsoleService) -> None:
    """Its text is shown until it is put away; the old one goes on as long as was asked for."""
    guarded_console.expect("401")
    page = guarded_console("#/keys")
    sign_in(page, KEY)
    page.get_by_role("button", name="Make a key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("billing worker")
    dialog.get_by_label("Role").select_option("editor")
    dialog.get_by_label("Service").fill("billing")
    dialog.get_by_role("button", name="Make a key").click()
    page.get_by_text("Copy it now").wait_for()
    first = shown(page)
    assert status(guarded, first) == 200
    page.get_by_role("button", name="I have kept it").click()
    expect(page.locator("body")).not_to_contain_text(first)
    row = page.get_by_role("row").filter(has_text="billing worker")
    expect(row).to_contain_text("service billing")
    row.get_by_role("button", name="New text").click()
    page.get_by_role("dialog").get_by_role("button", name="New text").click()
    page.get_by_text("Copy it now").wait_for()
    second = shown(page)
    assert (second != first, status(guarded, first), status(guarded, second)) == (True, 200, 200)
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")
    assert (status(guarded, first), status(guarded, second)) == (401, 401)


def test_a_viewer_is_shown_what_it_may_do(guarded_console: Console, guarded: ConsoleService) -> None:
    """No keys, no settings, no audit, no button that would be refused; its session ends with its key."""
    guarded_console.expect("401")
    with guarded.caller() as admin:
        made = admin.post("/keys", json={"name": "eve", "role": "viewer", "tenant": "shop"}).json()["data"]
        page = guarded_console("#/jobs")
        sign_in(page, made["key"])
        navigation = page.locator(".navigation")
        expect(navigation).to_contain_text("viewer · shop")
        for name in ("Access keys", "Settings", "Nodes", "Alerts"):
            expect(navigation.get_by_role("link", name=name, exact=True)).to_have_count(0)
        expect(navigation.get_by_role("link", name="Jobs", exact=True)).to_have_count(1)
        page.goto(re.sub("#.*", "#/keys", page.url))
        page.get_by_text("for the role admin").wait_for()
        admin.delete(f"/keys/{made['keyId']}")
        page.goto(re.sub("#.*", "#/jobs", page.url))
        page.locator("form input[type=password]").wait_for()
