"""Which execution may run now: `maxConcurrency`, `overlapPolicy` and the queue (SPEC section 2)."""

from scheduler_service.domain.document import Kept, Open
from scheduler_service.domain.execution import WAITING, ExecutionState, FiringOutcome, TriggeredBy
from scheduler_service.domain.records import AttemptStarted
from scheduler_service.domain.replies import Started
from scheduler_service.engine.attempt import fresh_context
from scheduler_service.engine.cancellation import cancel
from scheduler_service.engine.chain import begin, call_step
from scheduler_service.engine.decision import STOPPING
from scheduler_service.engine.turn_state import LATE_AFTER, TurnState, replace
from scheduler_service.timing.timer import TimerKind

OVERLAP, QUEUE_FULL, DISABLED = "overlap", "queue_full", "disabled"
NOTHING_SENT = "the process ended before anything of it was sent"
# Names of the module: a lookup in an enum costs 0.3 µs, in every firing.
SCHEDULED, ENQUEUED = ExecutionState.SCHEDULED, ExecutionState.ENQUEUED
PROCESSING, SKIPPED = ExecutionState.PROCESSING, ExecutionState.SKIPPED
FIRED, LATE = FiringOutcome.FIRED, FiringOutcome.LATE
TIMER, BACKFILL, ONE_TIME = TriggeredBy.TIMER, TriggeredBy.BACKFILL, TimerKind.ONE_TIME


def submit(turn: TurnState, run: Open) -> Started:
    """Takes a new execution, or a delayed one that is due: it starts, waits or is skipped."""
    run = turn.requeue(replace(run, state=ENQUEUED))
    if not run.held:
        admit(turn, run)
    return Started(run.execute_number, turn.state_of(run.execute_number), turn.head.uid)


def line_up(turn: TurnState, run: Open) -> None:
    """Takes a new execution that runs as soon as there is capacity, whatever policy and `queueLimit` say.

    `decide` starts it in the same turn if there is capacity already.
    """
    turn.requeue(replace(run, state=ENQUEUED))


def admit(turn: TurnState, run: Open) -> None:
    """Starts `run` if there is capacity; else the job's `overlapPolicy` decides. A disabled job skips it.

    Nothing ends the backlog of a `fire_all`: who would cancel or overlap it waits until it is worked off.
    A backfill costs no firing and no trigger: one that finds nothing else at work waits, ahead of its rest.
    In a process that stops it waits, for the next one.
    """
    program = turn.program
    if program.disabled:
        skip(turn, run, DISABLED)
    elif has_capacity(turn, run):
        if turn.held_back is not STOPPING:
            start(turn, run)
    elif program.overlap == "skip" and not run.queued and not _waits_for_backfill(turn):
        skip(turn, run, OVERLAP)
    elif program.overlap == "cancel_running" and not (
        run.queued or turn.has_backlog() or turn.is_backfilling()
    ):
        while not has_capacity(turn, run):
            cancel(turn, turn.live()[0], OVERLAP)
        start_queued(turn)  # who waits for that end goes first
    elif turn.count_queued() > program.queue_limit:
        skip(turn, run, QUEUE_FULL)


def start(turn: TurnState, run: Open) -> None:
    """Starts the execution with the current definition."""
    late = turn.now.wall - run.planned_at > LATE_AFTER
    turn.record_firing(run, LATE if late else FIRED)
    last = len(turn.program.steps) - 1
    from_step = min(run.from_step, len(run.replayed), last)
    running = replace(
        run,
        from_step=from_step,
        state=PROCESSING,
        revision=turn.head.revision,
        qos=turn.program.qos,
        started_at=turn.moment_in(run),
    )
    begin(turn, running, from_step, _kept(run.replayed[:from_step]) if from_step else ())


def start_late(turn: TurnState, run: Open) -> None:
    """Starts an execution anew of which nothing was sent: now, under the numbers that it has."""
    if turn.now.wall - run.planned_at > LATE_AFTER:
        turn.record_firing(run, LATE)
    running = turn.put(replace(run, started_at=turn.moment_in(run), holder=turn.holder))
    responses = _kept(run.replayed[: run.from_step])
    turn.contexts[run.execute_number] = fresh_context(turn, running, run.from_step, responses)
    began = AttemptStarted(run.execute_number, run.request_counts, turn.moment_in(running), NOTHING_SENT)
    turn.records.append(began)
    call_step(turn, running, run.from_step)


def _kept(replayed: tuple[bytes, ...]) -> tuple[Kept, ...]:
    """The responses with which a replay begins."""
    return tuple(Kept(200, "", body) for body in replayed)


def skip(turn: TurnState, run: Open, reason: str) -> None:
    """Ends the execution without running it; it keeps its number."""
    turn.record_firing(run, FiringOutcome.SKIPPED, reason)
    turn.close(run, SKIPPED, reason=reason)


def drop(turn: TurnState, run: Open, reason: str, *, silent: bool = False) -> None:
    """Cancels an execution, waiting or running. `silent`: without a notification."""
    if run.state in WAITING:
        turn.record_firing(run, FiringOutcome.SKIPPED, reason)
    cancel(turn, run, reason, silent=silent)


def start_queued(turn: TurnState) -> None:
    """Starts queued executions in order while there is capacity; a disabled job skips them.

    A process that stops leaves them to the next one.
    """
    while turn.held_back is not STOPPING and (first := turn.first_queued()) is not None:
        if turn.program.disabled:
            skip(turn, first, DISABLED)
        elif has_capacity(turn, first):
            start(turn, first)
        else:
            return


def has_capacity(turn: TurnState, run: Open) -> bool:
    """Whether `run` may start now, beside those that run."""
    program = turn.program
    if program.overlap == "allow" and not _keeps_in_line(turn, run):
        most = program.surroundings.open_executions
        return len(turn.opens) <= most or turn.count_live() < most  # a long line is no reason to stand still
    return turn.count_live() < program.max_concurrency


def _waits_for_backfill(turn: TurnState) -> bool:
    """Whether the execution that was queued last waits for a backfill alone."""
    return turn.is_backfilling() and turn.count_queued() == 1


def _keeps_in_line(turn: TurnState, run: Open) -> bool:
    """Whether `run` waits in line under `allow`: as a part of a backlog, or as a firing behind one."""
    if run.triggered_by is BACKFILL:
        return True
    if run.triggered_by is not TIMER or turn.program.timer.kind is ONE_TIME:
        return False
    return run.queued or turn.has_backlog()


def new_execution(
    turn: TurnState,
    triggered_by: TriggeredBy,
    planned_at: int,
    *,
    params: bytes = b"{}",
    queued: bool = False,
    held: bool = False,
    trace: str = "",
) -> Open:
    """A new execution with the next `executeNumber`, not yet in the document."""
    number = turn.head.execute_number + 1
    turn.change_head(execute_number=number)
    return Open(
        execute_number=number,
        state=SCHEDULED,
        triggered_by=triggered_by,
        planned_at=planned_at,
        created_at=turn.now.wall,
        params=params,
        queued=queued,
        held=held,
        trace=trace,
    )
