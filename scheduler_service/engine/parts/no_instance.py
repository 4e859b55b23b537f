"""Ends a step for which no instance of its service is left (SPEC section 13)."""

from scheduler_service.domain.document import Open, Resolving
from scheduler_service.domain.records import exchange_of
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest
from scheduler_service.engine.chain import fail_answer, handle_fault, judge_answer, key_of, record_step
from scheduler_service.engine.parts.dispatch import make_part
from scheduler_service.engine.program import Routing, Step
from scheduler_service.engine.requests import Refused, limits_of
from scheduler_service.engine.turn_state import TurnState


def end_without_instance(turn: TurnState, run: Open, step: Step, phase: Resolving) -> None:
    """Fails the attempt; where those that were reached do not know the job, it is paused as `gone`.

    One that was not reached may know it, so then the attempt fails by its fault.
    """
    if phase.gone is not None and phase.fault is None:
        _end_gone(turn, run, step, phase, phase.gone)
        return
    tags = step.dispatch.tags if isinstance(step.dispatch, Routing) else ()
    tagged = f" with the tags {', '.join(tags)}" if tags else ""
    text = (
        f"No instance of the service {phase.service!r}{tagged} takes work: start one that registers, "
        "or set services.static."
    )
    fault = phase.fault or Fault(FaultKind.NO_INSTANCE, text)
    request = _request(turn, run, step)
    broken = judge_answer(turn, run, step, fault)
    assert broken is not None, "a fault always fails its step"
    if not isinstance(request, Refused):
        instance = phase.excluded[-1] if phase.fault and phase.gone is None else None
        exchange = exchange_of(request, fault, turn.now.wall)
        record_step(turn, run, step, exchange, broken.failure.code, instance=instance)
    handle_fault(turn, run, step, fault, broken)


def _end_gone(turn: TurnState, run: Open, step: Step, phase: Resolving, answer: Answer) -> None:
    request = _request(turn, run, step)
    broken = judge_answer(turn, run, step, answer)
    assert broken is not None, "an answer with which the step succeeds ends it at once"
    if not isinstance(request, Refused):
        exchange = exchange_of(request, answer, turn.now.wall - answer.elapsed)
        record_step(turn, run, step, exchange, broken.failure.code, instance=phase.excluded[-1])
    fail_answer(turn, run, answer, broken)


def _request(turn: TurnState, run: Open, step: Step) -> OutboundRequest | Refused:
    """The step's request, for the history."""
    context = turn.contexts[run.execute_number]
    limits = limits_of(turn, turn.program_of(run), context, step.target.timeout)
    return make_part(turn, run, step, (0, 1), route="", key=key_of(turn, run, step), limits=limits)
