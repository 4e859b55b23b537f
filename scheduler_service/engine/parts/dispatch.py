"""Dispatches the parts of a step to instances or a queue; resends and abandons them (SPEC section 13)."""

import hashlib
import re
from collections.abc import Callable

from scheduler_service.domain.document import (
    HELD,
    Open,
    PartsOpen,
    PartsQueued,
    Phase,
    Resolving,
)
from scheduler_service.domain.effects import (
    AbandonPart,
    CallPart,
    PublishParts,
    ResolveInstances,
    WithdrawParts,
)
from scheduler_service.domain.secret_places import hide_places
from scheduler_service.domain.step_parts import (
    BROADCAST,
    SHARD,
    SPREAD,
    Part,
    PartName,
    QueuedPart,
    QueueOptions,
)
from scheduler_service.domain.tracing import STEP
from scheduler_service.domain.wire import CallKind, OutboundRequest, Token
from scheduler_service.engine.feedback_url import feedback_url
from scheduler_service.engine.outbound_requests import Refused, make_request, sent_again
from scheduler_service.engine.parts.step_options import read_queue
from scheduler_service.engine.program import Program, Routing, Step
from scheduler_service.engine.turn_state import TurnState, replace

SERIALS = 1 << 20
"""How many serials for calls and searches each step of an attempt has."""
FEEDBACK = "schedulingFeedbackUrl"
PARTS_BYTES = 16 << 20
"""What the bodies of all parts of a step may take: each part has its own, in memory and in the store."""
QUEUE = "queue"
"""The kind of a line in the log of an execution: work begins to wait in a queue."""
_SERVICE = re.compile(r"service://(?:[^{}/?#|]+\|)?([^{}/?#|]+)", re.IGNORECASE)


def find_run(turn: TurnState, token: Token) -> Open | None:
    """The execution to whose current attempt `token` belongs."""
    run = turn.opens.get(token.execute_number)
    if run is None or run.execute_number not in turn.contexts or token.uid != turn.head.uid:
        return None
    return run if run.request_counts == token.request_counts else None


def dispatch_step(
    turn: TurnState, run: Open, step: Step, request: OutboundRequest, key: str
) -> OutboundRequest | Refused | None:
    """Looks for instances, or puts the step into its queue; then the result is None.

    `request` itself is returned if it is to be sent directly. `key` is the step's Idempotency-Key.
    """
    if isinstance(step.dispatch, QueueOptions):
        return _publish(turn, run, step, step.dispatch, request, key)
    service = _SERVICE.match(request.url)
    if service is None:  # the service that declares the job, or the gateway: both choose instances themselves
        return request
    find_instance(turn, run, step, Resolving(step.index, service[1], step.index * SERIALS))
    return None


def find_instance(turn: TurnState, run: Open, step: Step, phase: Resolving, *, waits: bool = False) -> None:
    """Asks for instances; the step waits for the answer, and with `waits` for an instance to come."""
    turn.change_context(run, phase=phase)
    turn.effects.append(
        search(turn, run, step, phase.service, phase.serial, excluded=phase.excluded, waits=waits)
    )


def search(
    turn: TurnState,
    run: Open,
    step: Step,
    service: str,
    serial: int,
    *,
    excluded: tuple[str, ...] = (),
    single: bool = False,
    waits: bool = False,
    only: str = "",
) -> ResolveInstances:
    """The effect that asks for the instances of a step; `single`: for one other instance for a part."""
    routing = step.dispatch if isinstance(step.dispatch, Routing) else Routing()
    return ResolveInstances(
        token=turn.token(run, CallKind.RESOLVE, serial),
        tenant=turn.program.surroundings.tenant,
        service=service,
        key=turn.program.job_id,
        seed=f"{turn.head.uid}:{run.request_counts}:{serial}",
        route=routing.route,
        tags=routing.tags,
        excluded=excluded,
        single=single,
        waits=waits,
        held=turn.contexts[run.execute_number].deadline >= HELD,
        only=only,
    )


