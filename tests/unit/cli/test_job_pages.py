"""The pages of an execution and of a job (SPEC section 16)."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from scheduler_service.cli.job_pages import describe_state, show_execution, show_job
from scheduler_service.cli.job_queries import describe_state as describe_job_state
from tests.rows import each_row

EXECUTION: dict[str, Any] = {
    "executionId": "01a2-3",
    "jobId": "report",
    "executeNumber": 3,
    "state": "terminated",
    "reason": "policy_spent",
    "error": "503",
    "failureType": "http",
    "triggeredBy": "timer",
    "plannedAt": "2026-01-31T09:00:00.000Z",
    "startedAt": "2026-01-31T09:00:00.025Z",
    "endedAt": "2026-01-31T09:00:02.525Z",
    "latenessMs": 25,
    "progress": "3/3",
    "detail": "kept",
    "params": {"size": 3},
    "attempts": [
        {
            "requestCounts": 7,
            "startedAt": "2026-01-31T09:00:00.025Z",
            "endedAt": "2026-01-31T09:00:00.037Z",
            "error": "503",
            "message": "the target answered 503",
            "retryInMs": 1500,
            "steps": [
                {
                    "index": 0,
                    "part": None,
                    "method": "POST",
                    "url": "http://x/pay",
                    "status": 503,
                    "fault": None,
                    "error": "503",
                    "durationMs": 12,
                    "response": {"headers": {}, "body": '{"error": "closed"}', "truncated": False},
                }
            ],
            "checks": [
                {
                    "serial": 1,
                    "at": "2026-01-31T09:00:01.000Z",
                    "status": "",
                    "progress": "1/3",
                    "error": None,
                    "method": "GET",
                    "url": "http://x/pay/3",
                    "httpStatus": 200,
                    "fault": None,
                }
            ],
            "feedback": [{"at": "2026-01-31T09:00:02.000Z", "stale": True, "body": {"status": "failed"}}],
        }
    ],
    "notifications": [
        {
            "event": "finalFailed",
            "url": "http://y/",
            "state": "pending",
            "attempts": [{"at": "2026-01-31T09:00:02.525Z", "status": None, "fault": "refused"}],
            "nextTryAt": "2026-01-31T09:00:22.525Z",
        }
    ],
}

PAGE = """\
execution    report#3
executionId  01a2-3
state        terminated
reason       policy_spent
error        503 (http): the target answered 503
triggeredBy  timer
plannedAt    2026-01-31 09:00:00Z
startedAt    2026-01-31 09:00:00Z, 25 ms late
endedAt      2026-01-31 09:00:02Z, after 2.5 s
progress     3/3
params       {"size": 3}

attempt 1 (requestCounts 7): 503 after 12 ms; the target answered 503; again in 1.5 s
  step  request            status  took
  0     POST http://x/pay  503     12 ms
  response 0  {"error": "closed"}
  checks: GET http://x/pay/3
  check  answer  status        progress  at
  1      200     "" (running)  1/3       2026-01-31 09:00:01Z
  feedback  body                  at
  stale     {"status": "failed"}  2026-01-31 09:00:02Z

notifications
  event        state    tries  last     nextTryAt             url
  finalFailed  pending  1      refused  2026-01-31 09:00:22Z  http://y/
