"""The arguments of writes, as `write.lua` takes them."""

from collections.abc import Sequence

from scheduler_service.domain.moments import DAY
from scheduler_service.persistence.common.writes import Forget, Keep, Settle, StoreWrite, Written, pack
from scheduler_service.persistence.redis.encoding import (
    DUE_STEADY,
    DUE_WALL,
    OPEN,
    ORDER_NAMES,
    UIDS,
    UNPLANNED,
    answer_key,
    batch_key,
    children,
    number,
    order,
    pack_answer,
    pack_batch,
    pack_definition,
    pack_job,
    pack_pairs,
    text,
)
from scheduler_service.persistence.redis.queues import Arguments, Step, queued_arguments
from scheduler_service.ports.catalogue import CatalogueEntry, JobSort
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, Remembered

Write = StoreWrite | Step

_NO, _YES = b"0", b"1"
_NEXT = ORDER_NAMES[JobSort.NEXT_FIRE_TIME]


def write_arguments(write: Write) -> Arguments:
    """The arguments of one write, as `write.lua` takes them.

    Raises OverflowError, ValueError, TypeError: not storable.
    """
    match write:
        case Commit():
            return _commit(write)
        case Settle():
            return _settle(write)
        case Written(keys):
            return [b"written", _count(keys), *(batch_key(uid, sequence) for uid, sequence in keys)]
        case Remembered():
            return [b"remember", *answer_arguments(write)]
        case Forget(job_id):
            return [b"forget", job_id.encode()]
        case Keep(key, value):
            return [b"keep", key.encode(), b"%d" % value]
        case Step(arguments):
            return list(arguments)


def _commit(commit: Commit) -> Arguments:
    entry = commit.entry
    found = [
        b"commit", entry.job_id.encode(), entry.uid.encode(), b"%d" % commit.expected,
        b"%d" % commit.sequence, _YES if commit.document is None else _NO, pack_job(commit),
        pack_pairs(_face(entry)), pack_pairs(_turn(commit)), entry.tenant.encode(),
        b"%d" % entry.live, b"%d" % entry.waiting,
    ]  # fmt: skip
    if commit.definition is None:
        found.append(_NO)
    else:
        found += (_YES, b"%d" % entry.revision, pack_definition(commit))
    found += _batch(commit.batch)
    found.append(_count(commit.deliveries))
    for delivery in commit.deliveries:
        found += (delivery.delivery_id.encode(), pack(delivery))
    queued = [arguments for write in commit.queued for arguments in queued_arguments(write)]
    found += (_count(queued), *(part for arguments in queued for part in arguments))
    if commit.remembered is None:
        found.append(_NO)
    else:
        found += (_YES, *answer_arguments(commit.remembered))
    return found


def _face(entry: CatalogueEntry) -> list[tuple[str, bytes]]:
    """The job's places in indexes of values that few turns alter."""
    tenant, state = entry.tenant, entry.state
    values = {
        JobSort.JOB_ID: b"",
        JobSort.JOB_NAME: text(entry.job_name),
        JobSort.CREATED_AT: number(entry.created_at),
        JobSort.UPDATED_AT: number(entry.updated_at),
    }
    pairs = [(order(tenant, state, ORDER_NAMES[sort]), value) for sort, value in values.items()]
    pairs.append((UIDS, text(entry.uid)))
    if entry.parent_job is not None:
        pairs.append((children(entry.parent_job), b""))
    return pairs


def _turn(commit: Commit) -> list[tuple[str, bytes]]:
    """The job's places in indexes of values that any turn may alter. A destroyed job has no alarm."""
    entry, due = commit.entry, commit.due
    pairs = [
        (order(entry.tenant, entry.state, UNPLANNED), b"")
        if entry.next_fire is None
        else (order(entry.tenant, entry.state, _NEXT), number(entry.next_fire))
    ]
    if entry.live > 0:
        pairs.append((OPEN, b""))
    if commit.document is None:
        return pairs
    if due.wall is not None:
        pairs.append((DUE_WALL, number(due.wall)))
    if due.steady is not None:
        pairs.append((DUE_STEADY, number(due.steady)))
    return pairs


def _batch(batch: Batch | None) -> Arguments:
    if batch is None:
        return [_NO]
    return [_YES, batch_key(batch.uid, batch.sequence), pack_batch(batch)]


def _settle(write: Settle) -> Arguments:
    found = [b"settle", _count(write.settlements)]
    for one in write.settlements:
        found += (one.delivery.delivery_id.encode(), _YES if one.done else _NO)
        found.append(b"" if one.done else pack(one.delivery))
        found += _batch(one.batch)
    return found


def answer_arguments(kept: Remembered) -> Arguments:
    """The answer, and the moment before which others are deleted: they are kept for a day."""
    return [answer_key(kept.scope, kept.key), pack_answer(kept), number(kept.created_at - DAY)]


def _count(items: Sequence[object]) -> bytes:
    return b"%d" % len(items)
