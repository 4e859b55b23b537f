"""Signing in and out in the browser, below a path of a proxy."""

from tests.console.browsing import Console
from tests.console.conftest import KEY, PREFIX


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
