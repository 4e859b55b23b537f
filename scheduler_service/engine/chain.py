"""The chain: sends one step after the other and judges each answer (SPEC sections 4 and 5)."""

from scheduler_service.domain.audit_acts import OwnAct, act_of_system
from scheduler_service.domain.document import (
    Calling,
    CheckWaiting,
    FeedbackAwaited,
    Kept,
    Open,
    PartsOpen,
    Phase,
)
from scheduler_service.domain.effects import Call
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import Exchange, StepEnded, exchange_of, hide_token
from scheduler_service.domain.tracing import STEP as STEP_SPAN
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.engine.answer_rules import TOO_LARGE_TEXT, UNSUCCESSFUL, code_in, find_unmet
from scheduler_service.engine.attempt import (
    JSON_TYPE,
    Broken,
    fail,
    fresh_context,
    keep_result,
    open_attempt,
    succeed,
)
from scheduler_service.engine.automatic_pause import GONE, pause_by_end
from scheduler_service.engine.cancellation import STEP
from scheduler_service.engine.decision import SMALL_BYTES
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.engine.notification_events import OWN_FAULT, answer_event, failure_event, notify
from scheduler_service.engine.outbound_requests import (
    Refused,
    describe_limit,
    limits_of,
    make_request,
    take_growth,
    whole_url,
)
from scheduler_service.engine.parts.dispatch import dispatch_step
from scheduler_service.engine.program import Step
from scheduler_service.engine.retry import Failure, GiveUp
from scheduler_service.engine.target_reports import find_header, message_of, read_retry_after, settle
from scheduler_service.engine.turn_state import TurnState, replace
from scheduler_service.language.urls import origin, quote_location

RESPONSES = 4
"""So many of the largest responses an execution keeps for later templates."""
JOB_GONE = "jobGone"
PAUSE_ACT = act_of_system(OwnAct.PAUSE_OF_GONE)
GONE_STATUS, _JOB_STATE = 410, "x-job-state"
"""An answer with which a target says that it no longer knows the job (SPEC section 13)."""
FAILURE_TYPES = {
    FaultKind.CONNECT: (OWN_FAULT, FailureType.CONNECT),
    FaultKind.TIMEOUT: (OWN_FAULT, FailureType.TIMEOUT),
    FaultKind.EGRESS: ("egress", FailureType.EGRESS),
    FaultKind.NO_INSTANCE: ("no_instance", FailureType.NO_INSTANCE),
    FaultKind.TEMPLATE: ("template", FailureType.TEMPLATE),
}


def begin(turn: TurnState, run: Open, from_step: int, responses: tuple[Kept, ...]) -> None:
    """Starts the first attempt of an execution."""
    context = fresh_context(turn, run, from_step, responses)
    call_step(turn, open_attempt(turn, run, context), from_step)


def begin_again(turn: TurnState, run: Open, from_step: int) -> None:
    """Starts the next attempt of an execution that waited for its retry."""
    context = turn.contexts[run.execute_number]
    fresh = replace(
        fresh_context(turn, run, from_step, context.responses[:from_step]),
        spent=context.spent,
        retries=context.retries,
        told=context.told,
        seen=context.seen,
        deliveries=context.deliveries,
        after=run.request_counts,
    )
    processing = replace(run, state=ExecutionState.PROCESSING)
    call_step(turn, open_attempt(turn, processing, fresh), from_step)


