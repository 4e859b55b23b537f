"""Triggers: what one may bring, and when it is taken."""

from collections.abc import Iterable

from scheduler_service.domain.document import Open
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.execution import PLANNED, ExecutionState, TriggeredBy
from scheduler_service.domain.job_key import is_trial
from scheduler_service.domain.moments import HOUR, MINUTE, SECOND
from scheduler_service.domain.records import REPLAY, write_replayed
from scheduler_service.domain.replies import Refusal, RefusalCode, Reply, Started, StartedMany
from scheduler_service.domain.turn_events import Backfilled, Triggered
from scheduler_service.engine.admission import line_up, new_execution, submit
from scheduler_service.engine.decision import STOPPING
from scheduler_service.engine.turn_state import TurnState, replace
from scheduler_service.language.json_values import parse_json
from scheduler_service.timing.timer import RECURRING

AGAIN_MS, MOST_MS = MINUTE, HOUR
"""When to ask again for room that may come at any time, and at the latest: what waits may be cancelled."""


def trigger(turn: TurnState, event: Triggered) -> Reply:
    """Starts an execution, or puts it off until its moment.

    Refuses one of a disabled job, and one for which there is no room.
    """
    more = _brought(event.params, event.replay.responses if event.replay else ())
    refusal = _refuse(turn, event.params, more, below="/params" if event.replay else "")
    if refusal is not None:
        return refusal
    around = turn.program.surroundings
    later = event.planned_at is not None and event.planned_at > turn.now.wall
    if not later and (refusal := _refuse_held_back(turn)) is not None:
        return refusal
    scheduled = (run for run in turn.opens.values() if run.state is ExecutionState.SCHEDULED)
    delayed = [run for run in scheduled if run.triggered_by not in PLANNED]
    pending = len(delayed)
    if later and pending >= around.pending_triggers:
        return Refusal(
            RefusalCode.LIMIT,
            f"{pending} delayed triggers of this job are pending; limits.pending_triggers allows no more",
            retry_after=_when_one_is_over(turn, delayed),
        )
    run = new_execution(
        turn,
        _trigger_of(turn, event),
        turn.now.wall if event.planned_at is None else event.planned_at,
        params=event.params,
        held=around.hold_triggered and turn.program.timer.kind not in RECURRING,
        trace=event.trace,
    )
    if event.replay is not None:
        run = replace(run, from_step=event.replay.from_step, replayed=event.replay.responses)
        if event.replay.execution_id:
            turn.note(run, REPLAY, write_replayed(event.replay.execution_id, event.replay.from_step))
    if not later:
        return submit(turn, run)
    turn.put(run)
    return Started(run.execute_number, run.state, turn.head.uid)


def backfill(turn: TurnState, event: Backfilled) -> Reply:
    """Puts an execution of each moment behind all that waits; refuses them all, or none.

    Those that a limit of the tenant lets not begin now stay due. Refuses as `trigger`, and while more than
    `pending_triggers` would wait.
    """
    most = turn.program.surroundings.pending_triggers
    waiting = sum(run.triggered_by is TriggeredBy.BACKFILL for run in turn.opens.values())
    if waiting + len(event.moments) > most:
        return Refusal(
            RefusalCode.LIMIT,
            f"{waiting} moments of an earlier backfill of this job wait, and with these {len(event.moments)} "
            f"they are more than the {most} of limits.pending_triggers; wait for some to end",
            retry_after=_when_one_is_over(turn, turn.opens.values()) if len(event.moments) <= most else 0,
        )
    more = _brought(event.params, ()) * len(event.moments)
    refusal = _refuse(turn, event.params, more, below="/params")
    if refusal is not None:
        return refusal
    first, most = turn.head.execute_number + 1, turn.may_begin(len(event.moments))
    for place, moment in enumerate(event.moments):
        by, params = TriggeredBy.BACKFILL, event.params
        run = new_execution(turn, by, moment, params=params, queued=True, trace=event.trace)
        if place < most:
            line_up(turn, run)
        else:
            turn.put(run)
    return StartedMany(first, event.moments, turn.head.uid)


