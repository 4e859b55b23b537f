"""How an attempt begins and ends, and how an execution ends with it (SPEC sections 5, 6, 10)."""

import msgspec

from scheduler_service.domain.document import Calling, Checking, Context, Ended, Kept, Open, Phase, Retrying
from scheduler_service.domain.effects import Abandon, Inform
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import AttemptEnded, AttemptStarted
from scheduler_service.domain.wire import CallKind, Token
from scheduler_service.engine.notification_events import notify_end
from scheduler_service.engine.parts.outbound import abandon_parts
from scheduler_service.engine.requests import Refused, make_request
from scheduler_service.engine.retry import Failure, GiveUp, judge
from scheduler_service.engine.states import LIVE
from scheduler_service.engine.turn_state import TurnState, replace

STEP, CHECK = CallKind.STEP, CallKind.CHECK  # looked up in their enum they cost ten times as much
ENDED_KEPT = 16
DIGESTS_KEPT = 4_096
"""Bytes of what ended attempts keep of the reports that decided them; the newest one keeps all of its own."""
LOST_ORDINAL = 1_000_000
"""Where the deliveries of an execution without its context begin: those before may be on their way."""


class Broken(msgspec.Struct, frozen=True):
    """Why an attempt failed: the failure for the policies, words for people, the target's `Retry-After`."""

    failure: Failure
    message: str
    step: int
    retry_after: int | None = None


def fresh_context(draft: TurnState, run: Open, from_step: int, responses: tuple[Kept, ...]) -> Context:
    """The context of an attempt that starts at `from_step` now."""
    deadline = draft.now.steady + draft.program_of(run).timeout
    return Context(phase=Retrying(draft.now.steady, from_step), deadline=deadline, responses=responses)


def bare_context(draft: TurnState, deliveries: int = 0) -> Context:
    """A context in which nothing is under way: for telling the end of what has none of its own."""
    return Context(phase=Retrying(draft.now.steady), deadline=draft.now.steady, deliveries=deliveries)


def open_attempt(draft: TurnState, run: Open, context: Context) -> Open:
    """Takes a new `requestCounts` for `run` and puts the attempt's context in its place."""
    counts = draft.head.request_counts + 1
    draft.change(request_counts=counts)
    draft.contexts[run.execute_number] = context
    started = replace(run, request_counts=counts, attempts=run.attempts + 1, holder=draft.holder)
    draft.records.append(AttemptStarted(run.execute_number, counts, draft.now.wall))
    return draft.keep(started)


def succeed(draft: TurnState, run: Open, digest: bytes = b"") -> None:
    """The attempt, and with it the execution, succeeded."""
    draft.records.append(AttemptEnded(run.execute_number, run.request_counts, draft.now.wall))
    remember_end(draft, run, digest)
    finish(draft, run, ExecutionState.SUCCEEDED)


def fail(draft: TurnState, run: Open, broken: Broken, digest: bytes = b"") -> None:
    """The attempt failed: a retry waits, or the execution ends (SPEC section 6)."""
    program = draft.program_of(run)
    context = draft.contexts[run.execute_number]
    failure = broken.failure
    remember_end(draft, run, digest)
    failed = draft.keep(replace(run, state=ExecutionState.FAILED))
    verdict = judge(
        program.policies,
        context.spent,
        context.retries,
        program.max_retries,
        failure,
        retry_after=broken.retry_after,
        seed=f"{draft.head.uid}:{run.request_counts}",
    )
    draft.records.append(
        AttemptEnded(
            run.execute_number,
            run.request_counts,
            draft.now.wall,
            error=failure.code,
            failure_type=failure.failure_type,
            message=broken.message,
            retry_in=None if isinstance(verdict, GiveUp) else verdict.wait,
        )
    )
    if isinstance(verdict, GiveUp):
        finish(draft, failed, ExecutionState.TERMINATED, reason=verdict.reason, broken=broken)
        return
    spent = list(context.spent) or [0] * len(program.policies)
    spent[verdict.policy] += 1
    from_step = broken.step if program.steps[broken.step].from_step else run.from_step
    draft.adjust(
        run.execute_number,
        phase=Retrying(draft.now.steady + verdict.wait, from_step),
        spent=tuple(spent),
        retries=context.retries + 1,
        failure=failure.code,
        failure_type=failure.failure_type,
    )
    draft.touch(failed)