def make_part(
    turn: TurnState,
    run: Open,
    step: Step,
    place: tuple[int, int],
    *,
    route: str,
    key: str,
    limits: tuple[int, int],
) -> OutboundRequest | Refused:
    """The request of a part; `place` is its index and the number of parts, `limits` those of `limits_of`."""
    program = turn.program_of(run)
    return make_request(
        turn,
        program,
        run,
        step.target,
        key=key,
        timeout=limits[0],
        awaited=limits[1],
        span=(STEP, step.index, place[0] + 1 if route in SPREAD else 0),
        extra=_variables(turn, program, run, step, place, route),
    )


def refuse_sum_of_parts(turn: TurnState, step: Step, size: int, total: int) -> Refused | None:
    """Why parts whose bodies take `size` bytes together, or more, are not sent; None: they are."""
    if total == 1:
        return None
    if size > PARTS_BYTES:
        cause = f"take more than {PARTS_BYTES:,} bytes together"
    elif turn.lacks_room(size):
        cause = "find no room beside what open executions keep, within limits.open_bytes"
    else:
        return None
    text = f"the bodies of the {total} parts of step {step.index} {cause}: hand large data to parts by a URL"
    return Refused("template", text)


def key_of_part(key: str, route: str, place: tuple[int, int], instance: str) -> str:
    """The Idempotency-Key of a part.

    A shard is the same work at every instance; a part of a broadcast belongs to its instance. Without parts
    it is the step's key.
    """
    if route == SHARD:
        return f"{key}-{place[0]}of{place[1]}"
    if route == BROADCAST:
        return f"{key}-{hashlib.blake2b(instance.encode(), digest_size=6).hexdigest()}"
    return key


def call_of(turn: TurnState, run: Open, phase: PartsOpen, part: Part) -> CallPart:
    """The effect that sends an open part."""
    assert part.request is not None
    token = turn.token(run, CallKind.PART, part.serial)
    return CallPart(token, turn.program.surroundings.tenant, phase.service, part.instance, part.request)


def abandon_parts(turn: TurnState, run: Open, phase: Phase) -> None:
    """Stops the parts of `phase`."""
    if isinstance(phase, PartsQueued):
        withdraw(turn, run)
    turn.effects.extend(AbandonPart(token) for token in part_tokens(turn, run, phase))


def withdraw(turn: TurnState, run: Open) -> None:
    """Removes the parts of this attempt from their queue."""
    turn.effects.append(WithdrawParts(turn.head.uid, run.execute_number, run.request_counts))


def part_tokens(turn: TurnState, run: Open, phase: Phase) -> list[Token]:
    """The tokens of what `phase` waits for: calls to instances, and searches for one."""
    match phase:
        case Resolving(serial=serial):
            return [turn.token(run, CallKind.RESOLVE, serial)]
        case PartsOpen(parts=parts):
            return [token_of_part(turn, run, part) for part in parts if part.end is None]
        case _:
            return []


def resend_parts(turn: TurnState, run: Open, phase: Phase, is_lost: Callable[[Token], bool]) -> None:
    """Sends again what `phase` waits for and `is_lost`; parts that have ended are left alone."""
    program = turn.program_of(run)
    match phase:
        case Resolving() if is_lost(turn.token(run, CallKind.RESOLVE, phase.serial)):
            find_instance(turn, run, program.steps[phase.step], phase)
        case PartsOpen():
            waiting = [part for part in phase.parts if part.end is None]
            for part in waiting:
                if is_lost(token_of_part(turn, run, part)):
                    turn.effects.append(_resend_part(turn, run, program.steps[phase.step], phase, part))
        case _:
            pass  # queued parts are durable on their own


def _resend_part(
    turn: TurnState, run: Open, step: Step, phase: PartsOpen, part: Part
) -> CallPart | ResolveInstances:
    if part.request is not None:
        again = replace(part, request=sent_again(turn, run, part.request))
        return call_of(turn, run, phase, again)
    excluded, only = part.refused, part.instance
    return search(turn, run, step, phase.service, part.serial, excluded=excluded, single=True, only=only)


