"""The console's pages in a browser: what they load, and that nothing is refused on the way."""

from collections.abc import Iterator
from itertools import product

import pytest
from playwright.sync_api import Page

from tests.console.browsing import Console, violations
from tests.console.conftest import KEY, PREFIX
from tests.console.places import PLACES, address_of
from tests.console.service import ConsoleService

KIB = 1_024
FIRST_VISIT = 116 * KIB


def test_a_first_visit_is_light(console: Console) -> None:
    """The list of jobs: at most 12 requests and FIRST_VISIT; then at most 20 KiB."""
    page = console("#/jobs")
    assert page.get_by_text("orders").first.is_visible()
    first = console.sizes()
    assert len(first) <= 12, first
    assert sum(first.values()) <= FIRST_VISIT, first
    console.answers.clear()
    page.reload()
    console.settle(page)
    assert sum(console.sizes().values()) <= 20 * KIB, console.sizes()


def test_the_policy_is_strict_and_holds(console: Console) -> None:
    """Scripts of the page itself run; what is put into it does not, and the browser says so."""
    page = console("#/jobs")
    policy = console.answers[0].headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    console.expect("Content Security Policy")
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = true'}))"
    )
    assert page.evaluate("window.ran === undefined")


def test_signing_in_and_out_below_a_path(guarded_console: Console) -> None:
    """With a key of the service, in blanks; a wrong one is refused, and its cookie is closed to scripts."""
    guarded_console.expect("401")
    page = guarded_console("#/jobs")
    field = page.get_by_label("Key", exact=False).first
    for key in ("a-wrong-key-of-ours", f"  {KEY} "):
        field.fill(key)
        page.locator("form button").first.click()
        if KEY not in key:
            page.get_by_role("alert").wait_for()
    page.locator("nav").first.wait_for()
    guarded_console.settle(page)
    kept = {cookie["name"]: cookie for cookie in guarded_console.context.cookies()}["punctual_session"]
    assert (kept["path"], kept["httpOnly"], kept["sameSite"]) == (PREFIX, True, "Strict")
    assert "punctual_session" not in page.evaluate("document.cookie")
    assert all(PREFIX in answer.url for answer in guarded_console.answers)
    page.reload()
    page.locator("nav").first.wait_for()
    page.evaluate("fetch('../session', {method: 'DELETE', headers: {'X-Punctual-Console': '1'}})")
    page.reload()
    page.locator("form input[type=password]").wait_for()


WIDE, NARROW = 1_440, 390
LOOKS = list(product(("light", "dark"), (WIDE, NARROW)))


def screens() -> Iterator[object]:
    """Every second place in one language and look, these in turns; `--long`: all in both and all looks."""
    for number, place in enumerate(PLACES[::2]):
        yield pytest.param(place, ("en", "zh")[number % 2], [LOOKS[number // 2 % len(LOOKS)]])
    for place, language in product(PLACES, ("en", "zh")):
        yield pytest.param(place, language, LOOKS, marks=pytest.mark.long)


@pytest.mark.parametrize(("place", "language", "looks"), [*screens()])
def test_a_screen_in_all_its_looks(
    console: Console, service: ConsoleService, place: str, language: str, looks: list[tuple[str, int]]
) -> None:
    """axe finds nothing by WCAG 2.2 AA, and nothing makes the page scroll sideways."""
    page = console.in_language(language)(address_of(service, place))
    for colours, width in looks:
        page.emulate_media(color_scheme="dark" if colours == "dark" else "light", reduced_motion="reduce")
        page.set_viewport_size({"width": width, "height": 900})
        assert violations(page) == [], (place, colours, width, language)
        assert _overhang(page) <= 0, (place, colours, width, language)


def _overhang(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    found: int = page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
    return found
