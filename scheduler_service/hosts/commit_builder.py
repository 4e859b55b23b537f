"""The durable writes of a turn, its catalogue entry included, made from its decision; nothing here waits."""

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

import msgspec

from scheduler_service.domain.audit_acts import Act
from scheduler_service.domain.document import Document
from scheduler_service.domain.effects import (
    AcceptChanges,
    Delivery,
    Effect,
    Notify,
    PublishParts,
    QueueWrite,
    ReconfigureParts,
    WithdrawParts,
)
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.job_key import is_trial
from scheduler_service.domain.moments import Now
from scheduler_service.domain.records import Audited, CheckEnded, ResultKept, StepEnded
from scheduler_service.domain.replies import Refusal, Reply, Started, StartedMany, Unchanged
from scheduler_service.domain.turn_events import Created, Event
from scheduler_service.domain.wire import Holder
from scheduler_service.engine import job_summary
from scheduler_service.engine.decision import Decision, Job
from scheduler_service.engine.delay import delay, delay_records
from scheduler_service.engine.document_bytes import encode, needs_commit
from scheduler_service.engine.job_summary import Summary, revisions
from scheduler_service.engine.program import Program
from scheduler_service.hosts.host_dependencies import Redact
from scheduler_service.hosts.job_cache import CachedJob, PendingCommit
from scheduler_service.language.json_values import LARGE_BYTES
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, Remembered, StoredJob

BOOT_BITS = 32
QUEUE_WRITES = (PublishParts, WithdrawParts, ReconfigureParts, AcceptChanges)
WRITTEN = frozenset((Notify, *QUEUE_WRITES))
"""The effects of which something may lie in the turn's transaction."""

replace = msgspec.structs.replace
_encode_json = msgspec.json.Encoder().encode


class DecidedTurn(msgspec.Struct, frozen=True, gc=False):
    """A turn between its decision and its writes. `text`: the definition, where it became the job's own.

    `until`: where it is decided ahead of its moment, that moment. `weight`: that of `text`, if it is known.
    """

    decision: Decision
    programs: Mapping[int, Program]
    now: Now
    text: bytes | None = None
    kept: Remembered | None = None
    deliveries: tuple[Delivery, ...] = ()
    queued: tuple[QueueWrite, ...] = ()
    may_wait: bool = False
    until: Now | None = None
    weight: int | None = None