def token_of_part(turn: TurnState, run: Open, part: Part) -> Token:
    """The token of its call, or of the search for an instance that precedes it."""
    kind = CallKind.RESOLVE if part.request is None else CallKind.PART
    return turn.token(run, kind, part.serial)


def _variables(
    turn: TurnState, program: Program, run: Open, step: Step, place: tuple[int, int], route: str
) -> dict[str, object]:
    """The variables that differ between the templates of a part and those of its step."""
    if route not in SPREAD:
        return {}
    named: dict[str, object] = {}
    around = program.surroundings
    own = around.internal_url if step.target.inside else around.external_url
    bases = {"": own, "Internal": around.internal_url, "External": around.external_url}
    for suffix, base in bases.items():
        if FEEDBACK + suffix in step.target.variables:
            url = feedback_url(base, program, turn.head, run.request_counts)
            named[FEEDBACK + suffix] = f"{url}&shard={place[0]}"
    if route == SHARD:
        named |= {"schedulingShardIndex": place[0], "schedulingShardTotal": place[1]}
    return named


def _publish(
    turn: TurnState, run: Open, step: Step, options: QueueOptions, request: OutboundRequest, key: str
) -> Refused | None:
    queue = read_queue(request.url)
    if queue is None:
        shown = hide_places(request).url
        return Refused("template", f"the url {shown[:80]!r} names no queue; write queue://NAME")
    total = options.parallelism
    route = SHARD if total > 1 else ""
    limits = (request.timeout, turn.program_of(run).timeout)  # the attempt's limit counts from the claim
    made: list[QueuedPart] = []
    size = 0
    for index in range(total):
        place = (index, total)
        part_key = key_of_part(key, route, place, "")
        part = make_part(turn, run, step, place, route=route, key=part_key, limits=limits)
        if isinstance(part, Refused):
            return part
        size += len(part.body or b"")
        if refused := refuse_sum_of_parts(turn, step, size, total):
            return refused
        made.append(
            QueuedPart(
                name=PartName(turn.head.uid, run.execute_number, run.request_counts, step.index, index),
                queue=queue,
                total=total,
                request=part,
                options=options,
                scheduled_at=run.planned_at,
                created_at=turn.now.wall,
                tenant=turn.program.surroundings.tenant,
                published=turn.now.steady,
            )
        )
    awaited = (None,) * total
    verdicts = awaited if total > 1 and reports_by_part(turn.program_of(run), step) else ()
    phase = PartsQueued(step.index, queue, request.url, turn.now.wall, awaited, verdicts)
    turn.change_context(run, phase=phase, deadline=latest_end(turn, run, options))
    turn.effects.append(PublishParts(tuple(made)))
    waits = f"waits in queue {queue} for a claim"
    turn.note(
        run,
        QUEUE,
        waits if total == 1 else f"{total} parts wait in queue {queue} for a claim each",
        step=step.index,
    )
    return None


def latest_end(turn: TurnState, run: Open, options: QueueOptions) -> int:
    """The latest possible end (steady) of an attempt whose work nobody has claimed.

    The first claim brings it forward. The queue ends what is not claimed, so it does not depend on when the
    job hears of a claim: one that waits to be delivered, as after a crash, is never taken for none.
    """
    return turn.now.steady + options.queue_timeout + turn.program_of(run).timeout


def queue_timeout_of(turn: TurnState, run: Open, phase: PartsQueued) -> int:
    """How long the parts may wait for a claim: by the definition of `run`, or by one that has changed it."""
    programs = (turn.program_of(run), turn.program)
    steps = [program.steps[phase.step] for program in programs if phase.step < len(program.steps)]
    options = [step.dispatch for step in steps if isinstance(step.dispatch, QueueOptions)]
    return max((one.queue_timeout for one in options), default=0)


def reports_by_part(program: Program, step: Step) -> bool:
    """Whether each part reports its outcome by feedback: in the last step of a job without a check."""
    return program.asynchronous and program.check is None and step.index == len(program.steps) - 1