def call_step(turn: TurnState, run: Open, index: int) -> None:
    """Sends step `index`."""
    program = turn.programs[run.revision] if run.revision else turn.program  # `turn.program_of`
    step = program.steps[index]
    context = turn.contexts[run.execute_number]
    before = context.phase
    key = key_of(turn, run, step)
    timeout, awaited = limits_of(turn, program, context, step.target.timeout)
    request: OutboundRequest | Refused | None = make_request(
        turn,
        program,
        run,
        step.target,
        key=key,
        timeout=timeout,
        awaited=awaited,
        span=(STEP_SPAN, index),
        trace=before.request.trace if type(before) is Calling else "",  # one per execution
    )
    if step.dispatch is not None and isinstance(request, OutboundRequest):
        request = dispatch_step(turn, run, step, request, key)
    if request is None:
        return  # it is dispatched to instances or a queue
    if type(request) is Refused:
        refuse_step(turn, run, index, request)
        return
    grown = 0
    if request.body is not None and len(request.body) > SMALL_BYTES:
        taken = take_growth(turn, run, step.target, request)
        if isinstance(taken, Refused):
            refuse_step(turn, run, index, taken)
            return
        grown = taken
    turn.change_context(run, phase=Calling(index, request, turn.now.wall, grown))
    turn.effects.append(Call(turn.token(run, STEP, index), request))


def handle_answer(turn: TurnState, run: Open, calling: Calling, outcome: Outcome) -> None:
    """Takes the answer to the step in flight: the chain goes on, or the attempt fails."""
    step = turn.program_of(run).steps[calling.step]
    broken = judge_answer(turn, run, step, outcome) or refuse_sum(turn, run, step, outcome)
    exchange = exchange_of(calling.request, outcome, calling.sent_at)
    record_step(turn, run, step, exchange, broken.failure.code if broken else None)
    if type(outcome) is Fault:
        assert broken is not None
        handle_fault(turn, run, step, outcome, broken)
    elif broken is not None:
        fail_answer(turn, run, outcome, broken)
    else:
        advance(turn, run, step, outcome)


def fail_answer(turn: TurnState, run: Open, answer: Answer, broken: Broken) -> None:
    """Fails the attempt by its answer; an answer that says that the job is gone also pauses the job."""
    message = broken.message
    # A status of success would tell the opposite of what its body says.
    key = broken.failure.code if broken.failure.failure_type is FailureType.BUSINESS else None
    notify(turn, run, answer_event, answer, broken.failure.code, message, key)
    if answer.status == GONE_STATUS and says_gone(answer):
        pause_gone(turn, run, broken)
    else:
        fail(turn, run, broken)


def record_step(
    turn: TurnState,
    run: Open,
    step: Step,
    exchange: Exchange,
    error: str | None,
    *,
    instance: str | None = None,
    part: int | None = None,
) -> None:
    """Writes the end of a step into the history, or of its part `part`, done by `instance`."""
    if turn.program_of(run).asynchronous:  # no other attempt waits for a report
        exchange = hide_token(exchange, feedback_token(turn.head.key, turn.head.uid, run.request_counts))
    turn.records.append(
        StepEnded(  # by position
            run.execute_number,
            run.request_counts,
            step.index,
            turn.now.wall,
            exchange,
            step.resp_env_name,
            error,
            part,
            instance,
            run.trace,
        )
    )


def key_of(turn: TurnState, run: Open, step: Step) -> str:
    """The Idempotency-Key of a step: the same in all attempts, unless its templates name the attempt."""
    key = f"{turn.head.uid}-{run.execute_number}-{step.index}"
    return f"{key}-{run.request_counts}" if step.per_attempt else key


def refuse_step(turn: TurnState, run: Open, index: int, refused: Refused) -> None:
    """Fails the attempt: the request of step `index` cannot be made."""
    message = f"step {index}: {refused.message}"
    turn.note(run, refused.code, message, step=index)
    notify(turn, run, failure_event, OWN_FAULT, refused.code, message)
    fail(turn, run, Broken(Failure(refused.code, refused.failure_type), message, index))


def says_gone(answer: Answer) -> bool:
    """Whether the answer says that the target no longer knows the job."""
    return (find_header(answer.headers, _JOB_STATE) or "").strip().lower() == GONE


