"""Which execution may run now: `maxConcurrency`, `overlapPolicy` and the line before it (SPEC section 2)."""

from scheduler_service.domain.document import Kept, Open
from scheduler_service.domain.execution import ExecutionState, FiringOutcome, TriggeredBy
from scheduler_service.domain.replies import Started
from scheduler_service.engine.attempt import cancel
from scheduler_service.engine.chain import begin
from scheduler_service.engine.states import WAITING
from scheduler_service.engine.turn_state import LATE_AFTER, TurnState, replace

OVERLAP, QUEUE_FULL = "overlap", "queue_full"


def enrol(draft: TurnState, run: Open) -> Started:
    """Puts a new execution, or a delayed one whose moment has come, before its place: run, wait or skip."""
    run = draft.requeue(replace(run, state=ExecutionState.ENQUEUED))
    if not run.held:
        admit(draft, run)
    return Started(run.execute_number, draft.state_of(run.execute_number), draft.head.uid)


def admit(draft: TurnState, run: Open) -> None:
    """Starts `run` where there is a place; else its job's `overlapPolicy` decides."""
    program = draft.program
    if has_place(draft):
        start(draft, run)
    elif program.overlap == "queue" or run.queued:
        if len(draft.line()) > program.queue_limit:
            skip(draft, run, QUEUE_FULL)
    elif program.overlap == "cancel_running":
        while not has_place(draft):
            cancel(draft, draft.live()[0], OVERLAP)
        start(draft, run)
    else:
        skip(draft, run, OVERLAP)


def start(draft: TurnState, run: Open) -> None:
    """The execution begins, with the definition that is in force now."""
    late = draft.now.wall - run.planned_at > LATE_AFTER
    draft.account(run, FiringOutcome.LATE if late else FiringOutcome.FIRED)
    last = len(draft.program.steps) - 1
    from_step = min(run.from_step, len(run.replayed), last)
    running = replace(
        run,
        from_step=from_step,
        state=ExecutionState.PROCESSING,
        revision=draft.head.revision,
        qos=draft.program.qos,
        started_at=draft.now.wall,
    )
    begin(draft, running, from_step, tuple(Kept(200, "", body) for body in run.replayed[:from_step]))


def skip(draft: TurnState, run: Open, reason: str) -> None:
    """The execution never runs; it keeps its number."""
    draft.account(run, FiringOutcome.SKIPPED, reason)
    draft.close(run, ExecutionState.SKIPPED, reason=reason)


def drop(draft: TurnState, run: Open, reason: str, *, silent: bool = False) -> None:
    """Nobody wants this execution any more, whether it waits or runs. `silent`: nobody is told."""
    if run.state in WAITING:
        draft.account(run, FiringOutcome.SKIPPED, reason)
    cancel(draft, run, reason, silent=silent)


def fill_places(draft: TurnState) -> None:
    """Lets those in line go on while there are places, the first one first."""
    while (first := draft.first_in_line()) is not None and has_place(draft):
        start(draft, first)


def has_place(draft: TurnState) -> bool:
    """Whether one more execution may run now."""
    program = draft.program
    return program.overlap == "allow" or len(draft.live()) < program.max_concurrency


def new_execution(
    draft: TurnState,
    triggered_by: TriggeredBy,
    planned_at: int,
    *,
    params: bytes = b"{}",
    queued: bool = False,
    held: bool = False,
) -> Open:
    """An execution with the next `executeNumber`, not yet in the document."""
    number = draft.head.execute_number + 1
    draft.change(execute_number=number)
    return Open(
        execute_number=number,
        state=ExecutionState.SCHEDULED,
        triggered_by=triggered_by,
        planned_at=planned_at,
        created_at=draft.now.wall,
        params=params,
        queued=queued,
        held=held,
    )
