"""The page of an execution for people: its outcome, attempts, steps, checks, feedback and notifications."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from scheduler_service.cli.output import (
    Column,
    Row,
    at,
    between,
    length_text,
    moment_text,
    show_fields,
    show_rows,
    text_of,
)

Wire = dict[str, Any]
SHOWN_CHARACTERS = 300
"""How much of the answer of a failed step is shown."""
PARTIAL = (
    "older records or bodies are left out; --request-counts shows one attempt, 'executions log' more lines"
)


def reference(execution: Any) -> str:
    """`nightly#7`: what commands take as the execution's id."""
    return f"{execution['jobId']}#{execution['executeNumber']}"


def reference_by_id(row: Any) -> str:
    """The same for what names its execution by `executionId` alone."""
    return f"{row['jobId']}#{row['executionId'].rpartition('-')[2]}"


TOOK = Column("took", lambda row: length_text(between(row["startedAt"], row["endedAt"])), spare=True)
ERROR = Column("error", free=True)
REASON = Column("reason", free=True)
EXECUTIONS = (
    Column("execution", reference, free=True),
    "state",
    ERROR,
    REASON,
    at("plannedAt"),
    TOOK,
    Column("triggeredBy", spare=True),
    Column("attemptCount", spare=True),
    Column("executionId", spare=True),
    Column("message", lambda row: row.get("message"), free=True, spare=True),
)
LATEST = (
    Column("execution", lambda row: f"#{row['executeNumber']}"),
    "state",
    ERROR,
    REASON,
    at("plannedAt"),
    TOOK,
    Column("attemptCount", spare=True),
)
STEPS = (
    Column("step", lambda row: _number(row["index"], row.get("part"))),
    Column("request", lambda row: f"{row['method']} {row['url']}", free=True),
    Column("status", lambda row: _status_of(row)),
    Column("took", lambda row: length_text(row["durationMs"])),
)
INSTANCE = Column("instance", free=True)
CHECKS = (
    Column("check", lambda row: row["serial"]),
    Column("answer", lambda row: row["httpStatus"] or row["fault"], free=True),
    Column("status", lambda row: _describe_check(row)),
    Column("progress"),
    at("at"),
)
FEEDBACK = (
    Column("feedback", lambda row: "stale" if row["stale"] else "accepted"),
    Column("body", free=True),
    at("at"),
)
NOTIFICATIONS = (
    "event",
    "state",
    Column("tries", lambda row: len(row["attempts"])),
    Column("last", lambda row: last_try(row)),
    at("nextTryAt"),
    Column("url", free=True),
)


def show_execution(execution: Wire) -> None:
    """Prints an execution in full."""
    show_fields(_fields(execution))
    is_whole = _has_all_attempts(execution)
    for number, attempt in enumerate(execution["attempts"], 1):
        print(f"\n{_describe_attempt(attempt, number if is_whole else None)}")
        _show_attempt(attempt)
    if execution["notifications"]:
        print("\nnotifications")
        show_rows(execution["notifications"], NOTIFICATIONS, indent=2)


def _show_attempt(attempt: Wire) -> None:
    if attempt.get("queue"):
        print(text_of(f"  {_describe_queue(attempt['queue'])}"))
    if attempt["steps"]:
        has_instance = any(step.get("instance") for step in attempt["steps"])
        show_rows(attempt["steps"], (*STEPS, INSTANCE) if has_instance else STEPS, indent=2)
    for step in attempt["steps"]:
        _show_failure(step)
    if attempt["checks"]:
        latest = attempt["checks"][-1]
        print(text_of(f"  checks: {latest['method']} {latest['url']}"))
        show_rows(attempt["checks"], CHECKS, indent=2)
    if attempt["feedback"]:
        show_rows(attempt["feedback"], FEEDBACK, indent=2)


def _status_of(step: Any) -> Any:
    """The HTTP status; for work of a queue, which has none, the error or `done`."""
    if step["status"] is not None:
        return step["status"]
    return "no answer" if step.get("fault") else step.get("error") or "done"


def _describe_check(check: Row) -> Any:
    """The status that the check was answered, an empty one with its meaning; else why it failed."""
    status = check["status"]
    return '"" (running)' if status == "" else status or check["error"]