"""


Page = Callable[..., str]
(ATTEMPT,) = EXECUTION["attempts"]


@pytest.fixture
def page(capsys: pytest.CaptureFixture[str]) -> Page:
    """What is shown of that execution with these members instead."""

    def show(**members: Any) -> str:
        show_execution({**EXECUTION, **members})
        return capsys.readouterr().out

    return show


def test_an_execution_is_a_page(page: Page) -> None:
    """Outcome, attempts with steps, checks and feedback, notifications; the error in one line (16)."""
    assert page() == PAGE


def test_an_answer_that_leaves_out_older_records_says_so(page: Page) -> None:
    """With what shows more. Attempts cannot be counted then, as where one of several is shown."""
    more = "--request-counts shows one attempt, 'executions log' more lines"
    partial = page(detail="partial")
    assert f"detail       older records or bodies are left out; {more}\n" in partial
    assert "detail       dropped\n" in page(detail="dropped")
    for shown in (partial, page(attemptCount=3)):
        assert "\nattempt (requestCounts 7): 503" in shown


@each_row(
    ("kind", "members", "line"),
    [
        ("steps", {"fault": "refused", "error": "500"}, "http://x/pay  no answer  "),
        ("steps", {"fault": None, "error": "E1"}, "http://x/pay  E1  "),
        ("steps", {"fault": None, "error": None}, "http://x/pay  done  "),
        ("checks", {"status": ""}, '200     "" (running)  '),
        ("checks", {"status": None}, "200     -  "),
        ("checks", {"status": None, "error": "E1"}, "200     E1  "),
    ],
)
def test_what_has_no_status_says_how_it_ended(
    page: Page, kind: str, members: dict[str, Any], line: str
) -> None:
    """Of a step no answer came, or it is work of a queue; an empty status of a check: the work goes on."""
    (whole,) = ATTEMPT[kind]
    assert line in page(attempts=[{**ATTEMPT, kind: [{**whole, "status": None, **members}]}])


def test_a_failed_execution_waits_for_its_retry(page: Page) -> None:
    """Its state is `failed`, a word that sounds like the end (SPEC section 5)."""
    waits = "failed: waits for retry 1 at 2026-01-31 09:00:01Z"
    assert f"state        {waits}\n" in page(state="failed", attemptCount=1, endedAt=None)
    assert describe_state({**EXECUTION, "state": "running"}) == "running"
    assert describe_state({**EXECUTION, "state": "failed", "attempts": []}) == "failed: waits for a retry"


def test_what_has_not_happened_is_left_out(page: Page) -> None:
    """A waiting execution has neither start nor end."""
    waiting = {"state": "scheduled", "reason": None, "error": None, "startedAt": None, "endedAt": None}
    empty = {"attempts": [], "notifications": [], "progress": None, "params": {}, "latenessMs": None}
    names = [line.split()[0] for line in page(**waiting, **empty).splitlines()]
    assert names == ["execution", "executionId", "state", "triggeredBy", "plannedAt"]
    # There is a column for it only where a step has one
    steps = [step | {"instance": "shop-1"} for step in ATTEMPT["steps"]]
    assert "INSTANCE" not in page().upper()
    assert "shop-1" in page(attempts=[ATTEMPT | {"steps": steps}])


@each_row(
    ("parts", "unclaimed", "claimed", "ended", "line"),
    [
        (1, 1, 0, 0, "step 0 in queue work: the part waits for a claim"),
        (1, 0, 1, 0, "step 0 in queue work: 1 claimed"),
        (3, 1, 1, 1, "step 0 in queue work: 1 of 3 parts wait for a claim, 1 claimed, 1 ended"),
    ],
)
def test_work_in_a_queue_says_whether_it_is_claimed(
    page: Page, parts: int, unclaimed: int, claimed: int, ended: int, line: str
) -> None:
    """Its attempt says nothing else as long as no part has ended."""
    queue = {"step": 0, "name": "work", "parts": parts}
    queue |= {"unclaimed": unclaimed, "claimed": claimed, "ended": ended}
    assert f"  {line}\n" in page(attempts=[{**ATTEMPT, "steps": [], "queue": queue}])


JOB: dict[str, Any] = {
    "jobId": "nightly",
    "jobName": "Nightly",
    "objectId": None,
    "creator": "001",
    "labels": {"team": "ops"},
    "parentJob": None,
    "parentJobExecution": None,
    "revision": 2,
    "state": "paused",
    "pauseReason": "gone",
    "kind": "cron",
    "nextFireTime": "2026-01-31T02:30:00.000Z",
    "executeNumber": 1,
    "requestCounts": 3,
    "missedCount": 0,
    "createdAt": "2026-01-01T00:00:00.000Z",
    "updatedAt": "2026-01-02T00:00:00.000Z",
    "definition": {
        "creatorName": "ops",
        "request": [
            {"url": "http://x/a"},
            {"method": "GET", "url": "service://x/b", "route": "shard", "tags": ["gpu", "eu"]},
        ],
        "retry": [
            {"errorEquals": ["5xx", "timeout"], "intervalSeconds": 5, "maxAttempts": 4},
            {"errorEquals": "*", "backoffRate": 1, "maxIntervalSeconds": 60, "jitter": "full"},
        ],
        "notification": [
            {"url": "http://y/", "stateEquals": ["finalFailed"], "guarantee": "outbox"},
            {"name": "chat", "method": "PUT", "url": "http://z/", "dedupe": "onChange"},
        ],
        "checkUrl": {"url": "http://x/c"},
    },
    "options": {"qos": {"value": 1, "source": "job"}, "maxRetries": {"value": 5, "source": "product"}},
}
PREVIEW = {"kind": "cron", "dialect": "quartz", "normalForm": "0 30 2 * * ?", "description": "At 02:30"}
LATEST = {
    "jobId": "nightly",
    "executeNumber": 1,
    "state": "terminated",
    "error": "500",
    "reason": "policy_spent",
    "plannedAt": "2026-01-30T02:30:00.000Z",
    "startedAt": "2026-01-30T02:30:00.000Z",
    "endedAt": "2026-01-30T02:33:20.000Z",
    "attemptCount": 3,
}
NOW = datetime(2026, 1, 30, 21, 27, tzinfo=UTC)

JOB_PAGE = """\
jobId         nightly
jobName       Nightly
state         paused (gone)
timer         At 02:30 (cron, quartz)
cron          0 30 2 * * ?
nextFireTime  2026-01-31 02:30:00Z, in 5 h 3 min
request 0     POST http://x/a
request 1     GET service://x/b, route shard, tags gpu eu
checkUrl      http://x/c
retry 0       5xx timeout: 4 times after 5 s, then 2 times as long each
retry 1       *: 2 times after 1 s each, at most 60 s, jitter full
notification 0  POST http://y/ for finalFailed, guarantee outbox
notification 1  chat: PUT http://z/ for every event, dedupe onChange
options       qos 1
creator       001 (ops)
labels        team:ops
revision      2, since 2026-01-02 00:00:00Z
createdAt     2026-01-01 00:00:00Z
executions    1, with 3 attempts

