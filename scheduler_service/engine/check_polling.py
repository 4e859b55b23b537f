"""Polling of an asynchronous job: `checkUrl`, or the `Location` of a 202 (SPEC section 5)."""

import msgspec

from scheduler_service.domain.document import Checking, CheckWaiting, Open, Report
from scheduler_service.domain.effects import Call
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.records import CheckEnded, exchange_of, hide_token
from scheduler_service.domain.tracing import CHECK, trace_in, trace_of
from scheduler_service.domain.wire import Answer, CallKind, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.engine.answer_rules import code_in, find_unmet
from scheduler_service.engine.attempt import Broken, fail
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.engine.notification_events import OWN_FAULT, failure_event, notify, report_event
from scheduler_service.engine.outbound_requests import (
    Refused,
    describe_limit,
    limits_of,
    make_request,
    own_headers,
    span_tail,
    unmarked,
)
from scheduler_service.engine.program import AnswerRule, Program
from scheduler_service.engine.retry import Failure
from scheduler_service.engine.target_reports import (
    UnreadableReport,
    message_of,
    read_report,
    read_retry_after,
    settle,
)
from scheduler_service.engine.turn_state import TurnState
from scheduler_service.language.json_values import parse_json

TOLERATED = 2
CHECK_FAILED = "check"
"""The error code of a check that fails once too often."""
ACCEPTED = 202
FINAL_FAULTS = {
    FaultKind.EGRESS: Failure("egress", FailureType.EGRESS),
    FaultKind.TEMPLATE: Failure("template", FailureType.TEMPLATE),
}
"""Faults that another check would meet again."""


class FailedCheck(msgspec.Struct, frozen=True):
    """A check without a usable report, and why; `code` is that of the last one that is tolerated no more."""

    message: str
    code: str = CHECK_FAILED


def send_check(turn: TurnState, run: Open) -> None:
    """Sends the next check."""
    context = turn.contexts[run.execute_number]
    serial = context.checks + 1
    request = _request(turn, run, serial)
    if isinstance(request, Refused):
        message = f"checkUrl: {request.message}"
        turn.note(run, request.code, message)
        _end(turn, run, Failure(request.code, request.failure_type), message, None)
        return
    turn.change_context(run, phase=Checking(request, turn.now.wall), checks=serial)
    turn.effects.append(Call(turn.token(run, CallKind.CHECK, serial), request))


def handle_check(turn: TurnState, run: Open, checking: Checking, outcome: Outcome) -> None:
    """Takes the answer of a check: the execution goes on waiting, or its outcome is decided."""
    if isinstance(outcome, Fault) and outcome.kind in FINAL_FAULTS:
        record_check(turn, run, checking, outcome, error=outcome.kind.value)
        _end(turn, run, FINAL_FAULTS[outcome.kind], outcome.message, None)
        return
    report = _read(turn, run, outcome)
    if isinstance(report, FailedCheck):
        record_check(turn, run, checking, outcome, error=report.message)
        _tolerate(turn, run, outcome, report)
        return
    record_check(turn, run, checking, outcome, report=report)
    progress = report.progress or turn.contexts[run.execute_number].progress
    turn.change_context(run, failed_checks=0, progress=progress)
    turn.record_execution(run)
    status = outcome.status if isinstance(outcome, Answer) else 0
    notify(turn, run, report_event, report, str(status))
    if report.status:
        settle(turn, run, report)
    else:
        _wait(turn, run, outcome)


def record_check(
    turn: TurnState,
    run: Open,
    checking: Checking,
    outcome: Outcome,
    *,
    report: Report | None = None,
    error: str | None = None,
) -> None:
    """Writes one check into the history."""
    token = feedback_token(turn.head.key, turn.head.uid, run.request_counts)
    exchange = exchange_of(checking.request, outcome, checking.sent_at)
    turn.records.append(
        CheckEnded(
            execute_number=run.execute_number,
            request_counts=run.request_counts,
            serial=turn.contexts[run.execute_number].checks,
            at=turn.now.wall,
            exchange=hide_token(exchange, token),
            status=report.status if report else None,
            progress=report.progress if report else None,
            error=error,
            trace=run.trace,
        )
    )


