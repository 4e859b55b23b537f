"""Moves the moments of a turn that was decided early to when its effects really start."""

from collections.abc import Iterable
from functools import cache

from scheduler_service.domain.document import Calling, Context, Document, Retrying
from scheduler_service.domain.execution import FiringOutcome
from scheduler_service.domain.records import FiringRecord, Record
from scheduler_service.engine.turn_state import LATE_AFTER, replace

# The fields of records that move; `created_at` does not, since an execution is created by the decision.
MOMENTS = ("at", "started_at", "ended_at")


def delay(document: Document, at: int, by: int) -> Document:
    """`document` as if the executions that began at the wall moment `at` had begun `by` ms later.

    The result is not durable: after a crash they began at `at` and have `by` ms less time.
    """
    opens = document.head.opens
    begun = [run.execute_number for run in opens if run.started_at == at]
    if not begun:
        return document
    contexts = dict(document.contexts)
    for number in begun:
        if number in contexts:
            contexts[number] = _end_later(contexts[number], by)
    later = tuple([replace(run, started_at=at + by) if run.started_at == at else run for run in opens])
    return Document(replace(document.head, opens=later), contexts)


def delay_records(records: Iterable[Record], at: int, by: int) -> tuple[Record, ...]:
    """The records of that turn, masked or not, moved in the same way."""
    return tuple([_record_later(record, at, by) for record in records])


def _end_later(context: Context, by: int) -> Context:
    phase = context.phase
    match phase:
        case Calling(sent_at=sent_at):
            phase = replace(phase, sent_at=sent_at + by)
        case Retrying(due=due):
            phase = replace(phase, due=due + by)
    return replace(context, phase=phase, deadline=context.deadline + by)


def _record_later(record: Record, at: int, by: int) -> Record:
    if isinstance(record, FiringRecord):
        is_late = at + by - record.planned_at > LATE_AFTER
        return replace(record, outcome=FiringOutcome.LATE) if is_late and _began(record) else record
    moved = {name: at + by for name in _moments_of(type(record)) if getattr(record, name) == at}
    return replace(record, **moved) if moved else record


@cache
def _moments_of(kind: type[Record]) -> tuple[str, ...]:
    return tuple(name for name in MOMENTS if name in kind.__struct_fields__)


def _began(record: FiringRecord) -> bool:
    return record.outcome is FiringOutcome.FIRED
