"""What the timer brings: due firings become executions, missed ones are accounted for (SPEC section 3)."""

from scheduler_service.domain.document import Counting
from scheduler_service.domain.effects import CountMissed
from scheduler_service.domain.events import MissedCounted
from scheduler_service.domain.execution import FiringOutcome, TriggeredBy
from scheduler_service.domain.records import FiringRecord
from scheduler_service.domain.replies import Reply, Taken, Unchanged
from scheduler_service.engine.admission import new_execution, submit
from scheduler_service.engine.turn_state import TurnState
from scheduler_service.timing.firings import Firing, upcoming
from scheduler_service.timing.misfire import Run, plan
from scheduler_service.timing.timer import TimerKind

MISFIRE, DEBUG = "misfire", "debug"
ASK_AGAIN = 10_000


def fire_due(turn: TurnState) -> None:
    """Everything of the timer that is due by now: one run of missed ones, the caught up, the late."""
    program, head = turn.program, turn.head
    if not head.active or head.next_fire is None or head.next_fire - program.lead > turn.now.wall:
        return
    due = plan(program.timer, head.cursor, head.uid, now=turn.now.wall, lead=program.lead)
    turn.change_head(cursor=due.cursor, next_fire=_moment_of(due.following))
    if due.missed is not None:
        record_missed(turn, due.missed, MISFIRE)
    for firing in due.caught_up:
        fire(turn, firing, queued=program.timer.misfire_policy == "fire_all")
    for firing in due.late:
        fire(turn, firing)


def fire(turn: TurnState, firing: Firing, *, queued: bool = False) -> None:
    """One planned firing becomes an execution, unless a debug switch holds timers that recur."""
    recurs = turn.program.timer.kind is not TimerKind.ONE_TIME
    if recurs and turn.program.surroundings.hold_recurring:
        record = FiringRecord(planned_at=firing.planned_at, outcome=FiringOutcome.SKIPPED, reason=DEBUG)
        turn.records.append(record)
        return
    submit(turn, new_execution(turn, TriggeredBy.TIMER, firing.planned_at, queued=queued))


def plan_next(turn: TurnState) -> None:
    """Computes the next planned firing after the cursor."""
    following = upcoming(turn.program.timer, turn.head.cursor, turn.head.uid)
    turn.change_head(next_fire=_moment_of(following))


def _moment_of(firing: Firing | None) -> int | None:
    return None if firing is None else firing.planned_at


def record_missed(turn: TurnState, run: Run, reason: str) -> None:
    """Writes a run of firings that never were into the ledger; its length may follow later."""
    turn.records.append(
        FiringRecord(
            planned_at=run.first,
            until=run.last,
            count=run.count,
            outcome=FiringOutcome.SKIPPED,
            reason=reason,
        )
    )
    if run.count is not None:
        turn.change_head(missed=turn.head.missed + run.count)
        return
    due = turn.now.steady + ASK_AGAIN
    counting = Counting(run.first, run.last, turn.head.revision, reason, due)
    turn.change_head(counting=(*turn.head.counting, counting))
    turn.effects.append(CountMissed(run.first, run.last, turn.head.revision))


def repeat_counts(turn: TurnState) -> None:
    """Asks once more for counts that did not come."""
    if not turn.head.counting:
        return
    if not any(counting.due <= turn.now.steady for counting in turn.head.counting):
        return
    renewed = []
    for counting in turn.head.counting:
        if counting.due <= turn.now.steady:
            turn.effects.append(CountMissed(counting.first, counting.last, counting.revision))
            due = turn.now.steady + ASK_AGAIN
            renewed.append(Counting(counting.first, counting.last, counting.revision, counting.reason, due))
        else:
            renewed.append(counting)
    turn.change_head(counting=tuple(renewed))


def handle_count(turn: TurnState, event: MissedCounted) -> Reply:
    """The length of a run of missed firings is known."""
    known = next((one for one in turn.head.counting if one.first == event.planned_at), None)
    if known is None:
        return Unchanged()
    turn.records.append(
        FiringRecord(
            planned_at=known.first,
            until=known.last,
            count=event.count,
            outcome=FiringOutcome.SKIPPED,
            reason=known.reason,
        )
    )
    left = tuple(one for one in turn.head.counting if one is not known)
    turn.change_head(counting=left, missed=turn.head.missed + event.count)
    return Taken()