def _request(turn: TurnState, run: Open, serial: int) -> OutboundRequest | Refused:
    program = turn.program_of(run)
    context = turn.contexts[run.execute_number]
    key = f"{turn.head.uid}-{run.execute_number}-check-{run.request_counts}-{serial}"
    limit = program.surroundings.http_timeout if program.check is None else program.check.timeout
    timeout, _ = limits_of(turn, program, context, limit)
    span = (CHECK, serial)
    if program.check is None:
        assert context.location is not None
        trace = trace_in(run.trace) or trace_of(turn.head.uid, run.execute_number)
        return OutboundRequest(
            method="GET",
            url=context.location,
            headers=own_headers(program, run, key),
            timeout=timeout,
            trace=trace,
            span=span_tail(turn, program, run, span, trace),
            at_send=unmarked(program),
            sign=context.sign,
            tenant=program.surroundings.tenant,
        )
    return make_request(turn, program, run, program.check, key=key, timeout=timeout, span=span)


def _read(turn: TurnState, run: Open, outcome: Outcome) -> Report | FailedCheck:
    if isinstance(outcome, Fault):
        return FailedCheck(_describe_fault(turn.program_of(run), outcome))
    token = feedback_token(turn.head.key, turn.head.uid, run.request_counts)
    check = turn.program_of(run).check
    rule = None if check is None else check.rule
    if not 200 <= outcome.status <= 299:
        return _fail_by_answer(rule, outcome, token, f"the check was answered {outcome.status}")
    if outcome.truncated:
        return FailedCheck("the check's answer is larger than limits.response_bytes")
    unmet = None if rule is None else find_unmet(rule, outcome)
    if unmet is not None:
        return _fail_by_answer(rule, outcome, token, unmet)
    polled = check is None
    value = parse_json(outcome.body) if outcome.body else None
    if polled:
        return _read_location(outcome, value, token)
    report = read_report(value, token)
    return FailedCheck(report.message) if isinstance(report, UnreadableReport) else report


def _fail_by_answer(rule: AnswerRule | None, answer: Answer, token: str, otherwise: str) -> FailedCheck:
    message = message_of(rule, answer, token, otherwise)
    return FailedCheck(message, code_in(rule, answer, CHECK_FAILED))


def _describe_fault(program: Program, fault: Fault) -> str:
    if fault.kind is not FaultKind.TIMEOUT:
        return fault.message
    check = program.check
    own = "timeoutSeconds of checkUrl" if check is not None and check.has_own_limit else None
    limit = program.surroundings.http_timeout if check is None else check.timeout
    return fault.message + describe_limit(limit, own=own)


def _read_location(answer: Answer, value: object, token: str) -> Report | FailedCheck:
    """202 is running; another 2xx counts by its `status`, and is success when that is absent or empty."""
    members = value if isinstance(value, dict) else {}
    report = read_report(members | {"status": ""} if answer.status == ACCEPTED else members, token)
    if isinstance(report, UnreadableReport):
        return FailedCheck(report.message)
    succeeded = answer.status != ACCEPTED and not report.status
    return msgspec.structs.replace(report, status="succeed") if succeeded else report


def _tolerate(turn: TurnState, run: Open, outcome: Outcome, check: FailedCheck) -> None:
    failed = turn.contexts[run.execute_number].failed_checks + 1
    turn.change_context(run, failed_checks=failed)
    if failed > TOLERATED:
        _end(turn, run, Failure(check.code, FailureType.CHECK), check.message, outcome)
    else:
        _wait(turn, run, outcome)


def _wait(turn: TurnState, run: Open, outcome: Outcome) -> None:
    hastened = turn.contexts[run.execute_number].verdict is not None
    pause = 0 if hastened else turn.program_of(run).check_rate
    wait = max(pause, _retry_after(turn, outcome) or 0)
    turn.change_context(run, phase=CheckWaiting(turn.now.steady + wait, wait), verdict=None)


def _retry_after(turn: TurnState, outcome: Outcome | None) -> int | None:
    return read_retry_after(outcome, turn.now.wall) if isinstance(outcome, Answer) else None


def _end(turn: TurnState, run: Open, failure: Failure, message: str, outcome: Outcome | None) -> None:
    last = len(turn.program_of(run).steps) - 1
    status = str(outcome.status) if isinstance(outcome, Answer) else OWN_FAULT
    code = failure.code
    notify(turn, run, failure_event, code, code, message, http_status=status)
    fail(turn, run, Broken(failure, message, last, _retry_after(turn, outcome)))
