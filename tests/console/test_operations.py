"""An action on many in a browser, while the service goes away and comes back."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.console.browsing import Console

ID = "0" * 32
RUNNING: dict[str, Any] = {
    "operationId": ID,
    "kind": "jobs",
    "action": "trigger",
    "state": "running",
    "total": 4000,
    "done": 10,
    "succeeded": 10,
    "failed": 0,
    "problems": [],
    "moreProblems": 0,
    "started": [],
    "moreStarted": 0,
}
SEEN_LAST = "10 done, 0 failed"


class Scripted:
    """A service whose operation gives these answers, one by one; `begun` are the requests that began it.

    The answers to the first `lost` of these are lost.
    """

    def __init__(self, page: Page, answers: list[Callable[[Route], None]], *, lost: int = 0) -> None:
        self.begun: list[tuple[str | None, str | None]] = []
        self._lost = lost
        self._answers: Iterator[Callable[[Route], None]] = iter(answers)
        page.route("**/bulk/jobs", self._begin)
        page.route("**/operations/*", lambda route: next(self._answers)(route))

    def _begin(self, route: Route) -> None:
        is_dry = route.request.post_data_json["dryRun"]
        if not is_dry:
            self.begun.append((route.request.headers.get("idempotency-key"), route.request.post_data))
            if len(self.begun) <= self._lost:
                silent(route)
                return
        data = {"dryRun": is_dry, "count": 1, "first": ["nightly"], "operation": None if is_dry else RUNNING}
        route.fulfill(json={"data": data})


def answer(**members: Any) -> Callable[[Route], None]:
    """An operation as it stands, with these members."""
    return lambda route: route.fulfill(json={"data": {**RUNNING, **members}})


def refuse(status: int) -> Callable[[Route], None]:
    """A problem of this status."""
    problem = {"type": "about:blank", "title": "refused", "status": status}
    return lambda route: route.fulfill(status=status, json=problem)


def silent(route: Route) -> None:
    """Nobody answers."""
    route.abort()


def run_nightly(page: Page) -> Locator:
    """Runs one job as an action on many; the report of it."""
    page.get_by_role("checkbox", name="Choose nightly", exact=True).click()
    page.get_by_role("region", name="Actions on what is chosen").get_by_role("button", name="Run").click()
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    return page.get_by_role("region", name="Report of the action")


@pytest.mark.long
def test_an_operation_is_followed_over_a_crash(console: Console) -> None:
    """A connection that breaks and a service that is not ready end nothing: it is followed to its end."""
    console.expect("Failed to load resource", "net::ERR")
    page = console("#/jobs?text=nightly")
    Scripted(page, [silent, refuse(503), answer(done=20), silent, answer(state="interrupted", succeeded=20)])
    report = run_nightly(page)
    expect(report).to_contain_text("The service ended in the middle")
    expect(report).to_contain_text("20 done, 0 failed")
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.long
def test_an_interrupted_operation_goes_on_under_its_key(console: Console) -> None:
    """*Go on* sends the same body under the same key, so nothing is done twice; others have other keys."""
    page = console("#/jobs?text=nightly")
    ends = [answer(state="interrupted"), answer(state="done", succeeded=4000), answer(state="interrupted")]
    service = Scripted(page, ends)
    report = run_nightly(page)
    expect(report).to_contain_text("Go on does the rest, and nothing twice")
    report.get_by_role("button", name="Go on").click()
    expect(report).to_contain_text("4,000 done, 0 failed")
    expect(report.get_by_role("button", name="Go on")).to_have_count(0)
    first, again = service.begun
    assert first[0]
    assert again == first
    run_nightly(page)
    expect(report.get_by_role("button", name="Go on")).to_be_visible()
    assert service.begun[2][1] == first[1]
    assert service.begun[2][0] not in (None, first[0])


@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "The service knows nothing of it any more"), (403, "It could not be followed to its end")],
)
def test_an_operation_that_cannot_be_read_is_told_in_words(console: Console, status: int, words: str) -> None:
    """Its report has the figures that were seen last, and no text without its figures."""
    console.expect("Failed to load resource")
    page = console("#/jobs?text=nightly")
    Scripted(page, [refuse(status)])
    report = run_nightly(page)
    expect(report).to_contain_text(f"{words}; seen last: {SEEN_LAST}")
    expect(report).not_to_contain_text(re.compile(r"[{}]"))


def test_an_action_whose_answer_is_lost_is_asked_for_again_under_its_key(console: Console) -> None:
    """It may have begun: *Go on* does not begin another one. What was to be said of its choice is shown."""
    console.expect("Failed to load resource", "net::ERR")
    page = console("#/jobs?text=nightly")
    behind = {"pointer": "", "code": "history_behind", "message": "the history is behind"}
    service = Scripted(page, [answer(state="done", succeeded=4000, warnings=[behind])], lost=2)
    report = run_nightly(page)
    for _ in range(2):
        expect(report).to_contain_text("No answer came; Go on asks for it again")
        report.get_by_role("button", name="Go on").click()
    expect(report).to_contain_text("4,000 done, 0 failed")
    expect(report).to_contain_text("the history is behind")
    assert service.begun == [service.begun[0]] * 3
