"""What people come for who are not alone: their keys, secrets and sign-ins in a browser (SPEC section 14)."""

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.browsing import Console, violations
from tests.console.conftest import KEY, SEAL_KEY
from tests.console.proxy import SingleSignOn
from tests.console.service import PATIENCE_SECONDS, ConsoleService
from tests.console.starter import Starter

KNOWN = "This key is not known"


@pytest.fixture(scope="module")
def company() -> Iterator[ConsoleService]:
    """A service with a key of its settings, for whose use each test makes keys."""
    with ConsoleService(server={"key": KEY}, secrets_key=SEAL_KEY) as service:
        yield service


@pytest.fixture
def desk(browser: Browser, company: ConsoleService) -> Iterator[Console]:
    """The browser of one person; none of its pages may have had a fault but what comes before a sign-in."""
    console = Console(browser=browser, url=company.url)
    console.expect("401")
    yield console
    console.close()
    assert console.faults == []


@pytest.fixture
def jobs(company: ConsoleService, desk: Console) -> Iterator[Starter]:
    """Creates jobs with the key of the settings; they go when no page asks for them any more."""
    starter = Starter(company)
    yield starter
    desk.close()
    starter.close()


def make_key(company: ConsoleService, name: str, **members: Any) -> dict[str, Any]:
    """A key that an administrator hands out: its `key` and `keyId`."""
    with company.caller() as admin:
        made = admin.post("/keys", json={"name": name, "role": "viewer", **members})
        assert made.is_success, made.text
        return dict(made.json()["data"])


def by_key(company: ConsoleService, key: str) -> httpx.Client:
    """A program with a key."""
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=company.url, headers=headers, trust_env=False, timeout=PATIENCE_SECONDS)


def sign_in(page: Page, key: str) -> None:
    page.locator("form input[type=password]").fill(key)
    page.get_by_role("button", name="Sign in", exact=True).click()


def owner(page: Page, text: str) -> None:
    """Who is signed in, in the column at the left."""
    expect(page.locator(".connection")).to_contain_text(text)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end


