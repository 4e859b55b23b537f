"""How an attempt begins and ends, and how an execution ends with it (SPEC sections 5, 6, 10)."""

import msgspec

from scheduler_service.domain.audit_acts import Act, OwnAct, act_of_system
from scheduler_service.domain.document import Calling, Checking, Context, Ended, Kept, Open, Phase, Retrying
from scheduler_service.domain.effects import Abandon, Inform, ReportPause
from scheduler_service.domain.execution import (
    LIVE,
    PLANNED,
    WAITING,
    ExecutionState,
    FailureType,
    FiringOutcome,
)
from scheduler_service.domain.records import AttemptEnded, AttemptStarted, Audited, ResultKept
from scheduler_service.domain.token_masks import MARK
from scheduler_service.domain.tracing import ATTEMPT
from scheduler_service.domain.wire import CallKind, Token
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.engine.notification_events import notify_end
from scheduler_service.engine.outbound_requests import Refused, make_request
from scheduler_service.engine.parts.dispatch import abandon_parts
from scheduler_service.engine.parts.watches import stop_watching
from scheduler_service.engine.retry import Failure, GiveUp, judge
from scheduler_service.engine.turn_state import TurnState, replace

STEP, CHECK = CallKind.STEP, CallKind.CHECK  # a lookup in the enum costs ten times as much
SUCCEEDED = ExecutionState.SUCCEEDED
GONE, FAILURES = "gone", "failures"
"""Why the service pauses a job by itself."""
JSON_TYPE = "application/json"
ENDED_KEPT = 16
DIGEST_BYTES_KEPT = 4_096
"""Digests that the ended attempts of a job keep in all; the newest attempt always keeps its own."""
LOST_ORDINAL = 1_000_000
"""The first delivery number of an execution that lost its context: lower numbers may be in use already."""


class Broken(msgspec.Struct, frozen=True):
    """Why an attempt failed: the failure for the policies, a text for people, the target's `Retry-After`."""

    failure: Failure
    message: str
    step: int
    retry_after: int | None = None


def fresh_context(turn: TurnState, run: Open, from_step: int, responses: tuple[Kept, ...]) -> Context:
    """The context of an attempt that starts now, at `from_step`."""
    deadline = turn.now.steady + turn.program_of(run).timeout
    return Context(
        phase=Retrying(turn.now.steady, from_step),
        deadline=deadline,
        responses=responses,
        began_at=turn.moment_in(run),
    )


def bare_context(turn: TurnState, deliveries: int = 0) -> Context:
    """A context with nothing in flight, for ending an execution that has no context."""
    return Context(phase=Retrying(turn.now.steady), deadline=turn.now.steady, deliveries=deliveries)


def open_attempt(turn: TurnState, run: Open, context: Context) -> Open:
    """Starts an attempt of `run`: a new `requestCounts`, and its context in the document."""
    counts = turn.head.request_counts + 1
    turn.change_head(request_counts=counts)
    turn.contexts[run.execute_number] = context
    started = replace(run, request_counts=counts, attempts=run.attempts + 1, holder=turn.holder)
    turn.records.append(AttemptStarted(run.execute_number, counts, turn.moment_in(run)))
    return turn.put(started)


def succeed(turn: TurnState, run: Open, digest: bytes = b"") -> None:
    """Ends the attempt and its execution as succeeded."""
    _record_end(turn, run)
    remember_end(turn, run, digest)
    finish(turn, run, SUCCEEDED)


def keep_result(
    turn: TurnState,
    run: Open,
    body: bytes,
    *,
    content_type: str = JSON_TYPE,
    status: int | None = None,
    truncated: bool = False,
) -> None:
    """Keeps what the attempt, which succeeds, was answered last; without the token of its feedback."""
    token = feedback_token(turn.head.key, turn.head.uid, run.request_counts)
    hidden = body.replace(token.encode(), MARK.encode())
    turn.records.append(
        ResultKept(run.execute_number, hidden, status, content_type, truncated, masked=hidden != body)
    )


def fail(
    turn: TurnState, run: Open, broken: Broken, digest: bytes = b"", *, give_up: GiveUp | None = None
) -> None:
    """Ends the attempt as failed: a retry waits, or the execution ends (SPEC section 6).

    `give_up`: no retry policy is considered. `digest` is that of the report that decided, if one did.
    """
    program = turn.program_of(run)
    context = turn.contexts[run.execute_number]
    failure = broken.failure
    remember_end(turn, run, digest)
    failed = turn.put(replace(run, state=ExecutionState.FAILED))
    verdict = give_up or judge(
        program.policies,
        context.spent,
        context.retries,
        program.max_retries,
        failure,
        retry_after=broken.retry_after,
        seed=f"{turn.head.uid}:{run.request_counts}",
    )
    retry_in = None if isinstance(verdict, GiveUp) else verdict.wait
    _record_end(turn, run, failure.code, failure.failure_type, broken.message, retry_in)
    if isinstance(verdict, GiveUp):
        finish(turn, failed, ExecutionState.TERMINATED, reason=verdict.reason, broken=broken)
        return
    spent = list(context.spent) or [0] * len(program.policies)
    spent[verdict.policy] += 1
    from_step = broken.step if program.steps[broken.step].from_step else run.from_step
    turn.change_context(
        run,
        phase=Retrying(turn.now.steady + verdict.wait, from_step, verdict.wait),
        spent=tuple(spent),
        retries=context.retries + 1,
        failure=failure.code,
        failure_type=failure.failure_type,
    )
    turn.record_execution(failed)