def _show_failure(step: Wire) -> None:
    """The beginning of the answer of a step that failed; why there was none is the attempt's message."""
    body = (step["response"] or {}).get("body") if step.get("error") else None
    if body:
        cut = body if len(body) <= SHOWN_CHARACTERS else f"{body[:SHOWN_CHARACTERS]}…"
        show_fields([(f"response {_number(step['index'], step.get('part'))}", cut)], indent=2)


def describe_state(execution: Wire) -> str:
    """Its state; of `failed`, which is not the end, also which retry it waits for until when."""
    if execution["state"] != "failed":
        return str(execution["state"])
    latest = execution["attempts"][-1] if execution["attempts"] else {}
    if latest.get("endedAt") is None or latest.get("retryInMs") is None:
        return "failed: waits for a retry"
    due = datetime.fromisoformat(latest["endedAt"]) + timedelta(milliseconds=latest["retryInMs"])
    moment = moment_text(due.isoformat().replace("+00:00", "Z"))
    return f"failed: waits for retry {execution['attemptCount']} at {moment}"


def last_try(delivery: Any) -> str | None:
    """The outcome of a notification's last try: its HTTP status, or why there was no answer."""
    if not delivery["attempts"]:
        return None
    last = delivery["attempts"][-1]
    return text_of(last["status"] or last["fault"])


def _fields(execution: Wire) -> Iterator[tuple[str, Any]]:
    late = length_text(execution["latenessMs"] or None)
    took = length_text(between(execution["startedAt"], execution["endedAt"]))
    yield "execution", reference(execution)
    yield "executionId", execution["executionId"]
    yield "state", describe_state(execution)
    yield "reason", execution["reason"]
    yield "error", _describe_error(execution)
    yield "triggeredBy", execution["triggeredBy"]
    yield "plannedAt", moment_text(execution["plannedAt"])
    yield "startedAt", _join(moment_text(execution["startedAt"]), late and f"{late} late")
    yield "endedAt", _join(moment_text(execution["endedAt"]), took and f"after {took}")
    yield "progress", execution["progress"]
    yield "params", execution["params"] or None
    yield "detail", _describe_detail(execution)


def _describe_detail(execution: Wire) -> str | None:
    """None where everything is shown."""
    detail = execution.get("detail", "kept")
    return {"kept": None, "partial": PARTIAL}.get(detail, detail)


def _has_all_attempts(execution: Wire) -> bool:
    """Whether each attempt is shown, so that their places are their numbers."""
    attempts = len(execution["attempts"])
    return execution.get("detail") != "partial" and attempts >= execution.get("attemptCount", 0)


def _describe_error(execution: Wire) -> str | None:
    """Code, type and message of the failure that ended it, in one line."""
    if execution["error"] is None:
        return None
    messages = [one.get("message") for one in execution["attempts"] if one.get("message")]
    kind = f" ({execution['failureType']})" if execution["failureType"] else ""
    return f"{execution['error']}{kind}{': ' + messages[-1] if messages else ''}"


def _describe_attempt(attempt: Wire, number: int | None) -> str:
    """`attempt 2 (requestCounts 14): 503 after 12 ms: the target answered 503; again in 1.5 s`."""
    took = length_text(between(attempt["startedAt"], attempt["endedAt"]))
    outcome = "running" if took is None else f"{attempt['error'] or 'succeeded'} after {took}"
    retry = length_text(attempt.get("retryInMs"))
    parts = (outcome, attempt.get("message"), retry and f"again in {retry}")
    text = "; ".join(part for part in parts if part)
    name = "attempt" if number is None else f"attempt {number}"
    return text_of(f"{name} (requestCounts {attempt['requestCounts']}): {text}")


def _describe_queue(queue: Wire) -> str:
    """`step 0 in queue work: 2 of 3 parts wait for a claim, 1 is claimed`."""
    parts = queue["parts"]
    of = "the part waits" if parts == 1 else f"{queue['unclaimed']} of {parts} parts wait"
    said = [
        f"{of} for a claim" if queue["unclaimed"] else "",
        f"{queue['claimed']} claimed" if queue["claimed"] else "",
        f"{queue['ended']} ended" if queue["ended"] else "",
    ]
    return f"step {queue['step']} in queue {queue['name']}: {', '.join(text for text in said if text)}"


def _number(index: int, part: int | None) -> str:
    return str(index) if part is None else f"{index}.{part}"


def _join(first: str | None, second: str | None) -> str | None:
    return first if first is None or not second else f"{first}, {second}"
