"""The parts of a step at the chosen instances of a service: called, answered, moved on (SPEC section 13)."""

from scheduler_service.domain.document import Open, PartsOpen, Resolving
from scheduler_service.domain.effects import MarkDraining
from scheduler_service.domain.events import CallEnded, InstancesResolved
from scheduler_service.domain.parts import BROADCAST, SPREAD, Chosen, Part, PartEnd
from scheduler_service.domain.records import exchange_of
from scheduler_service.domain.replies import Reply, Taken, Unchanged
from scheduler_service.domain.wire import Answer, CallKind, Fault, FaultKind, OutboundRequest, Outcome, Token
from scheduler_service.engine.attempt import Broken
from scheduler_service.engine.chain import (
    advance,
    fail_answer,
    handle_fault,
    judge_answer,
    key_of,
    limit_of,
    record_step,
    refuse_step,
)
from scheduler_service.engine.parts.dispatch import (
    call_of,
    find_instance,
    key_of_part,
    make_part,
    reports_by_part,
    search,
)
from scheduler_service.engine.parts.join import finish_parts, fit_body
from scheduler_service.engine.program import Routing, Step
from scheduler_service.engine.requests import Refused
from scheduler_service.engine.turn_state import TurnState, replace
from scheduler_service.engine.verdicts import find_header

DRAINING = "draining"
DRAINING_STATUS = 503
_HEADER = "x-instance-state"


def handle_instances(turn: TurnState, event: InstancesResolved) -> Reply:
    """Takes the instances chosen for a step or one of its parts; late and repeated answers change nothing."""
    run = find_run(turn, event.token)
    if run is None:
        return Unchanged()
    phase = turn.contexts[run.execute_number].phase
    if isinstance(phase, Resolving) and phase.serial == event.token.serial:
        _send_step(turn, run, phase, event)
        return Taken()
    if isinstance(phase, PartsOpen):
        part = _awaited(phase, event.token)
        if part is not None and part.request is None:
            _send_part_elsewhere(turn, run, phase, part, event.chosen)
            return Taken()
    return Unchanged()


def handle_part_answer(turn: TurnState, event: CallEnded) -> Reply:
    """Takes the answer of an instance, if its part still waits for it."""
    run = find_run(turn, event.token)
    phase = None if run is None else turn.contexts[run.execute_number].phase
    if run is None or not isinstance(phase, PartsOpen):
        return Unchanged()
    part = _awaited(phase, event.token)
    if part is None or part.request is None or event.token.kind is not CallKind.PART:
        return Unchanged()
    if _is_draining(event.outcome):
        _go_elsewhere(turn, run, phase, part, event.outcome)
    elif phase.route in SPREAD:
        _end_part(turn, run, phase, part, part.request, event.outcome)
    else:
        _end_step(turn, run, phase, part, part.request, event.outcome)
    return Taken()


def find_run(turn: TurnState, token: Token) -> Open | None:
    """The execution to whose current attempt `token` belongs."""
    run = turn.opens.get(token.execute_number)
    if run is None or run.execute_number not in turn.contexts or token.uid != turn.head.uid:
        return None
    return run if run.request_counts == token.request_counts else None


def _awaited(phase: PartsOpen, token: Token) -> Part | None:
    return next((part for part in phase.parts if part.serial == token.serial and part.end is None), None)


def _send_step(turn: TurnState, run: Open, phase: Resolving, event: InstancesResolved) -> None:
    step = turn.program_of(run).steps[phase.step]
    if not event.chosen:
        _fail_without_instance(turn, run, step, phase)
        return
    parts: list[Part] = []
    total = len(event.chosen)
    for index, chosen in enumerate(event.chosen):
        request = _request(turn, run, step, (index, total), event.route, chosen)
        if isinstance(request, Refused):
            refuse_step(turn, run, step.index, request)
            return
        serial = phase.serial + 1 + index
        parts.append(Part(index, serial, chosen.instance, request, turn.now.wall))
    by_part = event.route in SPREAD and reports_by_part(turn.program_of(run), step)
    verdicts = (None,) * total if by_part else ()
    opened = PartsOpen(step.index, phase.service, event.route, phase.serial + total, tuple(parts), verdicts)
    turn.change_context(run, phase=opened)
    turn.effects.extend(call_of(turn, run, opened, part) for part in parts)


