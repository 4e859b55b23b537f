"""How an attempt begins and ends, and how an execution ends with it (SPEC sections 5, 6, 10)."""

import msgspec

from scheduler_service.domain.document import Context, Kept, Open, Retrying
from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.records import AttemptStarted, ResultKept
from scheduler_service.domain.token_masks import MARK
from scheduler_service.engine.automatic_pause import count_failures
from scheduler_service.engine.cancellation import record_end, remember_end
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.engine.notification_events import notify_end
from scheduler_service.engine.retry import Failure, GiveUp, judge
from scheduler_service.engine.turn_state import TurnState, replace

SUCCEEDED = ExecutionState.SUCCEEDED
JSON_TYPE = "application/json"


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
    record_end(turn, run)
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
    record_end(turn, run, failure.code, failure.failure_type, broken.message, retry_in)
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
        count_failures(turn, run, turn.program.pause_after, has_failed=state is not SUCCEEDED, reason=reason)
