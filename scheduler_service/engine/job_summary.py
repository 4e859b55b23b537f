"""What follows from the state of a job alone: when it is due, and its summary for readers."""

import msgspec

from scheduler_service.domain.document import (
    Calling,
    CheckWaiting,
    Context,
    Document,
    Head,
    Latest,
    PartsQueued,
    Retrying,
)
from scheduler_service.domain.execution import LIVE, ExecutionState, JobState
from scheduler_service.domain.moments import Due
from scheduler_service.engine.decision import Job
from scheduler_service.timing.timer import Timer

NEVER = 1 << 62
SCHEDULED, ENQUEUED = ExecutionState.SCHEDULED, ExecutionState.ENQUEUED  # a lookup costs ten times as much
ACTIVE, PAUSED, FINISHED = JobState.ACTIVE, JobState.PAUSED, JobState.FINISHED


class Summary(msgspec.Struct, frozen=True, gc=False):
    """A job as readers see it (SPEC section 10, shape of a job). Times are wall ms.

    `next_fire` None: no firing is planned that will be executed.
    """

    state: JobState
    kind: str
    revision: int
    next_fire: int | None
    execute_number: int
    request_counts: int
    missed: int
    latest: Latest | None
    created_at: int
    updated_at: int
    live: int
    waiting: int


def due(job: Job) -> Due:
    """When the job is next due, per clock; None: nothing waits on that clock.

    One that is queued while nothing runs, as a process that stopped has left it, is due.
    """
    document = job.document
    if document is None:
        return Due()
    head = document.head
    wall = steady = NEVER
    if head.active and head.next_fire is not None:
        wall = head.next_fire - job.programs[head.revision].lead
    queued, runs = wall, False
    for run in head.opens:
        if run.state is SCHEDULED:
            if run.planned_at < wall:
                wall = run.planned_at
        elif run.state is not ENQUEUED:
            runs = True
        elif run.planned_at < queued and not run.held:
            queued = run.planned_at
    if queued < wall and not runs:
        wall = queued
    for context in document.contexts.values():
        moment = _due_of(context)
        if moment < steady:
            steady = moment
    for counting in head.counting:
        steady = min(steady, counting.due)
    return Due(None if wall == NEVER else wall, None if steady == NEVER else steady)


def count_begun(before: Document | None, after: Document) -> int:
    """How many executions a turn began, skipped ones too; a delayed trigger begins when it is due."""
    if before is None:
        return len(after.head.opens)
    if before.head.uid != after.head.uid or before is after:
        return 0
    more = after.head.execute_number - before.head.execute_number
    return max(more + _count_delayed(before.head) - _count_delayed(after.head), 0)


def _count_delayed(head: Head) -> int:
    return sum(run.state is SCHEDULED for run in head.opens) if head.opens else 0


def summarize(job: Job) -> Summary:
    """The summary of a job that exists."""
    document = job.document
    if document is None:
        raise AssertionError("a job that does not exist has no summary")
    head = document.head
    program = job.programs[head.revision]
    timer = program.timer
    live = 0
    for run in head.opens:  # a loop: an expression over all of them is a call, in every turn
        live += run.state in LIVE
    return Summary(  # by position
        _state(head, timer),
        timer.kind,
        head.revision,
        head.next_fire if head.active and not program.disabled else None,
        head.execute_number,
        head.request_counts,
        head.missed,
        head.latest,
        head.created_at,
        head.updated_at,
        live,
        len(head.opens) - live,
    )


def find_state(job: Job, uid: str, execute_number: int) -> ExecutionState | None:
    """The state of an execution that has not ended, or of the newest one; None: the job does not have it."""
    head = None if job.document is None else job.document.head
    if head is None or head.uid != uid:
        return None
    known = [run for run in (*head.opens, head.latest) if run and run.execute_number == execute_number]
    return known[0].state if known else None


class Queued(msgspec.Struct, frozen=True, gc=False):
    """How many parts of step `step` are in `queue`: not claimed, or no more; claimed; ended."""

    step: int
    queue: str
    unclaimed: int
    claimed: int
    ended: int


def find_queued_parts(job: Job, uid: str, execute_number: int) -> Queued | None:
    """What an execution waits for in a queue; None: it does not, or the job does not have it."""
    document = job.document
    if document is None or document.head.uid != uid:
        return None
    context = document.contexts.get(execute_number)
    phase = None if context is None else context.phase
    if not isinstance(phase, PartsQueued):
        return None
    ended = sum(end is not None for end in phase.ends)
    claimed = sum(
        bool(holder) and end is None for holder, end in zip(phase.holders, phase.ends, strict=False)
    )
    return Queued(phase.step, phase.queue, len(phase.ends) - ended - claimed, claimed, ended)


def revisions(document: Document) -> frozenset[int]:
    """The revisions whose programs a turn needs for this document."""
    head = document.head
    started = {run.revision for run in head.opens if run.revision}
    return frozenset({head.revision} | started | {counting.revision for counting in head.counting})


def _due_of(context: Context) -> int:
    phase = context.phase
    if type(phase) is Calling:  # mostly
        return context.deadline
    match phase:
        case Retrying(due=moment):
            return moment
        case CheckWaiting(due=moment):
            return min(moment, context.deadline)
        case _:
            return context.deadline


def _state(head: Head, timer: Timer) -> JobState:
    if not head.active:
        return PAUSED
    if timer.kind == "external" or head.next_fire is not None or head.opens:
        return ACTIVE
    # One that cannot be computed now may have moments again; a single one that has passed will not.
    is_spent = head.cursor.last is not None and timer.kind == "one_time"
    return ACTIVE if timer.trouble and not is_spent else FINISHED
