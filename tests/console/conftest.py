"""One browser and one service for all pages of a test process.

They live as long as the tests of this folder: the driver of the browser keeps an event loop in this thread,
which other tests must not meet.
"""

import base64
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.console.browsing import MISSING, Console, find_chromium, launch
from tests.console.proxy import below
from tests.console.seed import fill
from tests.console.service import ConsoleService
from tests.console.starter import Starter

KEY = "the-key-of-this-service"
SEAL_KEY = base64.b64encode(bytes(32)).decode()
PREFIX = "/tools/punctual"
PATIENCE_MS = 60_000
A_DAY = 86_400


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The distribution's Chromium; what is expected of its pages may take PATIENCE_MS."""
    expect.set_options(timeout=PATIENCE_MS)
    program = find_chromium()
    if program is None:
        pytest.skip(MISSING)
    with sync_playwright() as driver:
        browser = launch(driver, program)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def service() -> Iterator[ConsoleService]:
    """A service without a key, with the small world of `seed`; it tries each notification once.

    What is in the outbox is sent again by hand alone: else a test and the outbox do it at one moment.
    """
    notification = {"retries": 0, "outbox_seconds": A_DAY}
    with ConsoleService(notification=notification, secrets_key=SEAL_KEY) as service:
        fill(service)
        yield service


@pytest.fixture(scope="package")
def guarded() -> Iterator[ConsoleService]:
    """An empty service with a key, behind a proxy that shows it below a path."""
    with ConsoleService(in_front=below(PREFIX), server={"key": KEY}) as service:
        yield service


@pytest.fixture(scope="package")
def any_page(browser: Browser, service: ConsoleService) -> Iterator[Page]:
    """A page for tests of what modules of the console compute, which leave it as it is."""
    console = Console(browser=browser, url=service.url)
    yield console("#/settings")
    console.close()
    assert console.faults == []


@pytest.fixture
def console(browser: Browser, service: ConsoleService) -> Iterator[Console]:
    """Opens pages of the console; at the end of the test none may have had a fault."""
    console = Console(browser=browser, url=service.url)
    yield console
    console.close()
    assert console.faults == []


@pytest.fixture
def started(service: ConsoleService, console: Console) -> Iterator[Starter]:
    """Creates jobs and starts them; destroys them at the end, when no page can ask for them any more."""
    starter = Starter(service)
    yield starter
    console.close()
    starter.close()


@pytest.fixture
def guarded_console(browser: Browser, guarded: ConsoleService) -> Iterator[Console]:
    """The same of the service with a key, through its proxy."""
    console = Console(browser=browser, url=f"{guarded.outer_url}{PREFIX}")
    yield console
    console.close()
    assert console.faults == []
