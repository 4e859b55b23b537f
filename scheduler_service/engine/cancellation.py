"""What ends with an attempt: calls, parts, and what its late reports are told (SPEC sections 5, 10)."""

from scheduler_service.domain.document import Calling, Checking, Context, Ended, Open, Phase, Retrying
from scheduler_service.domain.effects import Abandon, Inform
from scheduler_service.domain.execution import LIVE, ExecutionState, FailureType
from scheduler_service.domain.records import AttemptEnded
from scheduler_service.domain.tracing import ATTEMPT
from scheduler_service.domain.wire import CallKind, Token
from scheduler_service.engine.notification_events import notify_end
from scheduler_service.engine.outbound_requests import Refused, make_request
from scheduler_service.engine.parts.dispatch import abandon_parts
from scheduler_service.engine.parts.watches import stop_watching
from scheduler_service.engine.turn_state import TurnState, replace

STEP, CHECK = CallKind.STEP, CallKind.CHECK  # a lookup in the enum costs ten times as much
ENDED_KEPT = 16
DIGEST_BYTES_KEPT = 4_096
"""Digests that the ended attempts of a job keep in all; the newest attempt always keeps its own."""
LOST_ORDINAL = 1_000_000
"""The first delivery number of an execution that lost its context: lower numbers may be in use already."""


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
        record_end(turn, run, "cancelled", FailureType.CANCELLED)
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


def bare_context(turn: TurnState, deliveries: int = 0) -> Context:
    """A context with nothing in flight, for ending an execution that has no context."""
    return Context(phase=Retrying(turn.now.steady), deadline=turn.now.steady, deliveries=deliveries)


def record_end(
    turn: TurnState,
    run: Open,
    error: str | None = None,
    failure_type: FailureType | None = None,
    message: str | None = None,
    retry_in: int | None = None,
) -> None:
    """Records the end of the attempt."""
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
