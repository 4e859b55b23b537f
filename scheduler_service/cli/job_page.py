"""The page of a job for people: its fields, its timer as text, its latest executions."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from scheduler_service.cli.execution_page import LATEST
from scheduler_service.cli.output import between, length_text, moment_text, note, show_fields, show_rows

Member = tuple[str, Any]
Wire = dict[str, Any]
INTERVAL_SECONDS, ATTEMPTS, BACKOFF_RATE = 1, 2, 2
"""What a policy of `retry` has where it does not say so (SPEC section 6)."""


def show_job(
    job: dict[str, Any],
    *,
    preview: dict[str, Any] | None = None,
    executions: list[dict[str, Any]] | None = None,
    now: datetime | None = None,
) -> None:
    """Prints a job. `preview` and `executions` are None where they were not read; `now` defaults to now."""
    show_fields(_fields(job, preview, now or datetime.now(UTC)))
    if executions is None:
        return
    if not executions:
        note(f"no executions yet; start one with 'punctual jobs trigger {job['jobId']}'")
        return
    print("\nlatest executions")
    show_rows(executions, LATEST, indent=2)


def _fields(job: dict[str, Any], preview: dict[str, Any] | None, now: datetime) -> Iterator[Member]:
    definition = job["definition"]
    yield "jobId", job["jobId"]
    yield "jobName", job["jobName"]
    yield "jobDescription", definition.get("jobDescription")
    reasons = job.get("pauseReason") if job["state"] == "paused" else None, job.get("disabled") and "disabled"
    yield "state", _join(job["state"], ", ".join(filter(None, reasons)) or None)
    yield "cannotRun", job.get("cannotRun")
    yield "timer", job["kind"] if preview is None else describe_timer(preview)
    yield "cron", None if preview is None else preview["normalForm"]
    yield "nextFireTime", _describe_next(job["nextFireTime"], now)
    yield from _describe_request(definition)
    yield "options", _describe_options(job)
    yield "creator", _join(job["creator"], definition.get("creatorName"))
    yield "objectId", job["objectId"]
    yield "labels", ", ".join(f"{key}:{value}" for key, value in job["labels"].items()) or None
    yield "parentJob", _join(job["parentJob"], job["parentJobExecution"])
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
    yield from _number("retry", map(_describe_policy, definition.get("retry") or ()))
    yield from _number("notification", map(_describe_notification, definition.get("notification") or ()))


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


def _number(name: str, texts: Iterable[str]) -> Iterator[Member]:
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


def _join(first: Any, second: Any) -> str | None:
    if first is None:
        return None
    return str(first) if second is None else f"{first} ({second})"
