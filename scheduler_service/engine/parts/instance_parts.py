"""The parts of a step at the chosen instances of a service: called, answered, moved on (SPEC section 13)."""

from scheduler_service.domain.document import HELD, Open, PartsOpen, Resolving
from scheduler_service.domain.effects import MarkDraining, MarkRefused
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.records import exchange_of
from scheduler_service.domain.replies import Reply, Taken, Unchanged
from scheduler_service.domain.step_parts import (
    BROADCAST,
    DRAINING,
    DRAINING_STATUS,
    INSTANCE_STATE,
    PAUSED,
    SPREAD,
    Chosen,
    Part,
    PartEnd,
)
from scheduler_service.domain.turn_events import CallEnded, InstancesResolved
from scheduler_service.domain.wire import Answer, CallKind, Fault, FaultKind, OutboundRequest, Outcome, Token
from scheduler_service.engine.attempt import Broken
from scheduler_service.engine.automatic_pause import GONE
from scheduler_service.engine.chain import (
    GONE_STATUS,
    advance,
    fail_answer,
    handle_fault,
    judge_answer,
    key_of,
    record_step,
    refuse_step,
    refuse_sum,
    says_gone,
)
from scheduler_service.engine.decision import SMALL_BYTES
from scheduler_service.engine.outbound_requests import Refused, limits_of, take_growth
from scheduler_service.engine.parts.dispatch import (
    call_of,
    find_instance,
    find_run,
    key_of_part,
    make_part,
    refuse_sum_of_parts,
    reports_by_part,
    search,
)
from scheduler_service.engine.parts.join import finish_parts, fit_body
from scheduler_service.engine.parts.watches import take_in_hand
from scheduler_service.engine.program import Routing, Step
from scheduler_service.engine.target_reports import find_header
from scheduler_service.engine.turn_state import TurnState, replace

REFUSED, WAITING = "refused", "waiting"
NOBODY = Chosen("", "")


def handle_instances(turn: TurnState, event: InstancesResolved) -> Reply:
    """Takes the instances chosen for a step or one of its parts; late and repeated answers change nothing."""
    run = find_run(turn, event.token)
    if run is None:
        return Unchanged()
    phase = turn.contexts[run.execute_number].phase
    if isinstance(phase, Resolving) and phase.serial == event.token.serial:
        _keep_time(turn, run, phase, is_held=event.paused)
        if event.paused:
            step = turn.program_of(run).steps[phase.step]
            find_instance(turn, run, step, replace(phase, serial=phase.serial + 1))
        else:
            _send_step(turn, run, phase, event)
        return Taken()
    if isinstance(phase, PartsOpen):
        part = _awaited(phase, event.token)
        if part is not None and part.request is None:
            _keep_time(turn, run, phase, is_held=event.paused)
            if event.paused:
                _search_for_part(turn, run, phase, part)
            else:
                _send_part_elsewhere(turn, run, phase, part, event)
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
    if event.outcome == PAUSED:
        _leave_paused(turn, run, phase, part)
    elif _is_draining(event.outcome):
        _leave_draining(turn, run, phase, part)
    elif isinstance(event.outcome, Fault) and event.outcome.unsent:
        _leave_refusing(turn, run, phase, part, part.request, event.outcome)
    elif phase.route in SPREAD:
        _end_part(turn, run, phase, part, part.request, event.outcome)
    else:
        _end_step(turn, run, phase, part, part.request, event.outcome)
    return Taken()


def _keep_time(turn: TurnState, run: Open, phase: Resolving | PartsOpen, *, is_held: bool) -> None:
    """The time of the attempt stands still while its service is paused, and goes on after it."""
    now, deadline = turn.now.steady, turn.contexts[run.execute_number].deadline
    if is_held and deadline < HELD:
        turn.change_context(run, deadline=HELD + max(deadline - now, 1))
        turn.note(run, WAITING, f"{phase.service} is paused: waits until it is resumed", step=phase.step)
    elif not is_held and deadline >= HELD:
        turn.change_context(run, deadline=now + deadline - HELD)


def _leave_paused(turn: TurnState, run: Open, phase: PartsOpen, part: Part) -> None:
    """A call that waited when its service was paused is searched for anew; of a broadcast at its instance."""
    if phase.route not in SPREAD:
        step, serial = turn.program_of(run).steps[phase.step], phase.serial + 1
        again = Resolving(step.index, phase.service, serial, part.refused, part.fault, part.gone)
        find_instance(turn, run, step, again)
        return
    only = part.instance if phase.route == BROADCAST else ""
    _search_for_part(turn, run, phase, replace(part, instance=only))