latest executions
  execution  state       error  reason        message  plannedAt             took         attemptCount
  #1         terminated  500    policy_spent  -        2026-01-30 02:30:00Z  3 min 20 s   3
"""


def test_a_job_is_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    """Its fields, its timer as text, when it fires next, its latest executions (16)."""
    show_job(JOB, preview=PREVIEW, executions=[LATEST], now=NOW)
    assert capsys.readouterr().out.split() == JOB_PAGE.split()
    # A job that never ran says how to start it
    show_job(JOB, preview=PREVIEW, executions=[], now=NOW)
    assert capsys.readouterr().err == "no executions yet; start one with 'punctual jobs trigger nightly'\n"
    show_job({**JOB, "nextFireTime": None}, now=NOW)
    captured = capsys.readouterr()
    assert ["nextFireTime", "none"] in [line.split() for line in captured.out.splitlines()]
    assert captured.err == ""


def test_a_job_that_cannot_run_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    """On its page as a field, in a list with its state."""
    show_job(JOB | {"cannotRun": "set SHOP"}, now=NOW)
    assert "\ncannotRun       set SHOP\n" in capsys.readouterr().out
    job = {"state": "active", "disabled": True, "cannotRun": "set SHOP"}
    assert describe_job_state(job) == "active (disabled, cannot run)"
    assert describe_job_state({"state": "paused"}) == "paused"