def _request(
    turn: TurnState, run: Open, step: Step, place: tuple[int, int], route: str, chosen: Chosen
) -> OutboundRequest | Refused:
    key = key_of_part(key_of(turn, run, step), route, place, chosen.instance)
    timeout = limit_of(turn, turn.contexts[run.execute_number], step.target.timeout)
    made = make_part(turn, run, step, place, route=route, key=key, timeout=timeout)
    return made if isinstance(made, Refused) else replace(made, base=chosen.address)


def _fail_without_instance(turn: TurnState, run: Open, step: Step, phase: Resolving) -> None:
    tags = step.dispatch.tags if isinstance(step.dispatch, Routing) else ()
    tagged = f" with the tags {', '.join(tags)}" if tags else ""
    text = (
        f"No instance of the service {phase.service!r}{tagged} takes work: start one that registers, "
        "or set services.static."
    )
    fault = Fault(FaultKind.NO_INSTANCE, text)
    request = _request(turn, run, step, (0, 1), "", Chosen("", ""))
    broken = judge_answer(step, fault, turn.now.wall)
    assert broken is not None, "a fault always fails its step"
    if not isinstance(request, Refused):
        record_step(turn, run, step, exchange_of(request, fault, turn.now.wall), broken.failure.code)
    handle_fault(turn, run, step, fault, broken)


def _send_part_elsewhere(
    turn: TurnState, run: Open, phase: PartsOpen, part: Part, chosen: tuple[Chosen, ...]
) -> None:
    step = turn.program_of(run).steps[phase.step]
    other = chosen[0] if chosen else Chosen("", "")
    request = _request(turn, run, step, (part.index, len(phase.parts)), phase.route, other)
    if isinstance(request, Refused):
        refuse_step(turn, run, step.index, request)
        return
    if not chosen:
        fault = Fault(FaultKind.NO_INSTANCE, f"No other instance of {phase.service!r} takes this part.")
        _end_part(turn, run, phase, part, request, fault)
        return
    serial, now = phase.serial + 1, turn.now.wall
    sent = replace(part, serial=serial, instance=other.instance, request=request, sent_at=now)
    opened = replace(_put(phase, sent), serial=serial)
    turn.change_context(run, phase=opened)
    turn.effects.append(call_of(turn, run, opened, sent))


def _put(phase: PartsOpen, part: Part) -> PartsOpen:
    """The phase with `part` in its place."""
    return replace(phase, parts=tuple(part if one.index == part.index else one for one in phase.parts))


def _is_draining(outcome: Outcome) -> bool:
    if isinstance(outcome, Fault) or outcome.status != DRAINING_STATUS:
        return False
    return (find_header(outcome.headers, _HEADER) or "").strip().lower() == DRAINING


def _go_elsewhere(turn: TurnState, run: Open, phase: PartsOpen, part: Part, outcome: Outcome) -> None:
    """Marks an instance that takes no more work and moves its part to another one, within the attempt."""
    step = turn.program_of(run).steps[phase.step]
    tenant = turn.program.surroundings.tenant
    turn.effects.append(MarkDraining(tenant, phase.service, part.instance))
    turn.note(run, DRAINING, f"instance {part.instance} of {phase.service} is draining", step=step.index)
    refused = (*part.refused, part.instance)
    serial = phase.serial + 1
    if phase.route not in SPREAD:
        find_instance(turn, run, step, Resolving(step.index, phase.service, serial, refused))
    elif phase.route == BROADCAST:
        _drop_part(turn, run, phase, part, outcome)
    else:
        waiting = replace(part, serial=serial, instance="", request=None, refused=refused)
        turn.change_context(run, phase=replace(_put(phase, waiting), serial=serial))
        turn.effects.append(search(turn, run, step, phase.service, serial, excluded=refused, single=True))