def submit_due_triggers(turn: TurnState) -> None:
    """Takes the delayed triggers that are due, and what had to wait, as many as may begin; one whose
    parameters have no room now stays due.
    """
    due = _due_triggers(turn)
    may_begin = due[: turn.may_begin(len(due))]
    for run in may_begin:
        if not turn.lacks_room(_brought(run.params, run.replayed)):
            if run.triggered_by is TriggeredBy.BACKFILL:
                line_up(turn, run)
            else:
                submit(turn, run)
    turn.spend(len(may_begin))


def _refuse(turn: TurnState, params: bytes, more: int, *, below: str) -> Refusal | None:
    """Why executions with these parameters, `more` bytes in all, are not taken; `below`: where they stand."""
    if turn.program.disabled:
        text = f"the job {turn.program.job_id!r} is disabled: nothing of it runs; enable it first"
        return Refusal(RefusalCode.DISABLED, text, "/jobId")
    most = turn.program.surroundings.params_bytes
    taken = sum(_brought(run.params, run.replayed) for run in turn.opens.values())
    if taken and taken + more > most:
        return Refusal(
            RefusalCode.LIMIT,
            f"the parameters of this job's open executions take {taken:,} bytes, and with these more than "
            f"{most:,}; wait for some to end, or send a reference instead of the data",
            retry_after=_when_one_is_over(turn, turn.opens.values()),
        )
    if turn.lacks_room(more):
        return Refusal(
            RefusalCode.LIMIT,
            f"there is no room for {more:,} bytes of parameters: what open executions keep would take more "
            "than limits.open_bytes; wait for some to end, or send a reference instead of the data",
            retry_after=_when_one_is_over(turn, ()),
        )
    flaws = _check_params(turn, params)
    return Refusal(RefusalCode.INVALID, flaws[0].message, below + flaws[0].pointer) if flaws else None


def _when_one_is_over(turn: TurnState, runs: Iterable[Open]) -> int:
    """In how many ms one of these may be over: what waits for its moment not before, others at any time."""
    waits = [
        run.planned_at - turn.now.wall if run.state is ExecutionState.SCHEDULED else AGAIN_MS for run in runs
    ]
    return min(max(min(waits, default=AGAIN_MS), SECOND), MOST_MS)


def _refuse_held_back(turn: TurnState) -> Refusal | None:
    reached = turn.held_back
    if reached is None or reached is STOPPING or not turn.is_held_back():
        return None
    return Refusal(
        RefusalCode.LIMIT,
        f"the tenant {turn.program.surroundings.tenant!r} may begin {reached.value:,} executions within a "
        f"minute (limits.{reached.name}), and none is left now; ask again later",
        limit=reached,
    )


def _due_triggers(turn: TurnState) -> list[Open]:
    """The delayed triggers that are due, in the order of their moments, those of a backfill last."""
    scheduled = (run for run in turn.opens.values() if run.state is ExecutionState.SCHEDULED)
    return sorted(
        (run for run in scheduled if run.planned_at <= turn.now.wall),
        key=lambda run: (run.triggered_by is TriggeredBy.BACKFILL, run.planned_at),
    )


def _trigger_of(turn: TurnState, event: Triggered) -> TriggeredBy:
    program = turn.program
    if event.replay:
        return TriggeredBy.REPLAY
    return TriggeredBy.TRIAL if is_trial(program.job_id, program.parent_job) else TriggeredBy.MANUAL


def _brought(params: bytes, replayed: tuple[bytes, ...]) -> int:
    """Bytes of what a trigger, or a replay with its responses, leaves in the job's state."""
    return (len(params) if params != b"{}" else 0) + sum(map(len, replayed))


def _check_params(turn: TurnState, params: bytes) -> list[Problem]:
    schema = turn.program.params_schema
    if schema is None:
        return []
    from scheduler_service.engine.params_schema import check_parameters  # a twentieth of a start's imports

    return check_parameters(schema, parse_json(params))
