"""Notifications: what could not be delivered is found, sent again, and dismissed."""

import re

from playwright.sync_api import expect

from tests.console.browsing import Console, violations
from tests.console.service import ConsoleService
from tests.console.starter import Starter


def test_an_undeliverable_notification_is_resolved(
    console: Console, service: ConsoleService, started: Starter
) -> None:
    """Its tries are read, it is sent once more in vain, and then dismissed, for which one is asked."""
    service.target.always("/deaf", 503)
    entry = {"url": "service://shop/deaf", "stateEquals": "finalSucceed", "guarantee": "outbox"}
    started.job("heard", {"url": "service://shop/ok"}, notification=[entry])
    started.ended("heard")
    page = console("#/deliveries?jobId=heard")
    expect(page.get_by_role("button", name="in the outbox, tried again 1")).to_be_visible()
    page.get_by_role("button", name="finalSucceed").click()
    expect(page.get_by_role("table").nth(1)).to_contain_text("503")
    assert violations(page) == []
    tries = len(service.target.at("/deaf"))
    page.get_by_role("button", name=re.compile("^Send .* again$")).click()
    expect(page.get_by_text("1 sent again")).to_be_visible()
    page.get_by_role("checkbox", name="Choose all on this page").click()
    page.get_by_role("button", name="Dismiss", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("They are not sent again")
    dialog.get_by_role("button", name="Dismiss").click()
    expect(page.get_by_text("1 dismissed")).to_be_visible()
    page.get_by_role("button", name="dismissed", exact=True).click()
    expect(page.get_by_role("button", name="finalSucceed")).to_be_visible()
    assert len(service.target.at("/deaf")) > tries
