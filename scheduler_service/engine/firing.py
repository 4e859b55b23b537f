"""What the timer brings: due firings become executions, missed ones are accounted for (SPEC section 3)."""

from scheduler_service.domain.document import Counting
from scheduler_service.domain.effects import CountMissed
from scheduler_service.domain.events import MissedCounted
from scheduler_service.domain.execution import FiringOutcome, TriggeredBy
from scheduler_service.domain.records import FiringRecord
from scheduler_service.domain.replies import Reply, Taken, Unchanged
from scheduler_service.engine.admission import enrol, new_execution
from scheduler_service.engine.turn_state import TurnState
from scheduler_service.timing.firings import Firing, upcoming
from scheduler_service.timing.misfire import Run, plan
from scheduler_service.timing.timer import TimerKind

MISFIRE, DEBUG = "misfire", "debug"
ASK_AGAIN = 10_000


def fire_due(draft: TurnState) -> None:
    """Everything of the timer that is due by now: one run of missed ones, the caught up, the late."""
    program, head = draft.program, draft.head
    if not head.active or head.next_fire is None or head.next_fire - program.lead > draft.now.wall:
        return
    due = plan(program.timer, head.cursor, head.uid, now=draft.now.wall, lead=program.lead)
    draft.change(cursor=due.cursor, next_fire=_moment_of(due.following))
    if due.missed is not None:
        account_run(draft, due.missed, MISFIRE)
    for firing in due.caught_up:
        fire(draft, firing, queued=program.timer.misfire_policy == "fire_all")
    for firing in due.late:
        fire(draft, firing)


def fire(draft: TurnState, firing: Firing, *, queued: bool = False) -> None:
    """One planned firing becomes an execution, unless a debug switch holds timers that recur."""
    recurs = draft.program.timer.kind is not TimerKind.ONE_TIME
    if recurs and draft.program.surroundings.hold_recurring:
        record = FiringRecord(planned_at=firing.planned_at, outcome=FiringOutcome.SKIPPED, reason=DEBUG)
        draft.records.append(record)
        return
    enrol(draft, new_execution(draft, TriggeredBy.TIMER, firing.planned_at, queued=queued))


def look_ahead(draft: TurnState) -> None:
    """Computes the next planned firing after the cursor."""
    following = upcoming(draft.program.timer, draft.head.cursor, draft.head.uid)
    draft.change(next_fire=_moment_of(following))


def _moment_of(firing: Firing | None) -> int | None:
    return None if firing is None else firing.planned_at


def account_run(draft: TurnState, run: Run, reason: str) -> None:
    """Writes a run of firings that never were into the ledger; its length may follow later."""
    draft.records.append(
        FiringRecord(
            planned_at=run.first,
            until=run.last,
            count=run.count,
            outcome=FiringOutcome.SKIPPED,
            reason=reason,
        )
    )
    if run.count is not None:
        draft.change(missed=draft.head.missed + run.count)
        return
    due = draft.now.steady + ASK_AGAIN
    counting = Counting(run.first, run.last, draft.head.revision, reason, due)
    draft.change(counting=(*draft.head.counting, counting))
    draft.effects.append(CountMissed(run.first, run.last, draft.head.revision))


def ask_again(draft: TurnState) -> None:
    """Asks once more for counts that did not come."""
    if not draft.head.counting:
        return
    if not any(counting.due <= draft.now.steady for counting in draft.head.counting):
        return
    renewed = []
    for counting in draft.head.counting:
        if counting.due <= draft.now.steady:
            draft.effects.append(CountMissed(counting.first, counting.last, counting.revision))
            due = draft.now.steady + ASK_AGAIN
            renewed.append(Counting(counting.first, counting.last, counting.revision, counting.reason, due))
        else:
            renewed.append(counting)
    draft.change(counting=tuple(renewed))


def take_count(draft: TurnState, event: MissedCounted) -> Reply:
    """The length of a run of missed firings is known."""
    known = next((one for one in draft.head.counting if one.first == event.planned_at), None)
    if known is None:
        return Unchanged()
    draft.records.append(
        FiringRecord(
            planned_at=known.first,
            until=known.last,
            count=event.count,
            outcome=FiringOutcome.SKIPPED,
            reason=known.reason,
        )
    )
    left = tuple(one for one in draft.head.counting if one is not known)
    draft.change(counting=left, missed=draft.head.missed + event.count)
    return Taken()
