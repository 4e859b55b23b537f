"""Each page for each role and each kind of key: nothing that is always refused (SPEC sections 14 and 17)."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.browsing import Console, violations
from tests.console.conftest import KEY, SEAL_KEY
from tests.console.places import PLACES, address_of
from tests.console.seed import fill
from tests.console.service import ConsoleService

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
    "kind",
    [pytest.param(kind, marks=() if kind in ("viewer", "service") else pytest.mark.long) for kind in KINDS],
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
