"""Every screen, as it looks: light and dark, wide and narrow, in both languages; nothing for axe to find."""

from collections.abc import Iterator
from itertools import product

import pytest
from playwright.sync_api import Page

from tests.console.browsing import Console, violations
from tests.console.places import PLACES, address_of
from tests.console.service import ConsoleService

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
