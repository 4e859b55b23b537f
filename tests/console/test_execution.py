"""One execution: why it failed, its time line, its requests, replay and cancellation, through the page."""

import os
import re
import subprocess
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.console.browsing import Console, violations
from tests.console.service import ConsoleService
from tests.console.starter import Starter
from tests.rows import each_row
from tests.wire.target import HELD, Reply

HOSTILE = "<script>window.hit = 1</script><img src=x onerror='window.hit=1'>\u202egnp.exe\u0007"


def state(page: Page, word: str) -> None:
    """Waits until the head of the page says `word`."""
    expect(page.get_by_role("heading", level=1)).to_contain_text(word)


def test_why_a_job_failed_is_found_in_two_clicks(console: Console) -> None:
    """From the list of failed ones to the answer that made it fail, which is open at once."""
    page = console("#/executions")
    page.get_by_role("button", name=re.compile("^failed")).click()
    page.get_by_role("link", name="orders #4").click()
    state(page, "The job orders #4")
    expect(page.get_by_role("note")).to_contain_text("500 no such article at step 1")
    expect(page.get_by_role("note")).to_contain_text("No retry policy names this error")
    detail = page.get_by_role("complementary", name="Details")
    expect(detail).to_contain_text('error: "no such article"')
    detail.get_by_text("Raw").last.click()
    expect(detail).to_contain_text('{"error": "no such article"}')
    page.get_by_role("button", name="Compare").click()
    console.settle(page)
    table = page.get_by_role("table", name="This execution beside the last one that succeeded")
    expect(table).to_contain_text("$.ordered")
    expect(table).to_contain_text("Last success, #")
    assert violations(page) == []


def test_a_failed_chain_is_replayed_from_its_second_step(
    console: Console, service: ConsoleService, started: Starter
) -> None:
    """With another parameter: the first step is not sent again, and the page shows the new execution."""
    service.target.answers("/chain/second", Reply(500, {"error": "too large"}))
    service.target.always("/chain/first", Reply(200, {"article": "tea"}))
    first = {"url": "service://shop/chain/first", "respEnvName": "FIRST"}
    body = {"article": "${FIRST.article}", "size": "${trigger.size}|json"}
    started.job("chain", first, {"url": "service://shop/chain/second", "body": body})
    execution = started.run("chain", size=3)
    page = console(f"#/executions/{execution}")
    state(page, "failed")
    page.get_by_role("button", name="Replay from here").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Begin at")).to_have_value("1")
    parameters = dialog.get_by_label("Parameters")
    parameters.fill("[1]")
    dialog.get_by_role("button", name="Replay").click()
    expect(dialog).to_contain_text("The parameters are a JSON object")
    parameters.fill('{"size": 2}')
    dialog.get_by_role("button", name="Replay").click()
    state(page, "chain #2")
    state(page, "succeeded")
    expect(page.get_by_role("link", name="Previous execution of this job")).to_be_visible()
    assert [one.json["size"] for one in service.target.at("/chain/second")] == [3, 2]
    assert len(service.target.at("/chain/first")) == 1
    page.keyboard.press("[")
    state(page, "chain #1")
    expect(page.get_by_role("link", name="Next execution of this job")).to_be_visible()
    page.keyboard.press("]")
    state(page, "chain #2")


def test_a_running_one_is_cancelled_with_a_reason(
    console: Console, service: ConsoleService, started: Starter
) -> None:
    """What runs is in the time line though the history has nothing of it yet; then the reason is there."""
    service.target.always("/endless", HELD)
    started.job("endless", {"url": "service://shop/endless"})
    page = console(f"#/executions/{started.run('endless')}")
    state(page, "running")
    expect(page.get_by_role("row", name="1 POST service://shop/endless running")).to_be_visible()
    page.get_by_role("button", name="Cancel it").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("wrong day")
    dialog.get_by_role("button", name="Cancel it").click()
    state(page, "cancelled")
    expect(page.get_by_role("note")).to_contain_text("wrong day")


