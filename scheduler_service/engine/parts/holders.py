"""Who holds the parts of a `queue://` step: claims, lost leases, and when the attempt's limit begins."""

from typing import TypeVar

from scheduler_service.domain.document import Open, PartsQueued
from scheduler_service.domain.effects import AcceptChanges
from scheduler_service.domain.leases import CLAIMED, DOWNTIME_GRACE_MS, LOST, WITHDRAWN
from scheduler_service.domain.records import LeaseChanged
from scheduler_service.domain.replies import Reply, Taken, Unchanged
from scheduler_service.domain.step_parts import LeaseChange, PartName, QueueOptions
from scheduler_service.domain.turn_events import LeasesChanged
from scheduler_service.engine.parts.dispatch import latest_end, queue_timeout_of
from scheduler_service.engine.turn_state import TurnState, replace

Value = TypeVar("Value")


def handle_lease_changes(turn: TurnState, event: LeasesChanged) -> Reply:
    """Takes claims and lost leases of a part, each once, and tells the queue so in the same transaction."""
    awaited = find_queued(turn, event.name)
    if awaited is None or not event.changes:
        return Unchanged()
    take_changes(turn, *awaited, event.name.index, event.changes)
    turn.effects.append(AcceptChanges(event.name, event.changes[-1].serial))
    return Taken()


def take_changes(
    turn: TurnState, run: Open, phase: PartsQueued, index: int, changes: tuple[LeaseChange, ...]
) -> PartsQueued:
    """The phase after the new ones of `changes`, which are recorded. The first claim starts the limit."""
    acknowledged = phase.acknowledged[index] if phase.acknowledged else 0
    fresh = [one for one in changes if one.serial > acknowledged]
    if not fresh:
        return phase
    for one in fresh:
        ago = turn.now.steady - one.at
        _record(turn, run, phase, index, one.instance, LOST if one.is_lost else CLAIMED, ago=ago)
    last, total = fresh[-1], len(phase.ends)
    phase = replace(
        phase,
        acknowledged=_put(phase.acknowledged or (0,) * total, index, last.serial),
        holders=_put(phase.holders or ("",) * total, index, "" if last.is_lost else last.instance),
    )
    # A moment that is still to come is from before the clock was set back.
    claims = [min(one.at, turn.now.steady) for one in fresh if not one.is_lost]
    if claims and (phase.claimed_at is None or claims[0] < phase.claimed_at):
        phase = replace(phase, claimed_at=claims[0])
        turn.change_context(run, phase=phase, deadline=_limit_of(turn, run, claims[0]))
    else:
        turn.change_context(run, phase=phase)
    return phase


def reconfigure_leases(turn: TurnState, run: Open, phase: PartsQueued, options: QueueOptions) -> None:
    """Follows an update: who is not named any more has lost its part, and what waits may wait anew."""
    for index, holder in enumerate(phase.holders):
        if holder and options.specific and holder not in options.specific and phase.ends[index] is None:
            _record(turn, run, phase, index, holder, WITHDRAWN)
            phase = replace(phase, holders=_put(phase.holders, index, ""))
    deadline = turn.contexts[run.execute_number].deadline
    if phase.claimed_at is None:
        deadline = max(deadline, latest_end(turn, run, options))
    turn.change_context(run, phase=phase, deadline=deadline)


def wait_on(turn: TurnState, run: Open, phase: PartsQueued) -> None:
    """Waits as long again for a claim: the queue ends what is not claimed, but for the time of its pauses."""
    patience = queue_timeout_of(turn, run, phase) + turn.program_of(run).timeout
    turn.change_context(run, deadline=turn.now.steady + patience)


def find_queued(turn: TurnState, name: PartName) -> tuple[Open, PartsQueued] | None:
    """The execution that waits for this part, with its phase."""
    run = turn.opens.get(name.execute_number)
    context = turn.contexts.get(name.execute_number)
    if run is None or context is None or name.uid != turn.head.uid:
        return None
    phase = context.phase
    if not isinstance(phase, PartsQueued) or not 0 <= name.index < len(phase.ends):
        return None
    is_same = (run.request_counts, phase.step) == (name.request_counts, name.step)
    return (run, phase) if is_same else None


def part_of(index: int, total: int) -> int | None:
    """The part's index in the history; None if it is the whole step."""
    return index if total > 1 else None


def _limit_of(turn: TurnState, run: Open, claimed_at: int) -> int:
    """The limit from the first claim, no less than SPEC section 8 grants after a downtime."""
    timeout = turn.program_of(run).timeout
    return max(claimed_at + timeout, turn.now.steady + min(timeout, DOWNTIME_GRACE_MS))


def _record(
    turn: TurnState, run: Open, phase: PartsQueued, index: int, instance: str, what: str, *, ago: int = 0
) -> None:
    turn.records.append(
        LeaseChanged(
            execute_number=run.execute_number,
            request_counts=run.request_counts,
            index=phase.step,
            at=turn.now.wall - max(ago, 0),
            instance=instance,
            what=what,
            part=part_of(index, len(phase.ends)),
        )
    )


def _put(values: tuple[Value, ...], index: int, value: Value) -> tuple[Value, ...]:
    return (*values[:index], value, *values[index + 1 :])
