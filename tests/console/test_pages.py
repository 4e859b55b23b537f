"""The console's pages in a browser: what they load, and that nothing is refused on the way."""

import pytest

from tests.console.browsing import Console, evaluate
from tests.console.service import ConsoleService

KIB = 1_024
FIRST_VISIT = 121 * KIB


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


@pytest.mark.long
def test_modules_can_be_tried_in_the_page(console: Console) -> None:
    """What `core.js` exports, as the screens import it."""
    page = console("#/jobs")
    assert evaluate(page, "return typeof core[argument]", "html") == "function"


@pytest.mark.long
def test_two_tabs_show_the_same(console: Console, service: ConsoleService) -> None:
    """What one changes, the other sees when it asks again."""
    first, second = console("#/jobs"), console("#/jobs")
    with service.caller() as client:
        posted = {
            "jobName": "Of two tabs",
            "timer": {"period": "external"},
            "request": [{"url": "service://shop/ok"}],
        }
        assert client.post("/jobs/two-tabs", json=posted).status_code == 201
    for page in (first, second):
        page.reload()
        console.settle(page)
        assert page.get_by_text("two-tabs").first.is_visible()
    with service.caller() as client:
        client.delete("/jobs/two-tabs")