def _drop_part(turn: TurnState, run: Open, phase: PartsOpen, part: Part, outcome: Outcome) -> None:
    """Drops the part of a draining instance from a broadcast; if all drain, searches for other instances."""
    step = turn.program_of(run).steps[phase.step]
    dropped = PartEnd(instance=part.instance, dropped=True, at=turn.now.wall)
    left = _put(phase, replace(part, request=None, end=dropped))
    ends = [one.end for one in left.parts]
    if all(end is not None and end.dropped for end in ends):
        refused = tuple(one.instance for one in left.parts)
        again = Resolving(step.index, phase.service, phase.serial + 1, refused)
        find_instance(turn, run, step, again)
        return
    _go_on(turn, run, left)


def _end_step(
    turn: TurnState, run: Open, phase: PartsOpen, part: Part, request: OutboundRequest, outcome: Outcome
) -> None:
    """Ends a step that went to one instance, as a step that was sent directly ends."""
    step = turn.program_of(run).steps[phase.step]
    broken = judge_answer(step, outcome, turn.now.wall)
    code = broken.failure.code if broken else None
    exchange = exchange_of(request, outcome, part.sent_at)
    record_step(turn, run, step, exchange, code, instance=part.instance or None)
    if isinstance(outcome, Fault):
        assert broken is not None
        handle_fault(turn, run, step, outcome, broken)
    elif broken is not None:
        fail_answer(turn, run, outcome, broken)
    else:
        advance(turn, run, step, outcome if outcome.url else replace(outcome, url=request.url))


def _end_part(
    turn: TurnState, run: Open, phase: PartsOpen, part: Part, request: OutboundRequest, outcome: Outcome
) -> None:
    """Ends one of several parts; the step goes on when all have ended."""
    step = turn.program_of(run).steps[phase.step]
    broken = judge_answer(step, outcome, turn.now.wall)
    code = broken.failure.code if broken else None
    exchange = exchange_of(request, outcome, part.sent_at)
    record_step(turn, run, step, exchange, code, instance=part.instance or None, part=part.index)
    if _has_reported(phase, part, outcome):
        broken = None
    ends = tuple(one.end for one in phase.parts)
    end = fit_body(turn, ends, _describe(outcome, broken, request, part, turn.now.wall))
    _go_on(turn, run, _put(phase, replace(part, request=None, end=end)))


def _has_reported(phase: PartsOpen, part: Part, outcome: Outcome) -> bool:
    """Whether a verdict by feedback replaces an answer that did not come (SPEC section 5)."""
    if not isinstance(outcome, Fault) or outcome.kind not in (FaultKind.CONNECT, FaultKind.TIMEOUT):
        return False
    return bool(phase.verdicts) and phase.verdicts[part.index] is not None


def _describe(
    outcome: Outcome, broken: Broken | None, request: OutboundRequest, part: Part, at: int
) -> PartEnd:
    answer = outcome if isinstance(outcome, Answer) else Answer(status=0)
    end = PartEnd(
        status=answer.status,
        url=answer.url or request.url,
        body=answer.body,
        truncated=answer.truncated,
        instance=part.instance,
        at=at,
    )
    if broken is None:
        return end
    return replace(
        end,
        error=broken.failure.code,
        failure_type=broken.failure.failure_type,
        message=broken.message,
        retry_after=broken.retry_after,
        timed_out=isinstance(outcome, Fault) and outcome.kind is FaultKind.TIMEOUT,
    )


def _go_on(turn: TurnState, run: Open, phase: PartsOpen) -> None:
    turn.change_context(run, phase=phase)
    ends = tuple(part.end for part in phase.parts)
    if all(ends):
        step = turn.program_of(run).steps[phase.step]
        url = f"service://{phase.service}"
        finish_parts(turn, run, step, tuple(end for end in ends if end), url, phase.verdicts)