def test_waits_are_told_and_the_time_line_is_read_by_keys(
    console: Console, service: ConsoleService, started: Starter
) -> None:
    """Each attempt, step and wait is a row of a table; j and Enter open one, + looks closer, 0 shows all."""
    service.target.answers("/twice", 503, Reply(200, {"done": True}))
    retry = [{"errorEquals": "5xx", "intervalSeconds": 0.3, "maxAttempts": 2}]
    started.job("twice", {"url": "service://shop/twice"}, retry=retry)
    page = console(f"#/executions/{started.run('twice')}")
    state(page, "succeeded")
    names = page.locator("table").first.get_by_role("rowheader")
    expect(names).to_have_text(
        [
            "Attempt 1",
            "1POST service://shop/twice",
            "Waits 300 ms for the retry",
            "Attempt 2",
            "1POST service://shop/twice",
        ]
    )
    for key in "jjj":
        page.keyboard.press(key)
    expect(names.nth(2).get_by_role("button")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary", name="Details")).to_contain_text(
        "an error that a policy retries"
    )
    page.keyboard.press("+")
    expect(page.get_by_role("button", name="Whole span")).to_be_visible()
    page.keyboard.press("0")
    expect(page.get_by_role("button", name="Whole span")).to_be_hidden()


@pytest.mark.long
def test_what_an_answer_leaves_out_is_told(
    console: Console, service: ConsoleService, started: Starter
) -> None:
    """Reports that take more room than an answer has: a sentence says so; an attempt can be seen alone."""
    service.target.always("/telling", Reply(202))
    step = {"url": "service://shop/telling", "body": {"callback": "${schedulingFeedbackUrl}"}}
    started.job("telling", step, **{"async": True})
    page = console(f"#/executions/{started.run('telling')}")
    state(page, "running")
    expect(page.get_by_text("waits for feedback").first).to_be_visible()
    expect(page.get_by_label("One attempt alone")).to_have_count(0)
    callback = service.target.at("/telling")[0].json["callback"]
    with httpx.Client() as client:
        for number in range(50):
            report = {"status": "", "number": number, "values": [[]] * 1_300}
            assert client.post(callback, json=report).is_success
    expect(page.get_by_text("Older records or bodies are left out here")).to_be_visible()
    expect(page.get_by_role("rowheader", name="Attempt 1")).to_be_visible()
    alone = page.get_by_label("One attempt alone")
    alone.fill("7")
    alone.press("Enter")
    expect(page.get_by_role("rowheader", name="Attempt 1")).to_have_count(0)
    expect(alone).to_have_value("7")
    assert violations(page) == []
    alone.fill("")
    alone.press("Enter")
    expect(page.get_by_role("rowheader", name="Attempt 1")).to_be_visible()


@pytest.mark.long
def test_what_is_being_typed_stays_while_reports_arrive(
    console: Console, service: ConsoleService, started: Starter
) -> None:
    """The page is drawn again with each report; a field that is not entered yet keeps what stands in it.

    Where the address asks for another attempt meanwhile, that one counts.
    """
    service.target.always("/typing", Reply(202))
    step = {"url": "service://shop/typing", "body": {"callback": "${schedulingFeedbackUrl}"}}
    started.job("typing", step, **{"async": True})
    execution = started.run("typing")
    page = console(f"#/executions/{execution}")
    expect(page.get_by_text("waits for feedback").first).to_be_visible()
    callback = service.target.at("/typing")[0].json["callback"]
    page.evaluate(f"location.hash = '#/executions/{execution}?attempt=7'")
    alone = page.get_by_label("One attempt alone")
    expect(alone).to_have_value("7")
    alone.fill("1")
    alone.evaluate("one => one.marked = true")
    with httpx.Client() as client:
        assert client.post(callback, json={"status": "", "message": "half way there"}).is_success
    expect(page.get_by_text("half way there").first).to_be_visible()
    expect(alone).to_have_value("1")
    expect(alone).to_have_js_property("marked", True)
    page.evaluate(f"history.pushState(null, '', '#/executions/{execution}?attempt=9')")
    page.evaluate("dispatchEvent(new PopStateEvent('popstate'))")
    expect(alone).to_have_value("9")
    alone.fill("1")
    alone.press("Enter")
    expect(page.get_by_role("rowheader", name="Attempt 1")).to_be_visible()


