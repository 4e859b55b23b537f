"""Each page for each role and kind of key; pages of keys, secrets and the audit (SPEC sections 14 and 17)."""

import re
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.browsing import Console, violations
from tests.console.conftest import KEY, SEAL_KEY
from tests.console.places import PLACES, address_of
from tests.console.seed import fill
from tests.console.service import PATIENCE_SECONDS, ConsoleService
from tests.wire.target import Reply

EVERYWHERE = ["Overview", "Jobs", "Executions", "Upcoming", "Deliveries"]
OF_A_SERVICE = [*EVERYWHERE, "Services", "Queues"]
OF_A_TENANT = [*EVERYWHERE[:-1], "Calendars", "Deliveries", "Services", "Queues"]
OF_ALL = [*OF_A_TENANT, "Nodes", "Alerts"]
OPERATING = re.compile(r"^(Run now|Pause|Resume|Replay.*|Cancel it|Free|Disable|Send again.*|Dismiss.*)$")
EDITING = re.compile(r"^(Edit|New job|New calendar|Import|Restore.*|Delete|Deregister|Try once|Duplicate.*)$")
FOREIGN = ("/jobs/", "/executions/{")


class Kind(NamedTuple):
    """A kind of key: what it is made of, its parts of the console, the places that are not for it."""

    members: dict[str, Any]
    parts: list[str]
    closed: tuple[str, ...] = ()


OF_EDITORS = ("/jobs/nightly/edit", "/new", "/new-calendar", "/secrets")
OF_ADMINS = ("/keys", "/audit", "/settings")
OF_A_WHOLE_TENANT = ("/calendars", "/new-calendar")
OF_THE_SERVICE = ("/nodes", "/alerts", "/settings")
KINDS = {
    "viewer": Kind({"role": "viewer"}, OF_ALL, (*OF_EDITORS, *OF_ADMINS)),
    "operator": Kind({"role": "operator"}, OF_ALL, (*OF_EDITORS, *OF_ADMINS)),
    "editor": Kind({"role": "editor"}, [*OF_ALL, "Secrets"], OF_ADMINS),
    "admin": Kind({"role": "admin"}, [*OF_ALL, "Access keys", "Secrets", "Audit", "Settings"]),
    "service": Kind(
        {"role": "editor", "service": "billing"},
        OF_A_SERVICE,
        ("/secrets", *OF_A_WHOLE_TENANT, *OF_ADMINS, *OF_THE_SERVICE),
    ),
    "labels": Kind(
        {"role": "operator", "labels": ["team:sales"]},
        EVERYWHERE,
        (*OF_EDITORS, *OF_ADMINS, *OF_THE_SERVICE, *OF_A_WHOLE_TENANT, "/services", "/queues"),
    ),
    "another tenant": Kind(
        {"role": "admin", "tenant": "acme"},
        [*OF_A_TENANT, "Access keys", "Secrets", "Audit"],
        OF_THE_SERVICE,
    ),
}


@pytest.fixture(scope="module")
def company() -> Iterator[ConsoleService]:
    """A service with a key, and the small world of `seed`."""
    with ConsoleService(server={"key": KEY}, secrets_key=SEAL_KEY) as service:
        fill(service)
        yield service


@pytest.fixture
def visitor(browser: Browser, company: ConsoleService) -> Iterator[Console]:
    """Opens its pages; none may have had a fault."""
    console = Console(browser=browser, url=company.url)
    yield console
    console.close()
    assert console.faults == []


def sign_in(visitor: Console, company: ConsoleService, kind: str, place: str = "#/") -> Page:
    """The page at `place` with a new key of this kind."""
    with company.caller() as admin:
        made = admin.post("/keys", json={"name": f"the {kind}", **KINDS[kind].members}).json()["data"]
    page = visitor(place)
    page.locator("form input[type=password]").fill(made["key"])
    page.locator("form button").first.click()
    page.locator("nav").first.wait_for()
    visitor.settle(page)
    return page


def places_of(kind: str) -> list[str]:
    """Those of which the key sees something, and those that are closed to it."""
    is_whole = kind in ("viewer", "operator", "editor", "admin")
    own = [place for place in PLACES if is_whole or not place.startswith(FOREIGN)]
    gone = ("/services/billing", "/queues/images") if kind in ("another tenant", "labels") else ()
    if kind == "another tenant":
        gone += ("/calendars/office", "/calendars/office?edit=true")
    if kind == "service":
        gone = ("/queues/images",)
    return [place for place in own if place not in gone and place != "/nowhere"]


