"""A job whose every text is meant to do harm, and is large: no screen runs, hides or is broken by it."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.browsing import Console
from tests.console.service import ConsoleService
from tests.console.starter import Starter
from tests.wire.target import Reply

MARKUP = "<script>window.hit = 1</script><img src=x onerror='window.hit=1'><b>"
UNSEEN = "\u202egnp.exe\u2066\u200b\u0007\u009b"
HOSTILE = MARKUP + UNSEEN
LONG = "x" * 4 * 1_024 * 1_024
LIMITS = {"body_bytes": 16 * 1_024 * 1_024, "response_bytes": 8 * 1_024 * 1_024}
USUAL = ["#/jobs/hostile", "#/executions/{execution}"]
FURTHER = [
    "#/", "#/jobs", "#/jobs/hostile?tab=definition", "#/jobs/hostile?tab=executions", "#/executions",
    "#/jobs/hostile/edit?view=form", "#/jobs/hostile/edit?view=both", "#/deliveries", "#/audit",
]  # fmt: skip


@pytest.fixture(scope="module")
def hostile() -> Iterator[tuple[ConsoleService, str]]:
    """A service with the job, and the id of its execution, which has failed in its own words."""
    with ConsoleService(limits=LIMITS, notification={"retries": 0}) as service:
        failed = {"status": "failed", "error": HOSTILE, "message": HOSTILE, "progress": HOSTILE}
        service.target.always("/hostile", Reply(200, {HOSTILE: HOSTILE, "long": LONG}))
        service.target.always("/hostile/check", Reply(200, failed))
        service.target.always("/inbox", Reply(503, {HOSTILE: HOSTILE, "long": LONG}))
        starter = Starter(service)
        starter.job("hostile", *_definition().pop("request"), **_definition())
        execution = starter.ended("hostile")
        yield service, execution
        starter.close()


def _definition() -> dict[str, Any]:
    body, told = {HOSTILE: HOSTILE}, {"name": HOSTILE, "url": "service://shop/inbox"}
    return {
        # Names with an unseen character are refused.
        "jobName": MARKUP,
        "jobDescription": MARKUP,
        "objectId": HOSTILE,
        "creator": MARKUP,
        "creatorName": MARKUP,
        "labels": {MARKUP: MARKUP},
        "async": True,
        "checkUrl": "service://shop/hostile/check",
        "checkRateSeconds": 1,
        "request": [{"method": "POST", "url": "service://shop/hostile", "body": body | {"long": LONG}}],
        "notification": [told | {"body": body, "guarantee": "outbox"}],
    }


@pytest.mark.parametrize("place", [*USUAL, *(pytest.param(one, marks=pytest.mark.long) for one in FURTHER)])
def test_a_hostile_job_is_text(browser: Browser, hostile: tuple[ConsoleService, str], place: str) -> None:
    """Nothing of it runs, no unseen character reaches the page, and the page is as wide as the window."""
    service, execution = hostile
    console = Console(browser=browser, url=service.url)
    page = console(place.format(execution=execution), width=390)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    for width in (390, 1_440):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    assert page.evaluate("window.hit === undefined")
    assert hidden(page) == []
    console.close()
    assert console.faults == []


def hidden(page: Page) -> list[str]:
    """The elements whose own text, title or name has an unseen character as it came.

    The text that is being edited stays as it is, and so does what is drawn behind it.
    """
    body = """(unseen) => {
      const has = (text) => unseen.some((one) => (text ?? "").includes(one));
      const texts = (node) => [...node.childNodes].filter((one) => one.nodeType === 3).map((one) => one.data);
      const names = (node) => [node.getAttribute("title"), node.getAttribute("aria-label")];
      return [...document.querySelectorAll("body :not(pre[aria-hidden=true], pre[aria-hidden=true] *)")]
        .filter((node) => [...texts(node), ...names(node)].some(has))
        .map((node) => node.outerHTML.slice(0, 300));
    }"""
    return list(page.evaluate(body, list(UNSEEN.replace("gnp.exe", ""))))


def test_the_palette_shows_it_as_text(browser: Browser, hostile: tuple[ConsoleService, str]) -> None:
    """Where one looks for jobs by name."""
    console = Console(browser=browser, url=hostile[0].url)
    page = console("#/nodes")
    page.keyboard.press("Control+k")
    page.keyboard.type("hostile")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_contain_text(MARKUP)
    assert hidden(page) == []
    console.close()
    assert console.faults == []
