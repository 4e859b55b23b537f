"""What a journey through the console costs whoever makes it: its clicks, counted."""

from playwright.sync_api import Locator


class Clicks:
    """Clicks so far: `count`. Typing is not counted."""

    def __init__(self) -> None:
        self.count = 0

    def on(self, target: Locator) -> None:
        """Clicks on the target, as soon as it can be clicked on."""
        target.click()
        self.count += 1
