"""Which instances have work of an asynchronous attempt in hand, and are watched (SPEC section 13)."""

from scheduler_service.domain.document import Context, InHand, Open, Retrying
from scheduler_service.domain.effects import Unwatch, WatchInstance
from scheduler_service.domain.wire import CallKind
from scheduler_service.engine.parts.dispatch import SERIALS
from scheduler_service.engine.program import Program, Step
from scheduler_service.engine.turn_state import TurnState
from scheduler_service.language.expression import FEEDBACK_URLS

ACCEPTED = 202
"""The answer of an instance that has taken the work and not done it."""

Answers = tuple[tuple[str, int], ...]
"""Instance and status by part; an empty instance is not watched."""


def take_in_hand(turn: TurnState, run: Open, step: Step, service: str, answers: Answers) -> None:
    """After a step has succeeded: the instances that work on are watched until the attempt ends."""
    program = turn.program_of(run)
    context = turn.contexts.get(run.execute_number)
    if not program.asynchronous or context is None or isinstance(context.phase, Retrying):
        return  # the attempt has ended with this answer, or ends with the chain
    takes_any = _reports(program, step)
    # An address of the settings or of the service sends no heartbeats; no id of an instance has a slash.
    watched = tuple(
        instance if "/" not in instance and (takes_any or status == ACCEPTED) else ""
        for instance, status in answers
    )
    if any(watched):
        taken = InHand(step.index, service, watched)
        turn.change_context(run, taken=(*context.taken, taken))
        _watch(turn, run, taken)


def watch_instances(turn: TurnState, run: Open, context: Context) -> None:
    """Watches those that have work of this attempt in hand; a watch that runs already goes on."""
    for taken in context.taken:
        _watch(turn, run, taken)


def stop_watching(turn: TurnState, run: Open) -> None:
    """The attempt has ended: nobody has work of it in hand."""
    context = turn.contexts.get(run.execute_number)
    if context is None or not context.taken:
        return
    for taken in context.taken:
        serials = (serial for serial, _ in _watched(taken))
        turn.effects.extend(Unwatch(turn.token(run, CallKind.WATCH, serial)) for serial in serials)
    turn.change_context(run, taken=())


def find_taken(context: Context, serial: int) -> tuple[InHand, int] | None:
    """What the watch of this serial is about, and the part; None: nothing of this attempt."""
    step, part = divmod(serial, SERIALS)
    for taken in context.taken:
        if taken.step == step and any(taken.instances[part : part + 1]):
            return taken, part
    return None


def _reports(program: Program, step: Step) -> bool:
    """Whether an instance that answered this step works on, whichever success it answered.

    So does that of the last step; without a check also that of the last step with a feedback URL.
    """
    later = program.steps[step.index + 1 :]
    if not later:
        return True
    named = (bool(other.target.variables & FEEDBACK_URLS) for other in (step, *later))
    return program.check is None and next(named) and not any(named)


def _watch(turn: TurnState, run: Open, taken: InHand) -> None:
    tenant = turn.program.surroundings.tenant
    for serial, instance in _watched(taken):
        token = turn.token(run, CallKind.WATCH, serial)
        turn.effects.append(WatchInstance(token, tenant, taken.service, instance))


def _watched(taken: InHand) -> list[tuple[int, str]]:
    """The serials of the watches, each with its instance."""
    base = taken.step * SERIALS
    return [(base + part, instance) for part, instance in enumerate(taken.instances) if instance]
