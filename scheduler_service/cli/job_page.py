"""The page of a job for people: its fields, its timer as text, its latest executions."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from scheduler_service.cli.execution_page import LATEST
from scheduler_service.cli.output import between, length_text, moment_text, note, show_fields, show_rows

Member = tuple[str, Any]


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
    yield "state", _join(job["state"], job.get("pauseReason") if job["state"] == "paused" else None)
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
        yield name, f"{step.get('method', 'POST')} {step['url']}"
    check = definition.get("checkUrl")
    yield "checkUrl", check.get("url") if isinstance(check, dict) else check


def _describe_options(job: dict[str, Any]) -> str | None:
    """The options that the job itself sets."""
    own = [f"{name} {one['value']}" for name, one in job["options"].items() if one["source"] == "job"]
    return ", ".join(own) or None


def _join(first: Any, second: Any) -> str | None:
    if first is None:
        return None
    return str(first) if second is None else f"{first} ({second})"