def test_a_result_is_shown_as_text_and_downloaded(
    console: Console, service: ConsoleService, started: Starter
) -> None:
    """JSON that folds, a page as its text and as a file; executions without one have no such part."""
    service.target.answers("/kept", Reply(200, {"rows": 7}))
    service.target.always("/kept", Reply(200, HOSTILE.encode()))
    started.job("kept", {"url": "service://shop/kept"}, keepResult=True)
    page = console(f"#/executions/{started.ended('kept')}?tab=result")
    expect(page.locator(".lower")).to_contain_text("rows: 7")
    assert violations(page) == []
    page = console(f"#/executions/{started.ended('kept')}?tab=result")
    lower = page.locator(".lower")
    expect(lower).to_contain_text("<script>window.hit = 1</script>")
    with page.expect_download() as download:
        lower.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename.endswith("-2.txt")
    assert page.evaluate("window.hit") is None
    started.job("plain", {"url": "service://shop/ok"})
    page = console(f"#/executions/{started.ended('plain')}")
    expect(page.get_by_role("button", name="Compare")).to_be_visible()
    expect(page.get_by_role("button", name="Result")).to_have_count(0)


BEGIN = "2026-01-31T09:00:00"


def in_execution(page: Page, body: str, argument: Any = None) -> Any:
    """What a function with this body returns; `screen` is the module of the execution's page."""
    begin = "async (argument) => { const entry = document.querySelector('script[type=module]').src;"
    load = "const screen = await import(new URL('screens/execution.en.js', entry).href);"
    return page.evaluate(f"{begin} {load} {body} }}", argument)


def at(ms: int) -> str:
    """A moment `ms` after the start."""
    return f"{BEGIN[:-2]}{ms // 1_000:02}.{ms % 1_000:03}Z"


def attempt(number: int, began: int, ended: int | None, **members: Any) -> dict[str, Any]:
    """An attempt as the API tells it."""
    nothing: dict[str, Any] = {"steps": [], "checks": [], "feedback": [], "leases": [], "queue": None}
    end = {"endedAt": None if ended is None else at(ended), "error": None, "retryInMs": None}
    return nothing | end | {"requestCounts": number, "startedAt": at(began)} | members


def execution(*attempts: dict[str, Any], state: str = "succeeded", **members: Any) -> dict[str, Any]:
    """An execution that was planned and begun at the start."""
    times = {"plannedAt": at(0), "startedAt": at(0), "endedAt": at(10_000)}
    rest = {"triggeredBy": "timer", "notifications": [], "attempts": list(attempts)}
    return {"state": state, **times, **rest} | members


def step(index: int, began: int, ended: int, **members: Any) -> dict[str, Any]:
    """A step that was answered."""
    times = {"sentAt": at(began), "endedAt": at(ended), "durationMs": ended - began}
    return {"index": index, "part": None, "error": None, "status": 200, "instance": None} | times | members


def test_waits_are_rows_of_their_own(any_page: Page) -> None:
    """A late start, the wait for a retry, that for feedback: each with its beginning and end."""
    failed = attempt(
        1, 2_000, 2_010, error="500", retryInMs=4_000, steps=[step(0, 2_000, 2_010, error="500")]
    )
    waiting = attempt(2, 6_010, None, steps=[step(0, 6_010, 6_020)])
    told = execution(failed, waiting, state="processing", startedAt=at(2_000), endedAt=None)
    chain = {"steps": [{}], "isAsync": True, "hasCheck": False}
    body = (
        "return screen.rowsOf(argument.told, argument.chain)"
        ".map((row) => [row.key, row.kind, row.bars[0].kind, row.to === null ? null : row.to - row.from])"
    )
    assert in_execution(any_page, body, {"told": told, "chain": chain}) == [
        ["start", "start", "wait", 2_000],
        ["a1", "attempt", "frame", 10],
        ["a1.s0", "step", "work", 10],
        ["a1.w", "retry", "wait", 4_000],
        ["a2", "attempt", "frame", None],
        ["a2.s0", "step", "work", 10],
        ["a2.f", "feedback", "wait", None],
    ]