def _awaited(phase: PartsOpen, token: Token) -> Part | None:
    return next((part for part in phase.parts if part.serial == token.serial and part.end is None), None)


def _send_step(turn: TurnState, run: Open, phase: Resolving, event: InstancesResolved) -> None:
    step = turn.program_of(run).steps[phase.step]
    if not event.chosen and event.wait and phase.gone is None:
        _note_wait(turn, run, phase, event.wait)
        # Who has refused the step may take it again: its next sign of life decides.
        again = Resolving(step.index, phase.service, phase.serial + 1)
        find_instance(turn, run, step, again, waits=True)
        return
    if not event.chosen:
        end_without_instance(turn, run, step, phase)
        return
    parts: list[Part] = []
    total, size = len(event.chosen), 0
    for index, chosen in enumerate(event.chosen):
        request = _request(turn, run, step, (index, total), event.route, chosen)
        if not isinstance(request, Refused):
            size += len(request.body or b"")
            request = refuse_sum_of_parts(turn, step, size, total) or request
        if isinstance(request, Refused):
            refuse_step(turn, run, step.index, request)
            return
        serial = phase.serial + 1 + index
        now, before = turn.now.wall, phase.excluded
        part = Part(index, serial, chosen.instance, request, now, None, before, phase.fault, phase.gone)
        parts.append(part)
    if size > SMALL_BYTES:
        only = parts[0].request if total == 1 else None
        grown = 0 if only is None else take_growth(turn, run, step.target, only)
        if isinstance(grown, Refused):
            refuse_step(turn, run, step.index, grown)
            return
        turn.counts_more = True
    by_part = event.route in SPREAD and reports_by_part(turn.program_of(run), step)
    verdicts = (None,) * total if by_part else ()
    opened = PartsOpen(step.index, phase.service, event.route, phase.serial + total, tuple(parts), verdicts)
    turn.change_context(run, phase=opened)
    turn.effects.extend(call_of(turn, run, opened, part) for part in parts)


def _request(
    turn: TurnState, run: Open, step: Step, place: tuple[int, int], route: str, chosen: Chosen
) -> OutboundRequest | Refused:
    key = key_of_part(key_of(turn, run, step), route, place, chosen.instance)
    context = turn.contexts[run.execute_number]
    limits = limits_of(turn, turn.program_of(run), context, step.target.timeout)
    made = make_part(turn, run, step, place, route=route, key=key, limits=limits)
    if isinstance(made, Refused):
        return made
    return replace(made, base=chosen.address, sign=made.sign or chosen.sign, vouched=chosen.vouched)


def _send_part_elsewhere(
    turn: TurnState, run: Open, phase: PartsOpen, part: Part, event: InstancesResolved
) -> None:
    step = turn.program_of(run).steps[phase.step]
    chosen = event.chosen
    if not chosen and event.wait:
        _note_wait(turn, run, phase, event.wait)
        _search_for_part(turn, run, phase, replace(part, refused=()), waits=True)
        return
    other = chosen[0] if chosen else NOBODY
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


def _note_wait(turn: TurnState, run: Open, phase: Resolving | PartsOpen, wait: int) -> None:
    text = f"no instance of {phase.service} takes work: waits for one, at most {wait / SECOND:g} s"
    turn.note(run, WAITING, text, step=phase.step)


def _search_for_part(
    turn: TurnState, run: Open, phase: PartsOpen, part: Part, *, waits: bool = False
) -> None:
    """Looks for another instance for one part, or for the one that it has."""
    step, serial = turn.program_of(run).steps[phase.step], phase.serial + 1
    waiting = replace(part, serial=serial, request=None)
    turn.change_context(run, phase=replace(_put(phase, waiting), serial=serial))
    excluded, only = part.refused, part.instance
    turn.effects.append(
        search(turn, run, step, phase.service, serial, excluded=excluded, single=True, waits=waits, only=only)
    )


def _put(phase: PartsOpen, part: Part) -> PartsOpen:
    """The phase with `part` in its place."""
    return replace(phase, parts=tuple(part if one.index == part.index else one for one in phase.parts))


def _is_draining(outcome: Outcome) -> bool:
    if isinstance(outcome, Fault) or outcome.status != DRAINING_STATUS:
        return False
    return (find_header(outcome.headers, INSTANCE_STATE) or "").strip().lower() == DRAINING