def test_a_key_for_a_service_is_made_copied_and_rotated_without_a_gap(
    company: ConsoleService, desk: Console, jobs: Starter
) -> None:
    """Its worker goes on with the old text until the new one has come; in the end the key is revoked."""
    desk.context.grant_permissions(["clipboard-read", "clipboard-write"])
    jobs.job("scans", {"url": "queue://scanner"}, overlapPolicy="allow")
    page = desk("#/keys")
    sign_in(page, KEY)

    def copied() -> str:
        page.get_by_text("Copy it now").wait_for()
        page.locator(".code").get_by_role("button", name="Copy").click()
        text: str = page.evaluate("navigator.clipboard.readText()")
        page.get_by_role("button", name="I have kept it").click()
        expect(page.locator("body")).not_to_contain_text(text)
        return text

    def rotate(hours: str) -> None:
        row = page.get_by_role("row").filter(has_text="the scanner")
        row.get_by_role("button", name="New text").click()
        page.get_by_role("dialog").get_by_role("textbox").fill(hours)
        page.get_by_role("dialog").get_by_role("button", name="New text").click()

    def works(key: str) -> None:
        execution = jobs.run("scans")
        with by_key(company, key) as worker:
            claim = {"instanceId": "scanner-1", "max": 1, "waitSeconds": 30}
            (item,) = worker.post("/queues/scanner/claim", json=claim).json()["data"]["items"]
            assert item["executionId"] == execution
            done = worker.post(f"/leases/{item['lease']}/complete", json={"status": "succeed"})
            assert done.is_success, done.text

    page.get_by_role("button", name="Make a key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("the scanner")
    dialog.get_by_label("Role").select_option("editor")
    dialog.get_by_label("Service").fill("scanner")
    dialog.get_by_role("button", name="Make a key").click()
    first = copied()
    works(first)
    rotate("1")
    second = copied()
    assert second != first
    works(first)
    works(second)
    rotate("0")
    third = copied()
    works(third)
    row = page.get_by_role("row").filter(has_text="the scanner")
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")
    for over in (first, second, third):
        with by_key(company, over) as worker:
            assert worker.get("/jobs").status_code == 401


def test_a_proxy_signs_people_in(browser: Browser) -> None:
    """They see what the role of the settings may; a key counts more, and signing out leads back to them."""
    front = SingleSignOn()
    server = {
        "key": KEY,
        "trusted_user_header": front.HEADER,
        "trusted_proxies": ["127.0.0.1"],
        "trusted_user_role": "operator",
    }
    with ConsoleService(in_front=front, is_public=True, server=server) as service:
        jobs = Starter(service)
        jobs.job("rounds", {"url": "service://shop/ok"})
        console = Console(browser=browser, url=service.outer_url)
        front.user = "anna"
        page = console("#/jobs/rounds")
        owner(page, "anna · operator")
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("dialog").get_by_role("button", name="Pause").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("paused")
        expect(page.get_by_role("button", name="Sign out")).to_have_count(0)
        page.get_by_role("button", name="Sign in with a key").click()
        page.get_by_role("button", name="Go on as anna").click()
        page.get_by_role("button", name="Sign in with a key").click()
        sign_in(page, KEY)
        expect(page.get_by_role("link", name="Audit", exact=True)).to_have_count(1)
        page.goto(f"{service.outer_url}/console/#/audit?jobId=rounds")
        expect(page.get_by_role("row").filter(has_text="switchJob")).to_contain_text("anna")
        page.get_by_role("button", name="Sign out").click()
        owner(page, "anna · operator")
        expect(page.get_by_role("heading", level=1, name="Not with this key")).to_be_visible()
        console.expect("401", "403")  # the audit may be asked for once more before it is known who is there
        front.user = None
        page.reload()
        expect(page.get_by_label("Key", exact=True)).to_be_visible()
        assert violations(page) == []
        console.close()
        jobs.close()
        assert console.faults == []


def test_a_key_that_ends_amid_the_work_loses_nothing(company: ConsoleService, desk: Console) -> None:
    """The console says what has happened, and with a new key the draft is there."""
    old, new = make_key(company, "ben", role="editor"), make_key(company, "ben again", role="editor")
    page = desk("#/new")
    sign_in(page, old["key"])
    page.get_by_label("Name", exact=True).fill("Half written")
    page.get_by_label("Address").fill("service://shop/ok")
    with company.caller() as admin:
        assert admin.delete(f"/keys/{old['keyId']}").is_success
    page.keyboard.press("Control+s")  # the check of what was typed may have been refused already
    kept = page.get_by_role("status").filter(has_text="what you have written in the editor is kept")
    expect(kept).to_be_visible()  # the bar says by another one whether it is connected
    assert violations(page) == []
    sign_in(page, old["key"])
    expect(page.get_by_role("alert")).to_contain_text(KNOWN)
    sign_in(page, new["key"])
    expect(page.get_by_label("Name", exact=True)).to_have_value("Half written")
    page.get_by_role("button", name="Create job").click()
    expect(page).to_have_url(re.compile("#/jobs/half-written"))
    page.close()
    with company.caller() as admin:
        assert admin.delete("/jobs/half-written").is_success


@pytest.mark.long
def test_whoever_has_no_right_key_is_told_what_to_do(company: ConsoleService, desk: Console) -> None:
    """An expired one, and wrong ones until there are too many; the right one gets in nevertheless."""
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))
    expired = make_key(company, "intern", expiresAt=soon)["key"]
    with by_key(company, expired) as program:
        until(lambda: program.get("/jobs").status_code == 401)
    desk.expect("429")
    page = desk()
    sign_in(page, expired)
    expect(page.get_by_role("alert")).to_contain_text("ask an administrator for another one")
    for _ in range(12):
        page.locator("form input[type=password]").fill("a-wrong-key-of-ours")
        with page.expect_response("**/session") as answered:
            page.get_by_role("button", name="Sign in", exact=True).click()
        if answered.value.status == 429:
            break
    expect(page.get_by_role("alert")).to_contain_text(re.compile(r"too many wrong keys.*try again in \d+ s"))
    sign_in(page, make_key(company, "intern again")["key"])
    owner(page, "intern again · viewer")