def test_who_lost_a_lease_is_told(any_page: Page) -> None:
    """Each claim is a row: the lost one ends when it was lost, the held one goes on."""
    leases = [
        {"step": 0, "part": 1, "instance": "w-1", "what": "claimed", "at": at(1_000)},
        {"step": 0, "part": 1, "instance": "w-1", "what": "lost", "at": at(5_000)},
        {"step": 0, "part": 1, "instance": "w-2", "what": "claimed", "at": at(6_000)},
    ]
    queue = {"step": 0, "name": "q", "parts": 2, "unclaimed": 1, "claimed": 1, "ended": 0}
    told = execution(attempt(1, 0, None, leases=leases, queue=queue), state="processing", endedAt=None)
    body = "return screen.rowsOf(argument, null).slice(1).map((row) => [row.kind, row.tone, row.to === null])"
    assert in_execution(any_page, body, told) == [
        ["queue", "busy", True],
        ["lease", "bad", False],
        ["lease", "busy", True],
    ]


def test_long_waits_are_drawn_short_and_back(any_page: Page) -> None:
    """Work keeps its length, moments keep their order, and each place of the axis is one moment."""
    rows = [{"bars": [{"kind": "work", "from": 0, "to": 10}, {"kind": "work", "from": 5_010, "to": 5_020}]}]
    body = (
        "const warp = screen.warpOf(argument, { from: 0, to: 5020 }, 5020);"
        "const moments = [0, 10, 2000, 5010, 5020, 9000];"
        "const places = moments.map(warp.to);"
        "return [warp.isShorter, places, places.map((x) => Math.round(warp.back(x)))]"
    )
    shorter, places, back = in_execution(any_page, body, rows)
    assert shorter
    assert places == sorted(places)
    assert places[1] - places[0] == places[4] - places[3] == 10
    assert places[3] - places[1] < 20
    assert back == [0, 10, 2_000, 5_010, 5_020, 9_000]


@each_row(
    ("present", "past", "found"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, {"path": "$.a.b[1]", "present": 2, "past": 3}),
        ({"a": 1}, {"a": 1, "x y": None}, {"path": '$["x y"]', "present": None, "past": None}),
        ([1], {"0": 1}, {"path": "$", "present": [1], "past": {"0": 1}}),
        ({"a": [None, "x"]}, {"a": [None, "x"]}, None),
    ],
)
def test_the_first_difference_is_named(any_page: Page, present: Any, past: Any, found: Any) -> None:
    """By its JSONPath, with both values; a member that is missing has none."""
    body = "return screen.firstDifference(argument.present, argument.past)"
    assert in_execution(any_page, body, {"present": present, "past": past}) == found


def test_the_copied_curl_says_what_was_sent(any_page: Page) -> None:
    """A shell takes each argument as it was: quotes, line ends, what a shell would run, odd characters."""
    odd = 'it\'s $(touch /tmp/x) `id` "quoted"\n!! \\ \u202e é\t~ *'
    message = {"headers": {"X-Odd": "a'b; $HOME"}, "body": odd}
    body = "return screen.curlOf(argument.method, argument.url, argument.message)"
    url = "http://127.0.0.1/x?a=1&b='c'"
    text = in_execution(any_page, body, {"method": "PUT", "url": url, "message": message})
    assert text.startswith("curl -X PUT")
    assert "\u202e" not in text, "what is not seen is written out"
    script = f"curl() {{ printf '%s\\0' \"$@\"; }}\n{text}"
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, env=environment)
    given = done.stdout.decode().split("\0")[:-1]
    assert given == ["-X", "PUT", url, "-H", "X-Odd: a'b; $HOME", "--data-raw", odd]