def offers(page: Page) -> list[str]:
    """The names of all buttons and links of the screen."""
    found: list[str] = page.locator("main button, main a").evaluate_all(
        "(found) => found.map((one) => (one.ariaLabel ?? one.innerText).trim())"
    )
    return found


def may(role: str, name: str) -> bool:
    """Whether the role has what a button with this name does."""
    if role in ("viewer", "operator") and EDITING.match(name):
        return False
    return role != "viewer" or OPERATING.match(name) is None


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "viewer" else pytest.mark.long) for kind in KINDS]
)
def test_no_page_asks_what_is_refused(visitor: Console, company: ConsoleService, kind: str) -> None:
    """What is not for a key is not shown, and says for whom it is where its address is opened."""
    visitor.expect("401")  # before the sign-in
    page = sign_in(visitor, company, kind)
    names = page.get_by_role("navigation", name="Parts of the console").get_by_role("link").all_inner_texts()
    assert names == KINDS[kind].parts
    visitor.answers.clear()
    role = KINDS[kind].members["role"]
    for place in places_of(kind):
        page.evaluate("(place) => { location.hash = place; }", address_of(company, place))
        visitor.settle(page)
        is_closed = any(place == one or place.startswith(f"{one}/") for one in KINDS[kind].closed)
        closed = page.get_by_role("heading", level=1, name="Not with this key")
        expect(closed, place).to_have_count(int(is_closed))
        refused = {f"{one.status} {one.url}" for one in visitor.answers if one.status >= 400}
        assert refused == set(), place
        assert [one for one in offers(page) if not may(role, one)] == [], place
    page.evaluate("location.hash = '#/settings'")
    visitor.settle(page)
    assert violations(page) == []


def status(service: ConsoleService, key: str) -> int:
    """What a program with this key is answered."""
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.get(f"{service.url}/jobs", headers=headers, trust_env=False).status_code


def shown(page: Page) -> str:
    """The text of a key, where it is shown."""
    return page.locator(".code pre").inner_text()


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


DEFINITION: dict[str, Any] = {
    "jobName": "found by its audit",
    "creator": "1",
    "creatorName": "one",
    "timer": {"period": "external"},
    "request": [{"url": "http://127.0.0.1:9/run", "headers": {"X-Tie": "a secret tie"}}],
}


def test_who_paused_a_job_is_found(console: Console, service: ConsoleService) -> None:
    """By the job, in the address too; a line that is opened has the difference, with no value of a header."""
    step = {"url": "http://127.0.0.1:9/run", "headers": {"X-Tie": "another tie"}}
    with service.caller() as caller:
        caller.post("/jobs/audited", json=DEFINITION).raise_for_status()
        changed = DEFINITION | {"jobName": "renamed", "request": [step]}
        caller.post("/jobs/audited/update", json=changed).raise_for_status()
        caller.put("/jobs/audited?active=0").raise_for_status()
    page = console("#/audit?jobId=audited")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("switchJob")
    expect(rows.nth(0)).to_contain_text("127.0.0.1")
    rows.nth(1).get_by_role("button").click()
    opened = page.locator("tr.unfolded")
    expect(opened).to_contain_text("/jobName")
    expect(opened).to_contain_text("found by its audit")
    expect(opened).to_contain_text("renamed")
    expect(opened).to_contain_text("***")
    expect(page.locator("body")).not_to_contain_text("a secret tie")
    page.get_by_label("Operation").fill("switchJob")
    page.get_by_label("Operation").press("Enter")
    expect(rows).to_have_count(1)
    assert "operation=switchJob" in page.url
    rows.first.get_by_role("link", name="audited").click()
    expect(page).to_have_url(re.compile("#/jobs/audited"))
    page.locator(".job-menu summary").click()
    page.get_by_role("link", name="Who changed it").click()
    expect(rows).to_have_count(3)


@pytest.mark.long
def test_what_fits_nothing_says_so(console: Console) -> None:
    """And leads back to all changes."""
    page = console("#/audit?who=nobody")
    page.get_by_text("No change fits").wait_for()
    page.get_by_role("link", name="All changes").click()
    expect(page.locator("tbody tr").first).to_be_visible()