def pause_gone(turn: TurnState, run: Open, broken: Broken) -> None:
    """Ends the execution without a retry and pauses the job with the reason `gone`."""
    turn.note(run, JOB_GONE, "the target no longer knows this job (410 with X-Job-State: gone)")
    fail(turn, run, broken, give_up=GiveUp(GONE))
    pause_by_end(turn, run, GONE, PAUSE_ACT)


def judge_answer(turn: TurnState, run: Open, step: Step, outcome: Outcome) -> Broken | None:
    """Why this outcome fails the step, or None; the message is the target's own where it gave one."""
    if type(outcome) is Fault:
        code, kind = FAILURE_TYPES[outcome.kind]
        message = outcome.message
        if outcome.kind is FaultKind.TIMEOUT:
            own = "timeoutSeconds of the step" if step.target.has_own_limit else None
            message += describe_limit(step.target.timeout, own=own)
        return Broken(Failure(code, kind), message, step.index)
    rule = step.target.rule
    if not _succeeds(step, outcome.status):
        status = str(outcome.status)
        failure = Failure(code_in(rule, outcome, status), FailureType.HTTP)
        return _break(turn, run, step, outcome, failure, f"the target answered {status}")
    if outcome.truncated and step.needed:
        message = "the response is larger than limits.response_bytes, and a later step needs it"
        return Broken(Failure("response_too_large", FailureType.TOO_LARGE), message, step.index)
    unmet = None if rule is None else find_unmet(rule, outcome)
    if unmet is None or rule is None:
        return None
    if unmet == TOO_LARGE_TEXT:
        return Broken(Failure("response_too_large", FailureType.TOO_LARGE), unmet, step.index)
    failure = Failure(code_in(rule, outcome, UNSUCCESSFUL), FailureType.BUSINESS)
    return _break(turn, run, step, outcome, failure, unmet)


def _break(
    turn: TurnState, run: Open, step: Step, answer: Answer, failure: Failure, otherwise: str
) -> Broken:
    """The failure of a step by its answer; its message is the target's own, else `otherwise`."""
    token = feedback_token(turn.head.key, turn.head.uid, run.request_counts)
    message = message_of(step.target.rule, answer, token, otherwise)
    return Broken(failure, message, step.index, read_retry_after(answer, turn.now.wall))


def refuse_sum(turn: TurnState, run: Open, step: Step, outcome: Outcome) -> Broken | None:
    """Why this answer, well as it is, cannot be kept beside those of the steps before it, or None.

    A context with all of them is written, and decoded for a template, as a whole. Nor can it be where the
    process has no room for it.
    """
    if not step.keeps or type(outcome) is Fault:
        return None
    size = len(outcome.body)
    if turn.is_full and size > SMALL_BYTES:
        message = (
            f"the response to step {step.index} is needed later, and there is no room for it: what open "
            "executions keep would take more than limits.open_bytes; raise it, or let the targets answer "
            "with less"
        )
        return Broken(Failure("response_too_large", FailureType.TOO_LARGE), message, step.index)
    earlier = turn.contexts[run.execute_number].responses
    if not earlier:
        return None
    most = RESPONSES * turn.program.surroundings.response_bytes
    if size + sum(len(one.body or b"") for one in earlier) <= most:
        return None
    message = (
        f"the responses that the steps up to {step.index} leave for later ones are larger than {most:,} "
        f"bytes together, {RESPONSES} times limits.response_bytes; let the targets answer with less"
    )
    return Broken(Failure("response_too_large", FailureType.TOO_LARGE), message, step.index)


def _succeeds(step: Step, status: int) -> bool:
    for low, high in step.success:  # noqa: SIM110 - mostly one range; `any` would take three times as long
        if low <= status <= high:
            return True
    return False


