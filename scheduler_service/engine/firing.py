"""The timer of a job: due firings become executions, missed ones are recorded (SPEC section 3)."""

from collections.abc import Sequence

from scheduler_service.domain.document import Counting, Head
from scheduler_service.domain.effects import CountMissed
from scheduler_service.domain.execution import FiringOutcome, TriggeredBy
from scheduler_service.domain.moments import DAY, SECOND
from scheduler_service.domain.records import FiringRecord
from scheduler_service.domain.replies import Refusal, RefusalCode, Reply, Taken, Unchanged
from scheduler_service.domain.turn_events import BEGINNING, Event, MissedCounted
from scheduler_service.engine.admission import DISABLED, line_up, new_execution, submit
from scheduler_service.engine.decision import Job
from scheduler_service.engine.turn_state import LATE_AFTER, TurnState, replace
from scheduler_service.timing.durations import mean_length
from scheduler_service.timing.misfire import DueFirings, MissedRun, plan
from scheduler_service.timing.schedule import COUNT_MAX, Firing, advance, over, upcoming
from scheduler_service.timing.timer import RECURRING, Timer, TimerKind

MISFIRE, DEBUG = "misfire", "debug"
TIMER, ONE_TIME = TriggeredBy.TIMER, TimerKind.ONE_TIME  # a lookup in an enum costs 0.3 µs
COUNT_AGAIN_MS = 10_000
MOST_FIRINGS, SHORT_FIRINGS = 1_000, 100
"""Late firings that one turn takes, of `fire_all` and of the other policies; for the rest the alarm rings at
once. Those that `fire_all` finds together are queued together."""


def fire_due(turn: TurnState) -> None:
    """Fires what the timer owes by now: records the missed run, then starts caught up and late firings."""
    program = turn.program
    if program.timer.from_end:
        count_from_end(turn)
    head = turn.head
    if not head.active or head.next_fire is None or head.next_fire - program.lead > turn.now.wall:
        return
    if turn.held_back is not None and turn.is_held_back():
        return  # it stays due, and the misfire policy decides what becomes of it when there is room
    in_order = program.timer.misfire_policy == "fire_all"
    most = MOST_FIRINGS if in_order else SHORT_FIRINGS
    room = COUNT_MAX if turn.held_back is None else turn.may_begin(COUNT_MAX)
    due = plan(
        program.timer, head.cursor, head.uid, now=turn.now.wall, lead=program.lead, most=most, room=room
    )
    if due.cursor is head.cursor and not program.timer.trouble:
        _fire_as_planned(turn, head.next_fire)  # as the timer was read before: see `replan`
        plan_next(turn)
        return
    turn.change_head(cursor=due.cursor, next_fire=_moment_of(due.following))
    if due.missed is not None:
        record_missed(turn, due.missed, DISABLED if program.disabled else MISFIRE)
    for firing in due.caught_up:
        fire(turn, firing, queued=in_order)
    in_order = in_order and _is_found_late(turn, due)
    for firing in due.late:
        fire(turn, firing, queued=in_order and firing.planned_at <= turn.now.wall)


def count_from_end(turn: TurnState) -> None:
    """Plans the next firing of a fixed delay: after the latest end, and none while an execution runs.

    A firing that started none, as one of a disabled job, counts as ended when that was found.
    """
    cursor, runs = turn.head.cursor, bool(turn.live())
    ended = cursor.ended if turn.last_ended is None else turn.moment_in(turn.last_ended)
    if not runs and ended is None and (cursor.runs or cursor.last is not None):
        ended = turn.now.wall
    counted = replace(cursor, ended=ended, runs=runs)
    if counted != cursor:
        turn.change_head(cursor=counted)
        plan_next(turn)


