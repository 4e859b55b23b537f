"""The page of a job (SPEC section 16)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from scheduler_service.cli.job_page import show_job
from scheduler_service.cli.job_reads import describe_state

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
EXECUTION = {
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

PAGE = """\
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
  execution  state       error  reason        plannedAt             took         attemptCount
  #1         terminated  500    policy_spent  2026-01-30 02:30:00Z  3 min 20 s   3
"""


def test_a_job_is_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    """Its fields, its timer as text, when it fires next, its latest executions (16)."""
    show_job(JOB, preview=PREVIEW, executions=[EXECUTION], now=NOW)
    assert capsys.readouterr().out.split() == PAGE.split()


def test_a_job_that_never_ran_says_how_to_start_it(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error; after its creation nothing is said of executions."""
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
    assert describe_state(job) == "active (disabled, cannot run)"
    assert describe_state({"state": "paused"}) == "paused"
