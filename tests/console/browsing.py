"""Pages of the console in a browser: opened, settled, and held to have no fault."""

import json
import shutil
from collections.abc import Iterable
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    FloatRect,
    Locator,
    Page,
    Playwright,
    Response,
    Route,
)

ZONE = "Europe/Berlin"
"""That of the browser, in which the console shows days and times."""
AXE = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}
FIND_VIOLATIONS = """async (options) => {
    const { violations } = await axe.run(document, options);
    return violations.map(({ id, nodes }) => ({ id, nodes: nodes.map(({ target }) => ({ target })) }));
}"""
"""Of the answer, which has every element and every rule in it, nothing else leaves the page."""


class Console:
    """The console of one service in one window of a browser: its pages share cookies and storage.

    `faults` are errors of scripts, refusals of the content security policy and answers 4xx and 5xx; those
    that a test expects it names by `expect`. `answers` are all answers so far.
    """

    def __init__(self, *, browser: Browser, url: str, locale: str = "en-GB") -> None:
        self.url = url
        self.context: BrowserContext = browser.new_context(locale=locale, timezone_id=ZONE)
        self.context.set_default_timeout(60_000)
        self.answers: list[Response] = []
        self._faults: list[str] = []
        self._expected: list[str] = []

    def __call__(self, path: str = "", *, dark: bool = False, width: int = 1440, height: int = 900) -> Page:
        """A new page at `path` below the console, as `#/jobs`, settled."""
        page = self.context.new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")
        page.on("console", self._take_message)
        page.on("pageerror", lambda error: self._faults.append(f"script: {error}"))
        page.on("response", lambda answer: self.answers.append(answer))
        page.goto(f"{self.url}/console/{path}")
        self.settle(page)
        return page

    def in_language(self, language: str) -> "Console":
        """Itself; pages that are opened from now on are in this language (en, zh)."""
        kept = json.dumps({"language": language})
        self.context.add_init_script(f"localStorage.setItem('punctual.preferences', {json.dumps(kept)})")
        return self

    def settle(self, page: Page) -> None:
        """Returns when nothing is asked for any more."""
        page.locator("body[data-settled]").wait_for(state="attached")

    def expect(self, *words: str) -> None:
        """Faults with these words are meant."""
        self._expected += words

    @property
    def faults(self) -> list[str]:
        """What was not expected."""
        return [one for one in self._faults if not any(words in one for words in self._expected)]

    def sizes(self) -> dict[str, int]:
        """The bytes, with heads, that came over the network for each address when it was first asked for."""
        found: dict[str, int] = {}
        for answer in self.answers:
            if answer.url not in found:
                sizes = answer.request.sizes()
                found[answer.url] = sizes["responseBodySize"] + sizes["responseHeadersSize"]
        return found

    def close(self) -> None:
        """Closes all pages."""
        self.context.close()

    def _take_message(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._faults.append(f"{message.text} ({message.location.get('url', '')})")


def evaluate(page: Page, body: str, argument: Any = None) -> Any:
    """What a function with this body returns in the page; `core` has what screens import there.

    `argument` is given to it: `evaluate(page, "return core.formatBytes(argument)", 2048)`.
    """
    begin = """async (argument) => {
      const at = document.querySelector('script[type=module]').src;
      const core = { ...(await import(at)), ...(await import(new URL('more.js', at))) };"""
    return page.evaluate(f"{begin} {body} }}", argument)


def box_of(target: Locator) -> FloatRect:
    """Where it stands in the window, in pixels; it must be drawn."""
    box = target.bounding_box()
    assert box is not None
    return box


def violations(page: Page) -> list[str]:
    """What axe finds by WCAG 2.2 AA and by good practice: rule, and the elements."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    found = page.evaluate(FIND_VIOLATIONS, AXE)
    return [f"{one['id']}: {', '.join(_places(one['nodes']))}" for one in found]


def _places(nodes: Iterable[Any]) -> list[str]:
    return [" ".join(map(str, node["target"])) for node in nodes]


def hold_up(page: Page, pattern: str) -> list[Route]:
    """Requests that fit stay unanswered; they are put into the list."""
    held: list[Route] = []
    page.route(pattern, lambda route: held.append(route))
    return held


class Clicks:
    """Clicks so far: `count`. Typing is not counted."""

    def __init__(self) -> None:
        self.count = 0

    def on(self, target: Locator) -> None:
        """Clicks on the target, as soon as it can be clicked on."""
        target.click()
        self.count += 1


PROGRAMS = ("chromium-headless-shell", "chromium")
"""The same engine. The shell has no window to build for each tab, which is a third of the work of a test."""

MISSING = "chromium is missing: apt-get install chromium-headless-shell fonts-noto-cjk"


def find_chromium() -> str | None:
    """The path of the first of PROGRAMS that is installed."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def launch(driver: Playwright, program: str) -> Browser:
    """A browser of its own, which whoever asked for it closes."""
    return driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
