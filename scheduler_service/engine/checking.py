"""Polling of an asynchronous job: `checkUrl`, or the `Location` of a 202 (SPEC section 5)."""

import msgspec

from scheduler_service.domain.document import Checking, CheckWaiting, Open, Report
from scheduler_service.domain.effects import Call
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.records import CheckEnded
from scheduler_service.domain.wire import Answer, CallKind, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.engine.attempt import Broken, fail
from scheduler_service.engine.chain import limit_of
from scheduler_service.engine.exchanges import exchange_of
from scheduler_service.engine.headers import read_retry_after
from scheduler_service.engine.notification_events import OWN_FAULT, notify, plain_notice, report_notice
from scheduler_service.engine.requests import Refused, make_request, own_headers, trace_of
from scheduler_service.engine.retry import Failure
from scheduler_service.engine.turn_state import TurnState
from scheduler_service.engine.verdicts import Unreadable, read_report, settle
from scheduler_service.language.values import parse_json

TOLERATED = 2
ACCEPTED = 202


class Unsound(msgspec.Struct, frozen=True):
    """A check that said nothing: why."""

    message: str


def send_check(draft: TurnState, run: Open) -> None:
    """Asks the target how far it is."""
    context = draft.contexts[run.execute_number]
    serial = context.checks + 1
    request = _request(draft, run, serial)
    if isinstance(request, Refused):
        draft.note(run, request.code, f"checkUrl: {request.message}")
        _end(draft, run, Failure(request.code, request.failure_type), request.message, None)
        return
    draft.adjust(run.execute_number, phase=Checking(request, draft.now.wall), checks=serial)
    draft.effects.append(Call(draft.token(run, CallKind.CHECK, serial), request))


def take_check(draft: TurnState, run: Open, checking: Checking, outcome: Outcome) -> None:
    """What a check brought: it goes on, or it is decided."""
    if isinstance(outcome, Fault) and outcome.kind is FaultKind.EGRESS:
        record_check(draft, run, checking, outcome, error="egress")
        _end(draft, run, Failure("egress", FailureType.EGRESS), outcome.message, None)
        return
    report = _read(draft, run, outcome)
    if isinstance(report, Unsound):
        record_check(draft, run, checking, outcome, error=report.message)
        _tolerate(draft, run, outcome, report)
        return
    record_check(draft, run, checking, outcome, report=report)
    draft.adjust(run.execute_number, failed_checks=0, progress=report.progress or _progress(draft, run))
    draft.touch(run)
    status = outcome.status if isinstance(outcome, Answer) else 0
    notify(draft, run, report_notice, report, str(status))
    if report.status:
        settle(draft, run, report)
    else:
        _wait(draft, run, outcome)


def record_check(
    draft: TurnState,
    run: Open,
    checking: Checking,
    outcome: Outcome,
    *,
    report: Report | None = None,
    error: str | None = None,
) -> None:
    """Writes one check into the history."""
    draft.records.append(
        CheckEnded(
            execute_number=run.execute_number,
            request_counts=run.request_counts,
            serial=draft.contexts[run.execute_number].checks,
            at=draft.now.wall,
            exchange=exchange_of(checking.request, outcome, checking.sent_at),
            status=report.status if report else None,
            progress=report.progress if report else None,
            error=error,
        )
    )


def _request(draft: TurnState, run: Open, serial: int) -> OutboundRequest | Refused:
    program = draft.program_of(run)
    context = draft.contexts[run.execute_number]
    key = f"{draft.head.uid}-{run.execute_number}-check-{run.request_counts}-{serial}"
    if program.check is None:
        assert context.location is not None
        return OutboundRequest(
            method="GET",
            url=context.location,
            headers=own_headers(program, run, key),
            timeout=limit_of(draft, context, program.surroundings.http_timeout),
            trace=trace_of(draft.head.uid, run.execute_number),
        )
    return make_request(
        program,
        draft.head,
        run,
        context.responses,
        program.check,
        key=key,
        timeout=limit_of(draft, context, program.check.timeout),
    )


def _read(draft: TurnState, run: Open, outcome: Outcome) -> Report | Unsound:
    if isinstance(outcome, Fault):
        return Unsound(outcome.message)
    if not 200 <= outcome.status <= 299:
        return Unsound(f"the check was answered {outcome.status}")
    if outcome.truncated:
        return Unsound("the check's answer is larger than limits.response_bytes")
    polled = draft.program_of(run).check is None
    value = parse_json(outcome.body) if outcome.body else None
    if polled:
        return _read_location(outcome, value)
    report = read_report(value)
    return Unsound(report.message) if isinstance(report, Unreadable) else report


def _read_location(answer: Answer, value: object) -> Report | Unsound:
    """202 is running; another 2xx counts by its `status`, and is success when that is absent or empty."""
    members = value if isinstance(value, dict) else {}
    report = read_report(members | {"status": ""} if answer.status == ACCEPTED else members)
    if isinstance(report, Unreadable):
        return Unsound(report.message)
    succeeded = answer.status != ACCEPTED and not report.status
    return msgspec.structs.replace(report, status="succeed") if succeeded else report


def _tolerate(draft: TurnState, run: Open, outcome: Outcome, unsound: Unsound) -> None:
    failed = draft.contexts[run.execute_number].failed_checks + 1
    draft.adjust(run.execute_number, failed_checks=failed)
    if failed > TOLERATED:
        _end(draft, run, Failure("check", FailureType.CHECK), unsound.message, outcome)
    else:
        _wait(draft, run, outcome)


def _wait(draft: TurnState, run: Open, outcome: Outcome) -> None:
    hastened = draft.contexts[run.execute_number].verdict is not None
    pause = 0 if hastened else draft.program_of(run).check_rate
    due = draft.now.steady + max(pause, _asked(draft, outcome) or 0)
    draft.adjust(run.execute_number, phase=CheckWaiting(due), verdict=None)


def _asked(draft: TurnState, outcome: Outcome | None) -> int | None:
    return read_retry_after(outcome, draft.now.wall) if isinstance(outcome, Answer) else None


def _end(draft: TurnState, run: Open, failure: Failure, message: str, outcome: Outcome | None) -> None:
    last = len(draft.program_of(run).steps) - 1
    status = str(outcome.status) if isinstance(outcome, Answer) else OWN_FAULT
    code = failure.code
    notify(draft, run, plain_notice, code, code, message, http_status=status)
    fail(draft, run, Broken(failure, message, last, _asked(draft, outcome)))


def _progress(draft: TurnState, run: Open) -> str | None:
    return draft.contexts[run.execute_number].progress
