"""The distribution's Chromium: its shell without windows where there is one, or else the whole browser."""

import shutil

from playwright.sync_api import Browser, Playwright

PROGRAMS = ("chromium-headless-shell", "chromium")
"""The same engine. The shell has no window to build for each tab, which is a third of the work of a test."""

MISSING = "chromium is missing: apt-get install chromium-headless-shell fonts-noto-cjk"


def find_chromium() -> str | None:
    """The path of the first of PROGRAMS that is installed."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def launch(driver: Playwright, program: str) -> Browser:
    """A browser of its own, which whoever asked for it closes."""
    return driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