def finish(
    turn: TurnState,
    run: Open,
    state: ExecutionState,
    *,
    reason: str | None = None,
    broken: Broken | None = None,
) -> None:
    """Ends the execution: notifies its end and frees its slot. It may be one failure too many of its job."""
    error = broken.failure.code if broken else None
    notify_end(turn, run, state, error, broken.message if broken else "")
    turn.close(
        run, state, reason=reason, error=error, failure_type=broken.failure.failure_type if broken else None
    )
    if turn.program.pause_after is not None:
        _count_failures(turn, run, turn.program.pause_after, has_failed=state is not SUCCEEDED, reason=reason)


def _count_failures(turn: TurnState, run: Open, most: int, *, has_failed: bool, reason: str | None) -> None:
    """Counts failures in a row, in the order of their ends; cancelled and skipped ones do not count."""
    failures = turn.head.failures + 1 if has_failed else 0
    if failures != turn.head.failures:
        turn.change_head(failures=failures)
    if failures >= most and reason != GONE:  # that pauses the job by itself
        pause_by_end(turn, run, FAILURES, act_of_system(OwnAct.PAUSE_OF_FAILURES, failures=str(failures)))


def pause_by_end(turn: TurnState, run: Open, reason: str, act: Act) -> None:
    """The service pauses the job by how this execution ended.

    Other running executions go on to their own end; waiting timer firings are skipped.
    """
    if not turn.head.active:
        return
    turn.change_head(active=False, paused_at=turn.now.wall, pause_reason=reason, updated_at=turn.now.wall)
    turn.effects.append(ReportPause(reason, run.execute_number))
    turn.records.append(Audited(act, 200, run.execute_number, turn.head.revision))
    for other in list(turn.opens.values()):
        if other.triggered_by in PLANNED and other.state in WAITING:
            turn.record_firing(other, FiringOutcome.SKIPPED, reason)
            cancel(turn, other, reason)


def cancel(turn: TurnState, run: Open, reason: str, *, silent: bool = False) -> None:
    """Ends an execution as cancelled: stops what is in flight and calls `cancelUrl`.

    `silent`: no notification (the job is destroyed).
    """
    lost = LOST_ORDINAL if run.state in LIVE else 0
    context = turn.contexts.setdefault(run.execute_number, bare_context(turn, lost))
    if run.state is ExecutionState.PROCESSING:
        abandon(turn, run, context.phase)
        call_cancel_url(turn, run, context)
        remember_end(turn, run, b"")
        _record_end(turn, run, "cancelled", FailureType.CANCELLED)
    state, error = ExecutionState.CANCELLED, "cancelled"
    if not silent:
        notify_end(turn, run, state, error, reason)
    turn.close(run, state, reason=reason, error=error, failure_type=FailureType.CANCELLED)


def abandon(turn: TurnState, run: Open, phase: Phase) -> None:
    """Stops what is in flight: a call, the parts of a step, or nothing."""
    token = token_of(turn, run, phase)
    if token is not None:
        turn.effects.append(Abandon(token))
    else:
        abandon_parts(turn, run, phase)


def token_of(turn: TurnState, run: Open, phase: Phase) -> Token | None:
    """The token of the call that `phase` waits for, or None."""
    if type(phase) is Calling:  # once a step: so it is made here
        return Token(turn.head.uid, run.execute_number, run.request_counts, STEP, phase.step)
    if type(phase) is Checking:
        return turn.token(run, CHECK, turn.contexts[run.execute_number].checks)
    return None


def call_cancel_url(turn: TurnState, run: Open, context: Context) -> None:
    """Calls the job's `cancelUrl`, if it has one."""
    program = turn.program_of(run)
    if program.cancel is None:
        return
    request = make_request(
        turn,
        program,
        run,
        program.cancel,
        key=f"{turn.head.uid}-{run.execute_number}-{run.request_counts}-cancel",
        timeout=program.cancel.timeout,
        span=(ATTEMPT,),  # the call has no span of its own: nobody awaits its answer
    )
    if isinstance(request, Refused):
        turn.note(run, "cancelUrl", f"not called, {request.code}: {request.message}")
        return
    turn.effects.append(Inform(request))


def _record_end(
    turn: TurnState,
    run: Open,
    error: str | None = None,
    failure_type: FailureType | None = None,
    message: str | None = None,
    retry_in: int | None = None,
) -> None:
    context = turn.contexts[run.execute_number]
    turn.records.append(
        AttemptEnded(
            run.execute_number,
            run.request_counts,
            turn.moment_in(run),
            error,
            failure_type,
            message,
            retry_in,
            context.began_at,
            context.after,
            run.trace,
        )
    )


def remember_end(turn: TurnState, run: Open, digest: bytes) -> None:
    """Keeps what is needed to answer late feedback for this attempt."""
    if not turn.program_of(run).asynchronous:
        return
    stop_watching(turn, run)
    ended = Ended(run.request_counts, run.execute_number, digest)
    turn.change_head(ended=_limit_digests((*turn.head.ended, ended)[-ENDED_KEPT:]))


def _limit_digests(ended: tuple[Ended, ...]) -> tuple[Ended, ...]:
    """Drops the digests of older attempts with very many parts, so that the head stays small."""
    left = DIGEST_BYTES_KEPT
    kept: list[Ended] = []
    for attempt in reversed(ended):
        left -= len(attempt.digest)
        kept.append(attempt if left >= 0 or not kept else replace(attempt, digest=b""))
    return tuple(reversed(kept))
