"""The pages of an execution and of a job, for people."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from scheduler_service.cli.output import (
    Column,
    Row,
    at,
    between,
    length_text,
    moment_text,
    note,
    show_fields,
    show_rows,
    text_of,
)

Wire = dict[str, Any]
Member = tuple[str, Any]
INTERVAL_SECONDS, ATTEMPTS, BACKOFF_RATE = 1, 2, 2
"""What a policy of `retry` has where it does not say so (SPEC section 6)."""
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


MESSAGE = Column("message", lambda row: row.get("message"), free=True, spare=True)
TOOK = Column("took", lambda row: length_text(between(row["startedAt"], row["endedAt"])), spare=True)
ERROR = Column("error", free=True)
REASON = Column("reason", free=True)
EXECUTIONS = (
    Column("execution", reference, free=True),
    "state",
    ERROR,
    REASON,
    MESSAGE,
    at("plannedAt"),
    TOOK,
    Column("triggeredBy", lambda row: _triggered_by(row), spare=True),
    Column("attemptCount", spare=True),
    Column("executionId", spare=True),
)
LATEST = (
    Column("execution", lambda row: f"#{row['executeNumber']}"),
    "state",
    ERROR,
    REASON,
    MESSAGE,
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
    show_fields(_execution_fields(execution))
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


def _execution_fields(execution: Wire) -> Iterator[tuple[str, Any]]:
    late = length_text(execution["latenessMs"] or None)
    took = length_text(between(execution["startedAt"], execution["endedAt"]))
    yield "execution", reference(execution)
    yield "executionId", execution["executionId"]
    yield "state", describe_state(execution)
    yield "reason", execution["reason"]
    yield "error", _describe_error(execution)
    yield "triggeredBy", _triggered_by(execution)
    yield "plannedAt", moment_text(execution["plannedAt"])
    yield "startedAt", _join(moment_text(execution["startedAt"]), late and f"{late} late")
    yield "endedAt", _join(moment_text(execution["endedAt"]), took and f"after {took}")
    yield "progress", execution["progress"]
    yield "params", execution["params"] or None
    yield "result", _describe_result(execution.get("result"))
    yield "detail", _describe_detail(execution)


def _triggered_by(execution: Row) -> str:
    """`manual (Anna)`."""
    name = execution.get("triggeredByName")
    return f"{execution['triggeredBy']} ({name})" if name else str(execution["triggeredBy"])


def _describe_result(result: Wire | None) -> str | None:
    """`200 application/json, 38 bytes`; its body is another command's."""
    if result is None:
        return None
    said = " ".join(str(one) for one in (result["status"], result["contentType"]) if one is not None)
    return ", ".join(filter(None, (said, f"{result['bytes']:,} bytes", result["truncated"] and "truncated")))


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


def show_job(
    job: dict[str, Any],
    *,
    preview: dict[str, Any] | None = None,
    executions: list[dict[str, Any]] | None = None,
    now: datetime | None = None,
) -> None:
    """Prints a job. `preview` and `executions` are None where they were not read; `now` defaults to now."""
    show_fields(_job_fields(job, preview, now or datetime.now(UTC)))
    if executions is None:
        return
    if not executions:
        note(f"no executions yet; start one with 'punctual jobs trigger {job['jobId']}'")
        return
    print("\nlatest executions")
    show_rows(executions, LATEST, indent=2)