def finish(
    draft: TurnState,
    run: Open,
    state: ExecutionState,
    *,
    reason: str | None = None,
    broken: Broken | None = None,
) -> None:
    """The execution ends: its caller is told, its place is free."""
    error = broken.failure.code if broken else None
    notify_end(draft, run, state, error, broken.message if broken else "")
    draft.close(
        run,
        state,
        reason=reason,
        error=error,
        failure_type=broken.failure.failure_type if broken else None,
    )


def cancel(draft: TurnState, run: Open, reason: str, *, silent: bool = False) -> None:
    """Ends an execution that somebody no longer wants; what is in flight is stopped, the target told.

    `silent`: no notification (the job is destroyed).
    """
    lost = LOST_ORDINAL if run.state in LIVE else 0
    context = draft.contexts.setdefault(run.execute_number, bare_context(draft, lost))
    if run.state is ExecutionState.PROCESSING:
        abandon(draft, run, context.phase)
        inform(draft, run, context)
        _close_attempt(draft, run)
    state, error = ExecutionState.CANCELLED, "cancelled"
    if not silent:
        notify_end(draft, run, state, error, reason)
    draft.close(run, state, reason=reason, error=error, failure_type=FailureType.CANCELLED)


def abandon(draft: TurnState, run: Open, phase: Phase) -> None:
    """Stops what is in flight, if anything is: a call, or the parts of a step."""
    token = token_of(draft, run, phase)
    if token is not None:
        draft.effects.append(Abandon(token))
    else:
        abandon_parts(draft, run, phase)


def token_of(draft: TurnState, run: Open, phase: Phase) -> Token | None:
    """The name of the call that `phase` awaits; None where it awaits none."""
    if type(phase) is Calling:
        return draft.token(run, STEP, phase.step)
    if type(phase) is Checking:
        return draft.token(run, CHECK, draft.contexts[run.execute_number].checks)
    return None


def inform(draft: TurnState, run: Open, context: Context) -> None:
    """Calls the job's `cancelUrl`, if it has one."""
    program = draft.program_of(run)
    if program.cancel is None:
        return
    request = make_request(
        program,
        draft.head,
        run,
        context.responses,
        program.cancel,
        key=f"{draft.head.uid}-{run.execute_number}-{run.request_counts}-cancel",
        timeout=program.cancel.timeout,
    )
    if isinstance(request, Refused):
        draft.note(run, "cancelUrl", f"not called, {request.code}: {request.message}")
        return
    draft.effects.append(Inform(request))


def remember_end(draft: TurnState, run: Open, digest: bytes) -> None:
    """Keeps what late feedback for this attempt must be told."""
    if not draft.program_of(run).asynchronous:
        return
    ended = Ended(run.request_counts, run.execute_number, digest)
    draft.change(ended=_shorten((*draft.head.ended, ended)[-ENDED_KEPT:]))


def _shorten(kept: tuple[Ended, ...]) -> tuple[Ended, ...]:
    """The head stays small: of older attempts with very many parts it is forgotten what these said."""
    room = DIGESTS_KEPT
    found: list[Ended] = []
    for ended in reversed(kept):
        is_newest = not found
        room -= len(ended.digest)
        found.append(ended if is_newest or room >= 0 else replace(ended, digest=b""))
    return tuple(reversed(found))


def _close_attempt(draft: TurnState, run: Open) -> None:
    remember_end(draft, run, b"")
    draft.records.append(
        AttemptEnded(
            run.execute_number,
            run.request_counts,
            draft.now.wall,
            error="cancelled",
            failure_type=FailureType.CANCELLED,
        )
    )