def _leave_draining(turn: TurnState, run: Open, phase: PartsOpen, part: Part) -> None:
    """Marks an instance that takes no more work and moves its part to another one, within the attempt."""
    tenant = turn.program.surroundings.tenant
    turn.effects.append(MarkDraining(tenant, phase.service, part.instance))
    text = f"instance {part.instance} of {phase.service} takes no more work"
    turn.note(run, DRAINING, text, step=phase.step)
    if phase.route == BROADCAST:
        _drop_part(turn, run, phase, part)
    else:
        _go_elsewhere(turn, run, phase, part)


def _leave_refusing(
    turn: TurnState, run: Open, phase: PartsOpen, part: Part, request: OutboundRequest, fault: Fault
) -> None:
    """Marks an instance that was not reached. Its part goes to another one; a part of a broadcast fails."""
    tenant = turn.program.surroundings.tenant
    turn.effects.append(MarkRefused(tenant, phase.service, part.instance))
    text = f"instance {part.instance} of {phase.service} was not reached: {fault.message}"
    turn.note(run, REFUSED, text, step=phase.step)
    if phase.route == BROADCAST:
        _end_part(turn, run, phase, part, request, fault)
    else:
        _go_elsewhere(turn, run, phase, part, fault)


def _leave_gone(turn: TurnState, run: Open, phase: PartsOpen, part: Part, answer: Answer) -> None:
    """Moves the step from an instance that does not know the job to another one, within the attempt."""
    text = f"instance {part.instance} of {phase.service} does not know this job (410 with X-Job-State: gone)"
    turn.note(run, GONE, text, step=phase.step)
    _go_elsewhere(turn, run, phase, replace(part, gone=answer), part.fault)


def _go_elsewhere(
    turn: TurnState, run: Open, phase: PartsOpen, part: Part, fault: Fault | None = None
) -> None:
    """Looks for another instance, within the attempt; without one `fault` or `part.gone` ends it."""
    step = turn.program_of(run).steps[phase.step]
    refused = (*part.refused, part.instance)
    if phase.route not in SPREAD:
        found = Resolving(step.index, phase.service, phase.serial + 1, refused, fault, part.gone)
        find_instance(turn, run, step, found)
        return
    _search_for_part(turn, run, phase, replace(part, instance="", refused=refused))


def _drop_part(turn: TurnState, run: Open, phase: PartsOpen, part: Part) -> None:
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
    broken = judge_answer(turn, run, step, outcome) or refuse_sum(turn, run, step, outcome)
    if broken and isinstance(outcome, Answer) and outcome.status == GONE_STATUS and says_gone(outcome):
        _leave_gone(turn, run, phase, part, outcome)
        return
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
        take_in_hand(turn, run, step, phase.service, ((part.instance, outcome.status),))


def _end_part(
    turn: TurnState, run: Open, phase: PartsOpen, part: Part, request: OutboundRequest, outcome: Outcome
) -> None:
    """Ends one of several parts; the step goes on when all have ended."""
    step = turn.program_of(run).steps[phase.step]
    broken = judge_answer(turn, run, step, outcome)
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
        ended = tuple(end for end in ends if end)
        finish_parts(turn, run, step, ended, url, phase.verdicts)
        answers = tuple(("" if end.dropped else end.instance, end.status) for end in ended)
        take_in_hand(turn, run, step, phase.service, answers)


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
    request = _request(turn, run, step, (0, 1), "", NOBODY)  # for the history
    broken = judge_answer(turn, run, step, fault)
    assert broken is not None, "a fault always fails its step"
    if not isinstance(request, Refused):
        instance = phase.excluded[-1] if phase.fault and phase.gone is None else None
        exchange = exchange_of(request, fault, turn.now.wall)
        record_step(turn, run, step, exchange, broken.failure.code, instance=instance)
    handle_fault(turn, run, step, fault, broken)


def _end_gone(turn: TurnState, run: Open, step: Step, phase: Resolving, answer: Answer) -> None:
    request = _request(turn, run, step, (0, 1), "", NOBODY)  # for the history
    broken = judge_answer(turn, run, step, answer)
    assert broken is not None, "an answer with which the step succeeds ends it at once"
    if not isinstance(request, Refused):
        exchange = exchange_of(request, answer, turn.now.wall - answer.elapsed)
        record_step(turn, run, step, exchange, broken.failure.code, instance=phase.excluded[-1])
    fail_answer(turn, run, answer, broken)