def _job_fields(job: dict[str, Any], preview: dict[str, Any] | None, now: datetime) -> Iterator[Member]:
    definition = job["definition"]
    yield "jobId", job["jobId"]
    yield "jobName", job["jobName"]
    yield "jobDescription", definition.get("jobDescription")
    reasons = job.get("pauseReason") if job["state"] == "paused" else None, job.get("disabled") and "disabled"
    yield "state", _with_note(job["state"], ", ".join(filter(None, reasons)) or None)
    yield "cannotRun", job.get("cannotRun")
    yield "timer", job["kind"] if preview is None else describe_timer(preview)
    yield "cron", None if preview is None else preview["normalForm"]
    yield "nextFireTime", _describe_next(job["nextFireTime"], now)
    yield from _describe_request(definition)
    yield "options", _describe_options(job)
    yield "creator", _with_note(job["creator"], definition.get("creatorName"))
    yield "objectId", job["objectId"]
    yield "labels", ", ".join(f"{key}:{value}" for key, value in job["labels"].items()) or None
    yield "parentJob", _with_note(job["parentJob"], job["parentJobExecution"])
    yield "revision", f"{job['revision']}, since {moment_text(job['updatedAt'])}"
    yield "createdAt", moment_text(job["createdAt"])
    yield "executions", f"{job['executeNumber']}, with {job['requestCounts']} attempts"
    yield "missedCount", job["missedCount"] or None


def describe_timer(preview: dict[str, Any]) -> str:
    """A timer in words, with its kind, and the dialect of a cron expression."""
    return f"{preview['description']} ({', '.join(filter(None, (preview['kind'], preview['dialect'])))})"


def _describe_next(moment: str | None, now: datetime) -> str:
    if moment is None:
        return "none"
    ahead = between(now.isoformat(), moment)
    text = str(moment_text(moment))
    return text if ahead is None or ahead < 0 else f"{text}, in {length_text(ahead)}"


def _describe_request(definition: dict[str, Any]) -> Iterator[Member]:
    steps = definition["request"]
    for index, step in enumerate(steps):
        name = "request" if len(steps) == 1 else f"request {index}"
        text = f"{step.get('method', 'POST')} {step['url']}"
        if step.get("route"):
            text += f", route {step['route']}"
        if step.get("tags"):
            text += f", tags {' '.join(step['tags'])}"
        yield name, text
    check = definition.get("checkUrl")
    yield "checkUrl", check.get("url") if isinstance(check, dict) else check
    yield from _numbered("retry", map(_describe_policy, definition.get("retry") or ()))
    yield from _numbered("notification", map(_describe_notification, definition.get("notification") or ()))


def _describe_policy(policy: Wire) -> str:
    """`5xx timeout: 4 times after 5 s, then 2 times as long each`."""
    first, rate = policy.get("intervalSeconds", INTERVAL_SECONDS), policy.get("backoffRate", BACKOFF_RATE)
    often, most = policy.get("maxAttempts", ATTEMPTS), policy.get("maxIntervalSeconds")
    parts = [f"{_join_codes(policy['errorEquals'])}: {often} times after {first:g} s"]
    if rate == 1:
        parts[0] += " each"
    else:
        parts.append(f"then {rate:g} times as long each")
    if most is not None:
        parts.append(f"at most {most:g} s")
    if policy.get("jitter", "none") != "none":
        parts.append(f"jitter {policy['jitter']}")
    return ", ".join(parts)


def _describe_notification(entry: Wire) -> str:
    """`chat: POST http://… for finalFailed, guarantee outbox`."""
    name = f"{entry['name']}: " if entry.get("name") else ""
    events = _join_codes(entry.get("stateEquals") or "every event")
    text = f"{name}{entry.get('method', 'POST')} {entry['url']} for {events}"
    options = ((one, entry.get(one)) for one in ("dedupe", "guarantee"))
    return ", ".join([text, *(f"{one} {value}" for one, value in options if value not in (None, "none"))])


def _numbered(name: str, texts: Iterable[str]) -> Iterator[Member]:
    """One field for each text, numbered where there are several."""
    listed = list(texts)
    for index, text in enumerate(listed):
        yield (name if len(listed) == 1 else f"{name} {index}"), text


def _join_codes(codes: str | list[str]) -> str:
    return codes if isinstance(codes, str) else " ".join(codes)


def _describe_options(job: Wire) -> str | None:
    """The options that the job itself sets."""
    own = [f"{name} {one['value']}" for name, one in job["options"].items() if one["source"] == "job"]
    return ", ".join(own) or None


def _with_note(first: Any, second: Any) -> str | None:
    if first is None:
        return None
    return str(first) if second is None else f"{first} ({second})"