def fires_many(job: Job, now: int) -> bool:
    """Whether the timer may owe more than `SHORT_FIRINGS` that one turn takes, by `now` (wall ms)."""
    head = job.document.head if job.document is not None else None
    if head is None or head.next_fire is None or not head.active:
        return False
    timer = job.programs[head.revision].timer
    if timer.misfire_policy != "fire_all":
        return False
    shortest = SECOND if timer.period is None else mean_length(timer.period) or DAY
    return now - head.next_fire > SHORT_FIRINGS * shortest


def catches_up_many(timer: Timer, policy: str) -> bool:
    """Whether `policy` may catch up more than `SHORT_FIRINGS` of a pause."""
    return policy == "fire_all" and timer.misfire_limit > SHORT_FIRINGS


def fire(turn: TurnState, firing: Firing, *, queued: bool = False) -> None:
    """Starts the execution of a planned firing, unless the job is disabled or a debug switch holds it."""
    around, held = turn.program.surroundings, False
    if turn.program.disabled:
        _record_skipped(turn, DISABLED, firing.planned_at)
        return
    if turn.program.timer.kind not in RECURRING:
        held = around.hold_triggered
    elif around.hold_recurring and not turn.program.system:
        _record_skipped(turn, DEBUG, firing.planned_at)
        return
    if turn.program.timer.kind is ONE_TIME and _outlives_an_update(turn):
        line_up(turn, new_execution(turn, TIMER, firing.planned_at, queued=True, held=held))
        return
    submit(turn, new_execution(turn, TIMER, firing.planned_at, queued=queued, held=held))


def fire_or_put_off(turn: TurnState, firings: Sequence[Firing], *, queued: bool) -> None:
    """Starts those that may begin; the rest stays due, as delayed triggers do, until there is room.

    They are of a recurring timer. Where none begins, since the job is disabled or a debug switch holds it, no
    limit counts.
    """
    program = turn.program
    if program.disabled or (program.surroundings.hold_recurring and not program.system):
        for firing in firings:
            fire(turn, firing, queued=queued)
        return
    most = turn.may_begin(len(firings))
    for firing in firings[:most]:
        fire(turn, firing, queued=queued)
    turn.spend(most)
    for firing in firings[most:]:
        turn.put(new_execution(turn, TIMER, firing.planned_at, queued=queued))


def plan_next(turn: TurnState) -> None:
    """Computes the next planned firing after the cursor."""
    following = upcoming(turn.program.timer, turn.head.cursor, turn.head.uid)
    rule = turn.program.timer.rule
    turn.change_head(next_fire=_moment_of(following), calendar=0 if rule is None else rule.version)


def follow_calendar(turn: TurnState, event: Event) -> None:
    """Plans anew where the timer's calendar is not at the version by which the next firing was planned.

    What is planned for a moment before the change stays so: it waits for a turn with which executions
    begin, and for room where the tenant has a limit. From it on the days count as they are now, also
    for moments that have passed since; earlier ones were planned by nobody.
    """
    rule, head = turn.program.timer.rule, turn.head
    if rule is None or rule.version == head.calendar:
        return
    since = turn.now.wall if rule.calendar is None else min(rule.calendar.changed_at, turn.now.wall)
    if head.active and head.next_fire is not None and head.next_fire < since:
        if turn.is_held_back() or not isinstance(event, BEGINNING):
            return
        _fire_as_planned(turn, head.next_fire)
    if head.active:
        cursor = turn.head.cursor
        last = over(turn.program.timer, cursor, head.uid, since)
        turn.change_head(cursor=replace(cursor, last=max(cursor.last or 0, last)))
    plan_next(turn)


def _fire_as_planned(turn: TurnState, moment: int) -> None:
    """Fires what was planned for this moment, whatever the timer says now."""
    timer, firing = turn.program.timer, Firing(moment, moment)
    turn.change_head(cursor=advance(turn.head.cursor, firing))
    if timer.misfire_policy == "skip" and turn.now.wall - moment > timer.misfire_grace:
        _record_skipped(turn, MISFIRE, moment)
        return
    fire(turn, firing)
    turn.spend(1)


