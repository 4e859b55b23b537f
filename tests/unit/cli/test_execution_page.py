"""The page of an execution (SPEC section 16)."""

from typing import Any

import pytest

from scheduler_service.cli.execution_page import describe_state, show_execution

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


def test_an_execution_is_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    """Outcome, attempts with steps, checks and feedback, notifications; the error in one line (16)."""
    show_execution(EXECUTION)
    assert capsys.readouterr().out == PAGE


def test_an_answer_that_leaves_out_older_records_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """In a sentence, with what shows more; then attempts cannot be counted. Whatever was dropped is named."""
    show_execution({**EXECUTION, "detail": "partial"})
    page = capsys.readouterr().out
    more = "--request-counts shows one attempt, 'executions log' more lines"
    assert f"detail       older records or bodies are left out; {more}\n" in page
    assert "\nattempt (requestCounts 7): 503" in page
    show_execution({**EXECUTION, "detail": "dropped"})
    assert "detail       dropped\n" in capsys.readouterr().out


def test_one_attempt_alone_has_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    """It is not known how many came before it."""
    show_execution({**EXECUTION, "attemptCount": 3})
    assert "\nattempt (requestCounts 7): 503" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("members", "status"),
    [({"fault": "refused", "error": "500"}, "no answer"), ({"error": "E1"}, "E1"), ({"error": None}, "done")],
)
def test_a_step_without_a_status_says_how_it_ended(
    capsys: pytest.CaptureFixture[str], members: dict[str, Any], status: str
) -> None:
    """No answer came, or it is work of a queue."""
    attempt = EXECUTION["attempts"][0]
    step = {**attempt["steps"][0], "status": None, "fault": None, **members}
    show_execution({**EXECUTION, "attempts": [{**attempt, "steps": [step]}]})
    assert f"http://x/pay  {status}  " in capsys.readouterr().out


def test_a_failed_execution_waits_for_its_retry(capsys: pytest.CaptureFixture[str]) -> None:
    """Its state is `failed`, a word that sounds like the end (SPEC section 5)."""
    show_execution({**EXECUTION, "state": "failed", "attemptCount": 1, "endedAt": None})
    waits = "failed: waits for retry 1 at 2026-01-31 09:00:01Z"
    assert f"state        {waits}\n" in capsys.readouterr().out
    assert describe_state({**EXECUTION, "state": "running"}) == "running"
    assert describe_state({**EXECUTION, "state": "failed", "attempts": []}) == "failed: waits for a retry"


@pytest.mark.parametrize(
    ("members", "status"),
    [({"status": ""}, '"" (running)'), ({"status": None}, "-"), ({"status": None, "error": "E1"}, "E1")],
)
def test_a_check_without_a_word_says_what_it_had(
    capsys: pytest.CaptureFixture[str], members: dict[str, Any], status: str
) -> None:
    """An empty status means that the work goes on; no status at all means nothing."""
    (attempt,) = EXECUTION["attempts"]
    (check,) = attempt["checks"]
    show_execution({**EXECUTION, "attempts": [{**attempt, "checks": [{**check, **members}]}]})
    assert f"200     {status}  " in capsys.readouterr().out


def test_what_has_not_happened_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """A waiting execution has neither start nor end."""
    waiting = {"state": "scheduled", "reason": None, "error": None, "startedAt": None, "endedAt": None}
    empty = {"attempts": [], "notifications": [], "progress": None, "params": {}, "latenessMs": None}
    show_execution({**EXECUTION, **waiting, **empty})
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["execution", "executionId", "state", "triggeredBy", "plannedAt"]


def test_a_step_of_a_service_names_its_instance(capsys: pytest.CaptureFixture[str]) -> None:
    """There is a column for it only where a step has one (SPEC section 13)."""
    (attempt,) = EXECUTION["attempts"]
    steps = [step | {"instance": "shop-1"} for step in attempt["steps"]]
    show_execution(EXECUTION)
    assert "INSTANCE" not in capsys.readouterr().out.upper()
    show_execution(EXECUTION | {"attempts": [attempt | {"steps": steps}]})
    assert "shop-1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("parts", "unclaimed", "claimed", "ended", "line"),
    [
        (1, 1, 0, 0, "step 0 in queue work: the part waits for a claim"),
        (1, 0, 1, 0, "step 0 in queue work: 1 claimed"),
        (3, 1, 1, 1, "step 0 in queue work: 1 of 3 parts wait for a claim, 1 claimed, 1 ended"),
    ],
)
def test_work_in_a_queue_says_whether_it_is_claimed(
    capsys: pytest.CaptureFixture[str], parts: int, unclaimed: int, claimed: int, ended: int, line: str
) -> None:
    """Its attempt says nothing else as long as no part has ended."""
    queue = {"step": 0, "name": "work", "parts": parts}
    queue |= {"unclaimed": unclaimed, "claimed": claimed, "ended": ended}
    attempt = {**EXECUTION["attempts"][0], "steps": [], "queue": queue}
    show_execution({**EXECUTION, "attempts": [attempt]})
    assert f"  {line}\n" in capsys.readouterr().out