class CommitBuilder:
    """Makes commits and batches. `boot` numbers the starts of the store's process.

    A sequence is never used twice, not after a crash either, though turns of qos 0 count in memory alone:
    each start begins above all that an earlier one can have reached.
    """

    def __init__(self, *, redact: Redact, holder: Holder, boot: int) -> None:
        self._redact = redact
        self._holder = holder
        self._first = boot << BOOT_BITS

    def must_be_durable(self, cached: CachedJob, turn: DecidedTurn) -> bool:
        """Whether the store must have the turn before anything of it is seen (SPEC section 8)."""
        if turn.text is not None or turn.kept is not None or turn.deliveries or turn.queued:
            return True
        after = turn.decision.document
        if needs_commit(cached.document, after):
            return True
        if not turn.decision.records:
            return False
        # A job without a context may leave the memory, and would number its records from its row again.
        return after is None or not after.contexts or turn.programs[after.head.revision].qos == 1

    def prepare(self, cached: CachedJob, turn: DecidedTurn) -> PendingCommit:
        """Everything that one transaction has to write."""
        after = turn.decision.document
        programs = _still_needed(turn.programs, after)
        job = Job(after, programs, self._holder)
        batch = self.batch(cached, turn)
        qos = 1
        if after is not None:
            qos = programs[after.head.revision].qos
            for run in after.head.opens:
                qos = qos or run.qos
        commit = Commit(  # by position
            self._describe(cached, job, turn.now),
            cached.committed,
            cached.sequence,
            None if after is None else encode(after),
            job_summary.due(job),
            turn.text,
            batch,
            turn.deliveries,
            turn.kept,
            turn.queued,
            turn.may_wait,
            qos,
        )
        return PendingCommit(commit, turn.decision, programs, turn.until, weight=turn.weight)

    def detach(self, cached: CachedJob) -> CachedJob:
        """A copy from which `prepare` or `batch` makes the writes of one turn in another thread.

        Their sequence is taken now: a turn that is cancelled meanwhile gives the job's lock back, and the
        next one must not take the same.
        """
        detached = copy(cached)
        cached.sequence = max(cached.sequence + 1, self._first)
        return detached

    def delay(self, pending: PendingCommit, by: int) -> PendingCommit:
        """`pending`, which was decided ahead of its moment, as it is where its effects start `by` ms late.

        What is durable stays as it was: a crash forgets the delay.
        """
        commit, decision, until = pending.commit, pending.decision, pending.until
        if until is None or decision.document is None:
            return pending
        document = delay(decision.document, until.wall, by)
        if commit.batch is not None:
            records = delay_records(commit.batch.records, until.wall, by)
            commit = replace(commit, batch=replace(commit.batch, records=records))
        due = job_summary.due(Job(document, pending.programs, self._holder))
        return replace(pending, commit=commit, decision=replace(decision, document=document), due=due)

    def batch(self, cached: CachedJob, turn: DecidedTurn) -> Batch | None:
        """The turn's records, masked, under a sequence of their own; None where there are none."""
        sequence = cached.sequence + 1
        cached.sequence = sequence if sequence > self._first else self._first
        if not turn.decision.records:
            return None
        document = turn.decision.document or cached.document
        assert document is not None
        program = turn.programs[document.head.revision]
        tenant = program.surroundings.tenant
        records = self._redact(turn.decision.records, detail=program.history_detail, tenant=tenant)
        if not records:
            return None
        return Batch(document.head.uid, cached.job_id, tenant, cached.sequence, turn.now.wall, records)

    def _describe(self, cached: CachedJob, job: Job, now: Now) -> CatalogueEntry:
        after = job.document
        if after is not None:
            program = job.programs[after.head.revision]
            return describe(cached.job_id, after, program, job_summary.summarize(job))
        assert cached.entry is not None
        assert cached.document is not None
        return bury(cached.entry, cached.document, now)


def note_act(decision: Decision, event: Event, act: Act) -> Decision:
    """The decision with a line for the audit; itself where nothing was changed."""
    reply, after = decision.reply, decision.document
    if isinstance(reply, Refusal | Unchanged):
        return decision
    line = Audited(
        act,
        status=201 if isinstance(event, Created) else 200,
        execute_number=_number_of(reply, act),
        revision=0 if after is None else after.head.revision,
    )
    return replace(decision, records=(*decision.records, line))


def _number_of(reply: Reply, act: Act) -> int | None:
    """The execution that was meant, or began; of a backfill the first one."""
    match reply:
        case Started(execute_number=number) | StartedMany(first=number):
            return number
        case _:
            return act.execute_number


def remember_reply(
    job_id: str, remembered: Remembered, reply: Reply, answer: Callable[[Reply], bytes] | None
) -> Remembered | None:
    """What is kept under the Idempotency-Key. A refusal is not: it did nothing, and may be repeated.

    It ends with the job's life, where `remembered` does not say of what else it is. Of a message nothing is
    kept that did nothing.
    """
    if isinstance(reply, Refusal) or (remembered.is_of_message and isinstance(reply, Unchanged)):
        return None
    said = remembered.answer if answer is None else answer(reply)
    return replace(remembered, answer=said, job_id=remembered.job_id or job_id)


def has_large_bodies(decision: Decision) -> bool:
    """Whether the bodies in the records of a turn take long to mask."""
    record: Any  # by its type
    for record in decision.records:
        kind = type(record)
        if kind is StepEnded or kind is CheckEnded:
            exchange = record.exchange
            if len(exchange.request_body or b"") + len(exchange.response_body or b"") > LARGE_BYTES:
                return True
    return False


