"""What turns write into the queues of a cluster: parts published, withdrawn, given other options."""

from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.effects import (
    AcceptChanges,
    PublishParts,
    QueueWrite,
    ReconfigureParts,
    WithdrawParts,
)
from scheduler_service.domain.parts import PartName, QueuedPart, QueueOptions, write_part_id
from scheduler_service.persistence.common.writes import pack
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import IsIn
from scheduler_service.persistence.sql.job_tables import jobs
from scheduler_service.persistence.sql_cluster.schema import queue_parts, queue_turns
from scheduler_service.ports.cluster import QueueTurn

FREE, LEASED, ENDED, CANCELLED = 0, 1, 2, 3
"""`state`: may be claimed; leased; over; leased, but withdrawn by its job."""
IS_FREE_AGAIN = {"state": FREE, "instance": None, "lease": None, "until": None}

_part = queue_parts.c


def write_all(connection: sa.Connection, dialect: Dialect, writes: Iterable[QueueWrite]) -> None:
    """Writes what a turn wants in the queues, in the transaction of its claim."""
    for write in writes:
        _write(connection, dialect, write)


def write_turn(connection: sa.Connection, dialect: Dialect, turn: QueueTurn) -> bool:
    """Writes what a state of 0.1.0 wants, once; False: the queues had it, or a later turn of its life."""
    row = {"uid": turn.uid, "sequence": turn.sequence, "at": turn.at}
    insert = dialect.insert(queue_turns).values(row)
    is_older = queue_turns.c.sequence < turn.sequence
    mark = insert.on_conflict_do_update(index_elements=[queue_turns.c.uid], set_=row, where=is_older)
    if connection.execute(mark.returning(queue_turns.c.uid)).first() is None:
        return False
    write_all(connection, dialect, turn.writes)
    return True


def forget_turns(connection: sa.Connection, before: int) -> None:
    """Forgets what was written last for jobs that are gone, if that was before `before` (steady ms)."""
    lives = sa.select(jobs.c.uid).where(jobs.c.uid == queue_turns.c.uid, jobs.c.state != "destroyed")
    connection.execute(sa.delete(queue_turns).where(queue_turns.c.at < before, ~lives.exists()))


def is_of_step(name: PartName) -> sa.ColumnElement[bool]:
    """Whether a row is a part of the same step as `name`."""
    return sa.and_(
        _part.uid == name.uid,
        _part.execute_number == name.execute_number,
        _part.request_counts == name.request_counts,
        _part.step == name.step,
    )


def _write(connection: sa.Connection, dialect: Dialect, write: QueueWrite) -> None:
    match write:
        case PublishParts(parts=parts):
            _publish(connection, dialect, parts)
        case WithdrawParts():
            _withdraw(connection, write)
        case ReconfigureParts(name=name, options=options):
            _reconfigure(connection, name, options)
        case AcceptChanges(name=name, serial=serial):
            # A newer change keeps all of them; the job ignores those that it has acknowledged.
            accepted = sa.update(queue_parts).values(changes="")
            connection.execute(accepted.where(_part.part_id == write_part_id(name), _part.serial == serial))


def _publish(connection: sa.Connection, dialect: Dialect, parts: Iterable[QueuedPart]) -> None:
    insert = dialect.insert(queue_parts).on_conflict_do_nothing(index_elements=[_part.part_id])
    connection.execute(insert, [_row(part) for part in parts])


def _withdraw(connection: sa.Connection, write: WithdrawParts) -> None:
    where = (_part.uid == write.uid) & (_part.execute_number == write.execute_number)
    if write.request_counts:
        where &= _part.request_counts == write.request_counts
    # Held first: a lease that ends or begins between the two would leave a part that nobody awaits.
    connection.execute(sa.select(_part.part_id).where(where).order_by(_part.part_id).with_for_update()).all()
    connection.execute(sa.delete(queue_parts).where(where, _part.state.in_((FREE, ENDED))))
    connection.execute(sa.update(queue_parts).where(where, _part.state == LEASED).values(state=CANCELLED))


def _reconfigure(connection: sa.Connection, name: PartName, options: QueueOptions) -> None:
    """Options apply from the next claim on, those of renewals from the next renewal. The lease of an instance
    that is no longer named ends now; this is not a retry.
    """
    where = is_of_step(name)
    expires = sa.case(
        (_part.expires.is_(None), sa.null()), else_=_part.published + sa.literal(options.queue_timeout)
    )
    values = {**_options(options), "expires": expires}
    connection.execute(sa.update(queue_parts).where(where).values(values))
    if options.specific:
        is_named = IsIn(_part.instance, sa.literal(_specific(options)))
        gone = sa.update(queue_parts).where(where, _part.state == LEASED, sa.not_(is_named))
        connection.execute(gone.values(IS_FREE_AGAIN))


def _row(part: QueuedPart) -> dict[str, Any]:
    name, options = part.name, part.options
    expires = None if part.published is None else part.published + options.queue_timeout
    return {
        "part_id": write_part_id(name),
        "uid": name.uid,
        "execute_number": name.execute_number,
        "request_counts": name.request_counts,
        "step": name.step,
        "total": part.total,
        "tenant": part.tenant,
        "queue": part.queue,
        **_options(options),
        "created_at": part.created_at,
        "state": FREE,
        "free_at": 0,
        "retries": 0,
        "content": pack(part),
        "published": part.published,
        "expires": expires,
        "serial": 0,
        "changes": "",
        "noted_at": 0,
    }


def _options(options: QueueOptions) -> dict[str, Any]:
    return {
        "priority": options.priority,
        "named": int(bool(options.specific)),
        "specific": _specific(options),
        "options": pack(options),
    }


def _specific(options: QueueOptions) -> str:
    return msgspec.json.encode(options.specific).decode()
