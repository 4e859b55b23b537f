"""Every screen, as it looks: light and dark, wide and narrow, in both languages; nothing for axe to find."""

from itertools import product

import pytest
from playwright.sync_api import Page

from tests.console.browsing import Console, violations
from tests.console.places import PLACES, address_of
from tests.console.service import ConsoleService

WIDE, NARROW = 1_440, 390
LOOKS = list(product(("light", "dark"), (WIDE, NARROW)))


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("place", PLACES)
def test_a_screen_in_all_its_looks(
    console: Console, service: ConsoleService, place: str, language: str, request: pytest.FixtureRequest
) -> None:
    """axe finds nothing by WCAG 2.2 AA, and nothing makes the page scroll sideways.

    Here it is light and wide in English, dark and narrow in Chinese; with --long it has all looks in both.
    """
    page = console.in_language(language)(address_of(service, place))
    looks = LOOKS if request.config.getoption("--long") else (LOOKS[:1] if language == "en" else LOOKS[-1:])
    for colours, width in looks:
        page.emulate_media(color_scheme="dark" if colours == "dark" else "light", reduced_motion="reduce")
        page.set_viewport_size({"width": width, "height": 900})
        assert violations(page) == [], (place, colours, width, language)
        assert _overhang(page) <= 0, (place, colours, width, language)


def _overhang(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    found: int = page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
    return found
