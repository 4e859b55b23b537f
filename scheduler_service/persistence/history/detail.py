"""One execution in full: its attempts with steps, checks and feedback, put together from entries."""

from collections.abc import Iterable

import msgspec

from scheduler_service.domain.execution import TriggeredBy
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.progress import progress_fraction
from scheduler_service.domain.records import (
    AttemptEnded,
    AttemptStarted,
    CheckEnded,
    Detail,
    FeedbackSeen,
    LeaseChanged,
    StepEnded,
)
from scheduler_service.domain.tracing import trace_in, trace_of
from scheduler_service.language.values import as_text, show_text
from scheduler_service.persistence.history.log import AnyRow
from scheduler_service.persistence.history.queries import Wire
from scheduler_service.persistence.history.shapes import exchange_wire


def assemble_attempts(records: Iterable[Detail]) -> list[Wire]:
    """The attempts in order of `requestCounts`; one whose start is missing has what there is.

    Steps are in the order of the chain, the parts of one by their index, then the step as a whole.
    """
    attempts: dict[int, _Attempt] = {}
    for record in records:
        if record.request_counts is None:
            continue
        attempt = attempts.setdefault(record.request_counts, _Attempt(record.request_counts))
        attempt.add(record)
    return [attempts[number].finish() for number in sorted(attempts)]


def trace_id(row: AnyRow, records: Iterable[Detail]) -> str | None:
    """The trace of an execution: that of its caller, or its own; None: it has none, or it is not known yet.

    Timers have no caller; of others the first record of a call or an attempt that has ended says it.
    """
    if row.started_at is None:
        return None
    callers = [one.trace for one in records if isinstance(one, StepEnded | CheckEnded | AttemptEnded)]
    if not callers and row.triggered_by != TriggeredBy.TIMER:
        return None
    caller = next(filter(None, callers), "")
    return trace_in(caller) or trace_of(row.uid, row.execute_number)


class _Attempt:
    """An attempt to which records are added."""

    def __init__(self, request_counts: int) -> None:
        self._steps: list[StepEnded] = []
        self._checks: list[Wire] = []
        self._feedback: list[Wire] = []
        self._leases: list[Wire] = []
        self._wire: Wire = {
            "requestCounts": request_counts,
            "reason": None,
            "startedAt": None,
            "endedAt": None,
            "error": None,
            "failureType": None,
            "message": None,
            "retryInMs": None,
            "steps": [],
            "checks": self._checks,
            "feedback": self._feedback,
            "leases": self._leases,
        }

    def add(self, record: Detail) -> None:
        match record:
            case AttemptStarted():
                self._wire |= {"startedAt": rfc3339(record.at), "reason": record.reason}
            case AttemptEnded():
                self._wire |= _ending_wire(record)
            case StepEnded():
                self._steps.append(record)
            case CheckEnded():
                self._checks.append(_check_wire(record))
            case LeaseChanged():
                self._leases.append(_lease_wire(record))
            case FeedbackSeen():
                self._feedback.append(_feedback_wire(record))
            case _:
                pass

    def finish(self) -> Wire:
        steps = [_step_wire(step) for step in sorted(self._steps, key=_place)]
        return self._wire | {"steps": steps}


def _place(step: StepEnded) -> tuple[int, bool, int]:
    return step.index, step.part is None, step.part or 0


def _ending_wire(record: AttemptEnded) -> Wire:
    return {
        "endedAt": rfc3339(record.at),
        "error": record.error,
        "failureType": record.failure_type,
        "message": record.message,
        "retryInMs": record.retry_in,
    }


def _step_wire(record: StepEnded) -> Wire:
    exchange = record.exchange
    return {
        "index": record.index,
        "part": record.part,
        "instance": record.instance,
        "respEnvName": record.resp_env_name,
        "method": exchange.method,
        "url": exchange.url,
        "status": exchange.status,
        "fault": exchange.fault,
        "error": record.error,
        "sentAt": rfc3339(exchange.sent_at),
        "endedAt": rfc3339(record.at),
        "durationMs": exchange.duration,
        **exchange_wire(exchange),
    }


def _lease_wire(record: LeaseChanged) -> Wire:
    return {
        "step": record.index,
        "part": record.part,
        "instance": record.instance,
        "what": record.what,
        "at": rfc3339(record.at),
    }


def _check_wire(record: CheckEnded) -> Wire:
    exchange = record.exchange
    return {
        "serial": record.serial,
        "at": rfc3339(record.at),
        "status": record.status,
        "progress": record.progress,
        "progressFraction": progress_fraction(record.progress),
        "error": record.error,
        "method": exchange.method,
        "url": exchange.url,
        "httpStatus": exchange.status,
        "fault": exchange.fault,
        "durationMs": exchange.duration,
        **exchange_wire(exchange),
    }


def _feedback_wire(record: FeedbackSeen) -> Wire:
    body = None if record.truncated and not record.body else parse_kept(record.body)
    progress = _progress_in(body)
    return {
        "at": rfc3339(record.at),
        "stale": record.stale,
        "part": record.part,
        "truncated": record.truncated,
        "progress": progress,
        "progressFraction": progress_fraction(progress),
        "body": body,
    }


def _progress_in(report: object) -> str | None:
    """The progress in a report, as in a check's; None where the report was cut or has none."""
    progress = report.get("progress") if isinstance(report, dict) else None
    return None if progress in (None, "") else as_text(progress)


def parse_kept(body: bytes) -> object:
    """A report or parameters as JSON; what was cut is text."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return show_text(body)
