"""An action on many in a browser, whose answers are lost."""

from typing import Any

from playwright.sync_api import Page, Route, expect

from tests.console.browsing import Console

OPERATION: dict[str, Any] = {
    "operationId": "0" * 32, "kind": "jobs", "action": "trigger", "state": "running", "total": 4000,
    "done": 10, "succeeded": 10, "failed": 0, "problems": [], "moreProblems": 0,
    "started": [], "moreStarted": 0,
}  # fmt: skip


class Losing:
    """A service that loses its answers to the first two requests of an operation, which then ends at once.

    `begun` are the requests that began it: their keys and bodies.
    """

    def __init__(self, page: Page, **end: Any) -> None:
        self.begun: list[tuple[str | None, str | None]] = []
        page.route("**/bulk/jobs", self._begin)
        page.route("**/operations/*", lambda route: route.fulfill(json={"data": OPERATION | end}))

    def _begin(self, route: Route) -> None:
        is_dry = route.request.post_data_json["dryRun"]
        if not is_dry:
            self.begun.append((route.request.headers.get("idempotency-key"), route.request.post_data))
            if len(self.begun) <= 2:
                route.abort()
                return
        operation = None if is_dry else OPERATION
        route.fulfill(
            json={"data": {"dryRun": is_dry, "count": 1, "first": ["nightly"], "operation": operation}}
        )


def test_an_action_whose_answer_is_lost_is_asked_for_again_under_its_key(console: Console) -> None:
    """It may have begun: *Go on* does not begin another one. What was to be said of its choice is shown."""
    console.expect("Failed to load resource", "net::ERR")
    page = console("#/jobs?text=nightly")
    behind = {"pointer": "", "code": "history_behind", "message": "the history is behind"}
    service = Losing(page, state="done", succeeded=4000, warnings=[behind])
    page.get_by_role("checkbox", name="Choose nightly", exact=True).click()
    page.get_by_role("region", name="Actions on what is chosen").get_by_role("button", name="Run").click()
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    report = page.get_by_role("region", name="Report of the action")
    for _ in range(2):
        expect(report).to_contain_text("No answer came; Go on asks for it again")
        report.get_by_role("button", name="Go on").click()
    expect(report).to_contain_text("4,000 done, 0 failed")
    expect(report).to_contain_text("the history is behind")
    assert service.begun == [service.begun[0]] * 3
    assert service.begun[0][0]