def replan(turn: TurnState, calendar: int = 0) -> Reply:
    """Computes the next firing anew, where the timer is not what it was when that was computed.

    Firings that are owed already stay so. Where none is, moments of a recurring timer that have passed were
    planned by nobody: the one that was planned instead still fires, and then it goes on from there.
    """
    head, timer, now = turn.head, turn.program.timer, turn.now.wall
    if timer.rule is not None and timer.rule.version < calendar:
        return Refusal(RefusalCode.CONFLICT, f"calendar {timer.rule.name!r} is not at {calendar} here yet")
    if not head.active:
        return Unchanged()
    if timer.rule is not None and timer.rule.version != head.calendar:
        return Taken()  # what is owed by the version before has to wait: see `follow_calendar`
    if head.next_fire is not None and head.next_fire > now and timer.kind in RECURRING:
        following = upcoming(timer, head.cursor, head.uid)
        if is_left_as_planned(head):
            return Taken()  # by an earlier review, which another one may follow at each start
        if following is not None and following.planned_at <= now:
            turn.change_head(cursor=replace(head.cursor, last=head.next_fire - 1))
            return Taken()
    plan_next(turn)
    fire_due(turn)
    return Taken()


def is_left_as_planned(head: Head) -> bool:
    """Whether `replan` has left the next firing as it was: no moment before it counts, nor has one fired."""
    return head.next_fire is not None and head.cursor.last == head.next_fire - 1


def record_missed(turn: TurnState, missed: MissedRun, reason: str) -> None:
    """Records a run of missed firings in the ledger; its count may follow later."""
    _record_skipped(turn, reason, missed.first, missed.last, missed.count)
    if missed.count is not None:
        turn.change_head(missed=turn.head.missed + missed.count)
        return
    counting = Counting(missed.first, missed.last, turn.head.revision, reason, 0)
    turn.change_head(counting=(*turn.head.counting, _request_count(turn, counting)))


def repeat_counts(turn: TurnState) -> None:
    """Requests again the counts that did not arrive in time, or before the clock was set back."""
    awaited = range(turn.now.steady + 1, turn.now.steady + COUNT_AGAIN_MS + 1)
    if any(counting.due not in awaited for counting in turn.head.counting):
        renewed = tuple(
            one if one.due in awaited else _request_count(turn, one) for one in turn.head.counting
        )
        turn.change_head(counting=renewed)


def handle_count(turn: TurnState, event: MissedCounted) -> Reply:
    """Takes the count of a run of missed firings."""
    known = next((one for one in turn.head.counting if one.first == event.planned_at), None)
    if known is None:
        return Unchanged()
    _record_skipped(turn, known.reason, known.first, known.last, event.count)
    left = tuple(one for one in turn.head.counting if one is not known)
    turn.change_head(counting=left, missed=turn.head.missed + event.count)
    return Taken()


def _is_found_late(turn: TurnState, due: DueFirings) -> bool:
    """Whether the first firing that is due was found late, and so all that were found with it."""
    if due.missed is not None or due.caught_up:
        return True
    return bool(due.late) and turn.now.wall - due.late[0].planned_at > LATE_AFTER


def _outlives_an_update(turn: TurnState) -> bool:
    """Whether an execution runs that started with an earlier definition."""
    return any(run.revision != turn.head.revision for run in turn.live())


def _moment_of(firing: Firing | None) -> int | None:
    return None if firing is None else firing.planned_at


def _record_skipped(
    turn: TurnState, reason: str, planned_at: int, until: int | None = None, count: int | None = 1
) -> None:
    skipped = FiringOutcome.SKIPPED
    turn.records.append(FiringRecord(planned_at, skipped, until=until, count=count, reason=reason))


def _request_count(turn: TurnState, counting: Counting) -> Counting:
    """Asks the host to count; `due` is when to ask again."""
    turn.effects.append(CountMissed(counting.first, counting.last, counting.revision))
    return replace(counting, due=turn.now.steady + COUNT_AGAIN_MS)
