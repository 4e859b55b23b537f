"""Which execution may run now: `maxConcurrency`, `overlapPolicy` and the queue (SPEC section 2)."""

from scheduler_service.domain.document import Kept, Open
from scheduler_service.domain.execution import ExecutionState, FiringOutcome, TriggeredBy
from scheduler_service.domain.replies import Started
from scheduler_service.engine.attempt import cancel
from scheduler_service.engine.chain import begin
from scheduler_service.engine.states import WAITING
from scheduler_service.engine.turn_state import LATE_AFTER, TurnState, replace

OVERLAP, QUEUE_FULL = "overlap", "queue_full"


def submit(turn: TurnState, run: Open) -> Started:
    """Takes a new execution, or a delayed one that is due: it starts, waits or is skipped."""
    run = turn.requeue(replace(run, state=ExecutionState.ENQUEUED))
    if not run.held:
        admit(turn, run)
    return Started(run.execute_number, turn.state_of(run.execute_number), turn.head.uid)


def admit(turn: TurnState, run: Open) -> None:
    """Starts `run` if there is capacity; else the job's `overlapPolicy` decides."""
    program = turn.program
    if has_capacity(turn):
        start(turn, run)
    elif program.overlap == "queue" or run.queued:
        if len(turn.queued()) > program.queue_limit:
            skip(turn, run, QUEUE_FULL)
    elif program.overlap == "cancel_running":
        while not has_capacity(turn):
            cancel(turn, turn.live()[0], OVERLAP)
        start(turn, run)
    else:
        skip(turn, run, OVERLAP)


def start(turn: TurnState, run: Open) -> None:
    """Starts the execution with the current definition."""
    late = turn.now.wall - run.planned_at > LATE_AFTER
    turn.record_firing(run, FiringOutcome.LATE if late else FiringOutcome.FIRED)
    last = len(turn.program.steps) - 1
    from_step = min(run.from_step, len(run.replayed), last)
    running = replace(
        run,
        from_step=from_step,
        state=ExecutionState.PROCESSING,
        revision=turn.head.revision,
        qos=turn.program.qos,
        started_at=turn.now.wall,
    )
    begin(turn, running, from_step, tuple(Kept(200, "", body) for body in run.replayed[:from_step]))


def skip(turn: TurnState, run: Open, reason: str) -> None:
    """Ends the execution without running it; it keeps its number."""
    turn.record_firing(run, FiringOutcome.SKIPPED, reason)
    turn.close(run, ExecutionState.SKIPPED, reason=reason)


def drop(turn: TurnState, run: Open, reason: str, *, silent: bool = False) -> None:
    """Cancels an execution, waiting or running. `silent`: without a notification."""
    if run.state in WAITING:
        turn.record_firing(run, FiringOutcome.SKIPPED, reason)
    cancel(turn, run, reason, silent=silent)


def start_queued(turn: TurnState) -> None:
    """Starts queued executions in order while there is capacity."""
    while (first := turn.first_queued()) is not None and has_capacity(turn):
        start(turn, first)


def has_capacity(turn: TurnState) -> bool:
    """Whether one more execution may run now."""
    program = turn.program
    return program.overlap == "allow" or len(turn.live()) < program.max_concurrency


def new_execution(
    turn: TurnState,
    triggered_by: TriggeredBy,
    planned_at: int,
    *,
    params: bytes = b"{}",
    queued: bool = False,
    held: bool = False,
) -> Open:
    """A new execution with the next `executeNumber`, not yet in the document."""
    number = turn.head.execute_number + 1
    turn.change_head(execute_number=number)
    return Open(
        execute_number=number,
        state=ExecutionState.SCHEDULED,
        triggered_by=triggered_by,
        planned_at=planned_at,
        created_at=turn.now.wall,
        params=params,
        queued=queued,
        held=held,
    )