def keeps_much(decision: Decision) -> bool:
    """Whether a turn keeps a large result: it is masked whole, whatever the history keeps of bodies."""
    return any(type(one) is ResultKept and len(one.body) > LARGE_BYTES for one in decision.records)


def is_idle(before: Document | None, decision: Decision) -> bool:
    """Whether a turn left everything as it was."""
    if decision.effects or decision.records:
        return False
    after = decision.document
    if before is None or after is None:
        return before is after
    return after is before or (after.head == before.head and after.contexts == before.contexts)


def is_stored(stored: StoredJob | None, commit: Commit) -> bool:
    """Whether the store has exactly this turn."""
    if stored is None:
        return False
    if commit.document is None:
        return stored.document is None and stored.entry.uid == commit.entry.uid
    return stored.document is not None and stored.sequence == commit.sequence


def sort_effects(
    job_id: str, decision: Decision, lacks_room: Callable[[Delivery], bool]
) -> tuple[Decision, tuple[Delivery, ...], tuple[QueueWrite, ...]]:
    """The decision, and its effects that belong to the turn's transaction: deliveries, writes into queues.

    Both outlive the turn and its lock, so the id of their job is put into them. Most turns have neither.
    A delivery for whose body memory `lacks_room` is written too, whatever its guarantee.
    """
    effects = decision.effects
    if not effects or WRITTEN.isdisjoint(map(type, effects)):
        return decision, (), ()
    return _sort_out(job_id, decision, lacks_room)


def _sort_out(
    job_id: str, decision: Decision, lacks_room: Callable[[Delivery], bool]
) -> tuple[Decision, tuple[Delivery, ...], tuple[QueueWrite, ...]]:
    # Separate from `sort_effects`, which would make the closures of these comprehensions in every turn.
    effects = decision.effects
    stamped = tuple(_stamped(job_id, one, lacks_room) for one in effects)
    deliveries = [one.delivery for one in stamped if isinstance(one, Notify) and one.delivery.durable]
    queued = [_named(job_id, one) for one in stamped if isinstance(one, QUEUE_WRITES)]
    return replace(decision, effects=stamped), tuple(deliveries), tuple(queued)


def _named(job_id: str, write: QueueWrite) -> QueueWrite:
    if not isinstance(write, PublishParts):
        return write
    return PublishParts(tuple(replace(part, job_id=job_id) for part in write.parts))


def _stamped(job_id: str, effect: Effect, lacks_room: Callable[[Delivery], bool]) -> Effect:
    if not isinstance(effect, Notify):
        return effect
    delivery = effect.delivery
    return Notify(replace(delivery, job_id=job_id, durable=delivery.durable or lacks_room(delivery)))


def _still_needed(programs: Mapping[int, Program], after: Document | None) -> Mapping[int, Program]:
    if after is None:
        return {}
    if len(programs) == 1:
        return programs
    return {revision: programs[revision] for revision in revisions(after)}


def describe(job_id: str, document: Document, program: Program, summary: Summary) -> CatalogueEntry:
    """The line of a job that lives."""
    head = document.head
    return CatalogueEntry(  # by position
        job_id,
        head.uid,
        program.surroundings.tenant,
        program.job_name,
        program.object_id,
        program.creator,
        summary.kind,
        summary.state,
        head.revision,
        program.labels,
        program.parent_job,
        program.parent_execution,
        summary.next_fire,
        head.execute_number,
        head.request_counts,
        head.missed,
        _encode_json(head.latest),
        head.created_at,
        head.updated_at,
        summary.live,
        summary.waiting,
        program.system or (program.parent_job is not None and is_trial(job_id, program.parent_job)),
    )


def bury(entry: CatalogueEntry, last: Document, now: Now) -> CatalogueEntry:
    """The line of a job that was destroyed: its counters stay, for a later life."""
    return msgspec.structs.replace(
        entry,
        state=JobState.DESTROYED,
        next_fire=None,
        execute_number=last.head.execute_number,
        request_counts=last.head.request_counts,
        missed=last.head.missed,
        updated_at=now.wall,
        live=0,
        waiting=0,
    )
