"""Which execution may run now: `maxConcurrency`, `overlapPolicy` and the line before it (SPEC section 2)."""

from scheduler_service.domain.document import Kept, Open
from scheduler_service.domain.execution import ExecutionState, FiringOutcome, TriggeredBy
from scheduler_service.domain.replies import Started
from scheduler_service.engine.attempt import cancel
from scheduler_service.engine.chain import begin
from scheduler_service.engine.states import WAITING
from scheduler_service.engine.turn_state import LATE_AFTER, TurnState, replace

OVERLAP, QUEUE_FULL = "overlap", "queue_full"


def submit(turn: TurnState, run: Open) -> Started:
    """Puts a new execution, or a delayed one whose moment has come, before its place: run, wait or skip."""
    run = turn.requeue(replace(run, state=ExecutionState.ENQUEUED))
    if not run.held:
        admit(turn, run)
    return Started(run.execute_number, turn.state_of(run.execute_number), turn.head.uid)


def admit(turn: TurnState, run: Open) -> None:
    """Starts `run` where there is a place; else its job's `overlapPolicy` decides."""
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
    """The execution begins, with the definition that is in force now."""
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
    """The execution never runs; it keeps its number."""
    turn.record_firing(run, FiringOutcome.SKIPPED, reason)
    turn.close(run, ExecutionState.SKIPPED, reason=reason)


def drop(turn: TurnState, run: Open, reason: str, *, silent: bool = False) -> None:
    """Nobody wants this execution any more, whether it waits or runs. `silent`: nobody is told."""
    if run.state in WAITING:
        turn.record_firing(run, FiringOutcome.SKIPPED, reason)
    cancel(turn, run, reason, silent=silent)


def start_queued(turn: TurnState) -> None:
    """Lets those in line go on while there are places, the first one first."""
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
    """An execution with the next `executeNumber`, not yet in the document."""
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