def handle_fault(turn: TurnState, run: Open, step: Step, fault: Fault, broken: Broken) -> None:
    """Takes a missing answer: a verdict by feedback replaces the last step's answer (SPEC section 5)."""
    program = turn.program_of(run)
    context = turn.contexts[run.execute_number]
    is_last = step.index == len(program.steps) - 1
    replaceable = fault.kind in (FaultKind.CONNECT, FaultKind.TIMEOUT) and program.check is None
    if context.verdict is not None and is_last and replaceable:
        settle(turn, run, context.verdict)
        return
    timed_out = fault.kind is FaultKind.TIMEOUT
    code = broken.failure.code
    notify(turn, run, failure_event, OWN_FAULT, code, broken.message, timed_out=timed_out)
    fail(turn, run, broken)


def advance(turn: TurnState, run: Open, step: Step, answer: Answer, array: bytes | None = None) -> None:
    """Goes on after a step that succeeded: the next step, or the end of the chain.

    `array`: what its parts were answered, None: it has none.
    """
    program = turn.programs[run.revision] if run.revision else turn.program  # `turn.program_of`
    context = turn.contexts[run.execute_number]
    body = answer.body if step.keeps else None
    kept = Kept(answer.status, answer.url or _url_of(context.phase), body, answer.truncated)
    turn.change_context(run, responses=(*context.responses, kept))
    if step.index + 1 < len(program.steps):
        call_step(turn, run, step.index + 1)
    elif program.asynchronous:
        _await_outcome(turn, run, answer)
    else:
        notify(turn, run, answer_event, answer, None, "")
        if program.keeps_result:
            _keep_answer(turn, run, answer, array)
        succeed(turn, run)


def _keep_answer(turn: TurnState, run: Open, answer: Answer, array: bytes | None) -> None:
    kind = find_header(answer.headers, "content-type") or "" if array is None else JSON_TYPE
    body = answer.body if array is None else array
    keep_result(turn, run, body, content_type=kind, status=answer.status, truncated=answer.truncated)


def _url_of(phase: object) -> str:
    return phase.request.url if isinstance(phase, Calling) else ""


def _await_outcome(turn: TurnState, run: Open, answer: Answer) -> None:
    """Waits for the outcome of an asynchronous job: a check, `Location` or feedback (SPEC section 5)."""
    program = turn.program_of(run)
    context = turn.contexts[run.execute_number]
    # Feedback that came before brings the first check forward.
    pause = program.check_rate if context.verdict is None else 0
    check_at = CheckWaiting(turn.now.steady + pause, pause)
    location = find_header(answer.headers, "location")
    if program.check is not None:
        turn.change_context(run, phase=check_at, verdict=None)
    elif answer.status == 202 and location:
        _poll_location(turn, run, location, check_at)
    elif context.verdict is not None:
        settle(turn, run, context.verdict)
    else:
        turn.change_context(run, phase=FeedbackAwaited())


def _poll_location(turn: TurnState, run: Open, location: str, check_at: CheckWaiting) -> None:
    program = turn.program_of(run)
    base = turn.contexts[run.execute_number].responses[-1].url
    url = whole_url(program, quote_location(location.strip()), base)
    if isinstance(url, Refused):
        refuse_step(turn, run, len(program.steps) - 1, url)
        return
    sign = _sign_of(turn.contexts[run.execute_number].phase, base, url)
    turn.change_context(run, phase=check_at, location=url, verdict=None, sign=sign)


def _sign_of(phase: Phase, answered: str, location: str) -> str:
    """What signs requests to the `location` of an answer: what signed the call, at the origin of that."""
    requests = [phase.request] if isinstance(phase, Calling) else []
    if isinstance(phase, PartsOpen):
        requests = [part.request for part in phase.parts if part.request is not None]
    if not requests or not requests[0].sign:
        return ""
    called = requests[0].base or requests[0].url
    # Who answers a call of a service that has no address yet is known only as long as it redirects nowhere.
    is_unknown = called[:8].lower() == "service:" and not requests[0].redirects
    return requests[0].sign if origin(location) == origin(answered if is_unknown else called) else ""
