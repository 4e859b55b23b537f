"""How much a turn has to do: what takes long is decided beside the loop (decision 28)."""

from scheduler_service.domain.document import PartsOpen
from scheduler_service.domain.events import CallEnded, Event, PartEnded, Triggered
from scheduler_service.domain.wire import Answer
from scheduler_service.engine.decision import Job
from scheduler_service.language.filters import Budget
from scheduler_service.language.values import LARGE_BYTES

SHORT_VISITS = 5_000
"""So many values may be visited by the JSONPaths of a turn on the loop: 5 ms."""

VISITS_A_CHECK = 10
"""A check of `paramsSchema` takes as long as so many visits."""


def begin_short() -> Budget:
    """What a turn on the loop may visit; then `Unfinished` is raised."""
    return Budget(SHORT_VISITS, is_short=True)


def is_large(job: Job, event: Event) -> bool:
    """Whether the turn reads or renders bodies that are large; each turn asks for it."""
    if type(event) is CallEnded:
        outcome = event.outcome
        if type(outcome) is Answer and len(outcome.body) > LARGE_BYTES:
            return True
    elif type(event) is Triggered:
        if len(event.params) > LARGE_BYTES:
            return True
    elif type(event) is PartEnded and len(event.end.body or b"") > LARGE_BYTES:
        return True
    for program in job.programs.values():
        if program.is_large:
            return True
    document = job.document
    if document is None:
        return False
    for run in document.head.opens:  # also those that wait, as triggers for later do
        if len(run.params) > LARGE_BYTES:
            return True
    for context in document.contexts.values():
        size = 0 if context.told is None else len(context.told.response)
        for kept in context.responses:  # without a function: a chain asks for all of them after each step
            body = kept.body
            if body:
                size += len(body)
        if type(context.phase) is PartsOpen:
            size += sum([len(part.request.body or b"") for part in context.phase.parts if part.request])
        if size > LARGE_BYTES:
            return True
    return False
