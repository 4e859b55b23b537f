"""An alert as it is sent: members for programs, and one plain sentence for a chat."""

from collections.abc import Mapping, Sequence

from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.moments import SECOND, rfc3339
from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.domain.texts import cut
from scheduler_service.ports.alerts import AlertLine, AlertState
from scheduler_service.telemetry.alerts.rules import SERVICE

SAID_CHARACTERS = 500
"""So much of what somebody wrote, as the reason of a cancellation, an alert says."""
NAMED = 10
"""So many subjects a message about many of them names."""

Body = dict[str, object]

_GENERAL: Mapping[OccurrenceKind, str] = {
    OccurrenceKind.FINAL_FAILED: "executions failed",
    OccurrenceKind.FAILING: "jobs are failing",
    OccurrenceKind.OVERDUE: "jobs are overdue",
    OccurrenceKind.UNDELIVERABLE: "notifications could not be delivered",
    OccurrenceKind.INSTANCE_LOST: "instances were lost",
    OccurrenceKind.WORKER_LOST: "worker processes were lost",
    OccurrenceKind.NODE_LOST: "nodes were lost",
    OccurrenceKind.STORE_LOST: "stores were lost",
}


def body_of(line: AlertLine) -> Body:
    """The message about one line: its newest happening, and how many there were since the last message."""
    is_over = line.state is AlertState.RECOVERED
    one = line.occurrence
    return {
        "alert": line.alert,
        "kind": OccurrenceKind.RECOVERED.value if is_over else line.kind.value,
        "of": line.kind.value,
        "at": rfc3339(line.at),
        "since": rfc3339(line.since),
        "count": max(line.count, 1),
        "subject": line.subject,
        "jobId": one.job_id,
        "executionId": one.execution_id,
        "error": one.error,
        "failureType": None if one.failure_type is None else one.failure_type.value,
        "message": cut(_said(one), SAID_CHARACTERS),
        "plannedAt": None if one.planned_at is None else rfc3339(one.planned_at),
        "latenessMs": one.lateness_ms,
        "more": 0,
        "subjects": [line.subject],
        "text": _sentence(line),
    }


def body_of_many(alert: str, lines: Sequence[AlertLine], total: int, at: int) -> Body:
    """One message in place of `total`; `lines` are the first of them, at least one."""
    subjects = list(dict.fromkeys(line.subject for line in lines))[:NAMED]
    more = total - len(subjects)
    first = lines[0]
    kinds = {line.kind for line in lines if line.state is not AlertState.RECOVERED}
    kind = kinds.pop() if len(kinds) == 1 else None
    said = _GENERAL[kind] if kind else "happenings"
    named = ", ".join(subjects)
    rest = f" and {more:,} more" if more > 0 else ""
    return {
        **body_of(first),
        "alert": alert,
        "kind": "many",
        "of": None if kind is None else kind.value,
        "at": rfc3339(at),
        "count": total,
        "subject": None,
        "jobId": None,
        "executionId": None,
        "more": max(more, 0),
        "subjects": subjects,
        "text": f"[{alert}] {total:,} {said}: {named}{rest}.",
    }


def _sentence(line: AlertLine) -> str:
    if line.state is AlertState.RECOVERED:
        return f"[{line.alert}] {_recovered(line)} since {rfc3339(line.since)} until {rfc3339(line.at)}."
    return f"[{line.alert}] {_happening(line)}{_repeated(line)}."


def _recovered(line: AlertLine) -> str:
    what = {
        OccurrenceKind.FAILING: f"The job {line.subject} succeeds again: it was failing",
        OccurrenceKind.OVERDUE: f"The job {line.subject} is on time again: it was overdue",
        OccurrenceKind.INSTANCE_LOST: f"The instance {line.subject} is back: it was lost",
        OccurrenceKind.WORKER_LOST: f"The worker process {line.subject} is back: it was lost",
        OccurrenceKind.NODE_LOST: f"The node {line.subject} is back: it was lost",
        OccurrenceKind.STORE_LOST: f"{_store(line)} is back: it was lost",
    }
    return what.get(line.kind, f"{line.subject} has recovered: {line.kind.value}")


def _happening(line: AlertLine) -> str:
    one = line.occurrence
    match line.kind:
        case OccurrenceKind.FINAL_FAILED:
            return f"The job {line.subject} failed in its execution {one.execute_number}{_why(one)}"
        case OccurrenceKind.FAILING:
            return f"The job {line.subject} failed {one.count} times in a row{_why(one)}"
        case OccurrenceKind.OVERDUE:
            return f"The job {line.subject} {_how_late(one)}"
        case OccurrenceKind.UNDELIVERABLE:
            what = cut(one.message, SAID_CHARACTERS) or "A notification"
            why = f" ({one.error})" if one.error else ""
            return f"{what} of the job {line.subject} could not be delivered{why}"
        case OccurrenceKind.STORE_LOST:
            return f"{_store(line)} cannot be reached or written{_why(one)}"
        case OccurrenceKind.WORKER_LOST:
            return f"The worker process {line.subject} was lost{_why(one)}"
        case OccurrenceKind.NODE_LOST:
            return f"The node {line.subject} is lost: no heartbeat"
        case _:
            return f"The instance {line.subject} is lost{_why(one)}"


def _store(line: AlertLine) -> str:
    whose, _, part = line.subject.rpartition("/")
    if part == "history":
        return f"The history of the {whose}" if whose else "The history"
    return "The store of the jobs" if part == SERVICE else f"The store of the {part}"


def _how_late(one: Occurrence) -> str:
    planned = rfc3339(one.planned_at or one.at)
    if one.lateness_ms is not None:
        return f"began {one.lateness_ms / SECOND:.0f} s late; it was planned for {planned}"
    return f"is overdue: it was planned for {planned} and has not begun"


def _why(one: Occurrence) -> str:
    parts = [part for part in (one.error, cut(_said(one) or _kind_of_failure(one), SAID_CHARACTERS)) if part]
    return f" ({': '.join(parts)})" if parts else ""


def _said(one: Occurrence) -> str | None:
    """What somebody wrote; the reason of a failure is a word of the service's own."""
    return one.message or (one.reason if one.error == FailureType.CANCELLED else None)


def _kind_of_failure(one: Occurrence) -> str | None:
    """Where the code alone does not say it: 500 is also what a timeout is called."""
    kind = one.failure_type
    return None if kind is None or kind is FailureType.HTTP or kind.value == one.error else kind.value


def _repeated(line: AlertLine) -> str:
    return f"; {line.count:,} times since {rfc3339(line.since)}" if line.count > 1 else ""
