"""What the execution's page computes, tried in the page: rows, the broken axis, differences, curl."""

import os
import subprocess
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.console.browsing import Console

BEGIN = "2026-01-31T09:00:00"


@pytest.fixture
def page(console: Console) -> Page:
    """Any page of the console."""
    return console("#/settings")


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


def test_waits_are_rows_of_their_own(page: Page) -> None:
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
    assert in_execution(page, body, {"told": told, "chain": chain}) == [
        ["start", "start", "wait", 2_000],
        ["a1", "attempt", "frame", 10],
        ["a1.s0", "step", "work", 10],
        ["a1.w", "retry", "wait", 4_000],
        ["a2", "attempt", "frame", None],
        ["a2.s0", "step", "work", 10],
        ["a2.f", "feedback", "wait", None],
    ]


@pytest.mark.long
def test_attempts_that_may_have_others_between_have_their_own_numbers(page: Page) -> None:
    """`requestCounts`; and the wait for the retry ends when it was due, not at an attempt much later."""
    failed = attempt(3, 0, 10, error="500", retryInMs=1_000)
    told = execution(failed, attempt(9, 8_000, 8_010))
    body = (
        "return screen.rowsOf(argument, null, true)"
        ".map((row) => [row.kind, row.ordinal ?? null, row.to - row.from])"
    )
    assert in_execution(page, body, told) == [
        ["attempt", 3, 10],
        ["retry", None, 1_000],
        ["attempt", 9, 10],
    ]


def test_who_lost_a_lease_is_told(page: Page) -> None:
    """Each claim is a row: the lost one ends when it was lost, the held one goes on."""
    leases = [
        {"step": 0, "part": 1, "instance": "w-1", "what": "claimed", "at": at(1_000)},
        {"step": 0, "part": 1, "instance": "w-1", "what": "lost", "at": at(5_000)},
        {"step": 0, "part": 1, "instance": "w-2", "what": "claimed", "at": at(6_000)},
    ]
    queue = {"step": 0, "name": "q", "parts": 2, "unclaimed": 1, "claimed": 1, "ended": 0}
    told = execution(attempt(1, 0, None, leases=leases, queue=queue), state="processing", endedAt=None)
    body = "return screen.rowsOf(argument, null).slice(1).map((row) => [row.kind, row.tone, row.to === null])"
    assert in_execution(page, body, told) == [
        ["queue", "busy", True],
        ["lease", "bad", False],
        ["lease", "busy", True],
    ]


@pytest.mark.long
def test_parts_stand_below_their_step(page: Page) -> None:
    """The API tells the parts first; a part that somebody held is told by the row of who held it."""
    held = {"step": 1, "part": 0, "instance": "w-1", "what": "claimed", "at": at(1_000)}
    parts = [step(1, 0, 2_000, part=0, instance="w-1"), step(1, 0, 3_000, part=1, instance="w-2")]
    told = execution(attempt(1, 0, 4_000, leases=[held], steps=[step(0, 0, 1), *parts, step(1, 0, 3_000)]))
    body = "return screen.rowsOf(argument, null).slice(1).map((row) => [row.key, row.depth])"
    assert in_execution(page, body, told) == [["a1.s0", 1], ["a1.s1", 1], ["a1.s1.p1", 2], ["a1.l0", 2]]


def test_long_waits_are_drawn_short_and_back(page: Page) -> None:
    """Work keeps its length, moments keep their order, and each place of the axis is one moment."""
    rows = [{"bars": [{"kind": "work", "from": 0, "to": 10}, {"kind": "work", "from": 5_010, "to": 5_020}]}]
    body = (
        "const warp = screen.warpOf(argument, { from: 0, to: 5020 }, 5020);"
        "const moments = [0, 10, 2000, 5010, 5020, 9000];"
        "const places = moments.map(warp.to);"
        "return [warp.isShorter, places, places.map((x) => Math.round(warp.back(x)))]"
    )
    shorter, places, back = in_execution(page, body, rows)
    assert shorter
    assert places == sorted(places)
    assert places[1] - places[0] == places[4] - places[3] == 10
    assert places[3] - places[1] < 20
    assert back == [0, 10, 2_000, 5_010, 5_020, 9_000]


@pytest.mark.parametrize(
    ("present", "past", "found"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, {"path": "$.a.b[1]", "present": 2, "past": 3}),
        ({"a": 1}, {"a": 1, "x y": None}, {"path": '$["x y"]', "present": None, "past": None}),
        ([1], {"0": 1}, {"path": "$", "present": [1], "past": {"0": 1}}),
        ({"a": [None, "x"]}, {"a": [None, "x"]}, None),
    ],
)
def test_the_first_difference_is_named(page: Page, present: Any, past: Any, found: Any) -> None:
    """By its JSONPath, with both values; a member that is missing has none."""
    body = "return screen.firstDifference(argument.present, argument.past)"
    assert in_execution(page, body, {"present": present, "past": past}) == found


def test_the_copied_curl_says_what_was_sent(page: Page) -> None:
    """A shell takes each argument as it was: quotes, line ends, what a shell would run, odd characters."""
    odd = 'it\'s $(touch /tmp/x) `id` "quoted"\n!! \\ \u202e é\t~ *'
    message = {"headers": {"X-Odd": "a'b; $HOME"}, "body": odd}
    body = "return screen.curlOf(argument.method, argument.url, argument.message)"
    url = "http://127.0.0.1/x?a=1&b='c'"
    text = in_execution(page, body, {"method": "PUT", "url": url, "message": message})
    assert text.startswith("curl -X PUT")
    assert "\u202e" not in text, "what is not seen is written out"
    script = f"curl() {{ printf '%s\\0' \"$@\"; }}\n{text}"
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, env=environment)
    given = done.stdout.decode().split("\0")[:-1]
    assert given == ["-X", "PUT", url, "-H", "X-Odd: a'b; $HOME", "--data-raw", odd]
