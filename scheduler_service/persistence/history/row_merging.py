"""Merges the records of many turns into the fewest rows, and writes them: a short execution is one insert.

Of what is written a repetition does nothing, and what is newer wins.
"""

import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import DeliveryState
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.records import (
    Audited,
    DeliveryRecord,
    DeliveryTry,
    Detail,
    Exchange,
    ExecutionRecord,
    FiringRecord,
    ResultKept,
)
from scheduler_service.persistence.history.day_statistics import count_ended, has_ended
from scheduler_service.persistence.history.schema import (
    deliveries,
    entries,
    executions,
    firings,
    statistic_cells,
    statistic_slots,
)
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import Changes, Row, Upsert, json_rows, overwrite
from scheduler_service.persistence.tables.audit_lines import LINES, line_of
from scheduler_service.ports.history import Batch

Execution = tuple[str, int]
Entry = tuple[int, int, Detail | ResultKept]
"""The `sequence` of a record's turn, its `ordinal` in that turn, and the record."""
Firing = tuple[int, int, str, int | None, str | None]
_ENCODER = msgspec.msgpack.Encoder()


class DeliveryDetail(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The part of a delivery that has no column."""

    tries: tuple[DeliveryTry, ...] = ()
    exchange: Exchange | None = None
    next_try_at: int | None = None
    holder: str = ""


PIECE = 128
"""So many items are about a third of a millisecond of work."""
BREAK_SECONDS = 0.000_1
"""Long enough for another thread to wake up and take the interpreter."""

Item = TypeVar("Item")


def with_breaks(items: Iterable[Item]) -> Iterator[Item]:
    """The items; after each piece of them the other threads run.

    A thread that computes keeps the interpreter for 5 ms, whatever is due in the event loop meanwhile. A
    sleep of no length does not help: it is over before another thread has woken up. Each break costs two
    changes of threads.
    """
    left = iter(items)
    while len(piece := list(islice(left, PIECE))) == PIECE:
        yield from piece
        time.sleep(BREAK_SECONDS)
    yield from piece


class Rows(msgspec.Struct, frozen=True):
    """What one transaction writes, in the column order of `statements`."""

    executions: list[Row]
    entries: list[Row]
    firings: list[Row]
    deliveries: list[Row]
    audit: list[Row]


def coalesce(batches: Iterable[Batch]) -> Rows:
    """The rows of `batches`, whatever their order: of each execution and firing the highest sequence.

    Between pieces of the work it lets other threads run.
    """
    merged = _Merged()
    take = merged.take
    for batch in with_breaks(batches):
        take(batch)
    return merged.rows()


_GIVEN_UP = (DeliveryState.OUTBOX, DeliveryState.FAILED)


class _Merged:
    """Records by the keys of their rows: a row is made only of the one that counts in the end."""

    def __init__(self) -> None:
        self._executions: dict[Execution, tuple[Batch, ExecutionRecord]] = {}
        self._entries: dict[Execution, list[Entry]] = {}
        self._firings: dict[tuple[str, int, int, int], Firing] = {}
        self._deliveries: dict[str, tuple[tuple[int, int], Row]] = {}
        self._audit: list[Row] = []

    def take(self, batch: Batch) -> None:
        """Adds the records of one turn, with few calls: it runs for every turn."""
        record: Any  # by its type; any other than these four lies in `entries`
        key: Execution = (batch.uid, 0)  # made anew only where the number changes
        for ordinal, record in enumerate(batch.records):
            kind = type(record)
            if kind is FiringRecord:
                self._take_firing(batch, record)
                continue
            if kind is DeliveryRecord:
                self._take_delivery(batch, record)
                continue
            if kind is Audited:
                self._audit.append(line_of(batch, record))
                continue
            if record.execute_number != key[1]:
                key = (batch.uid, record.execute_number)
            if kind is ExecutionRecord:
                known = self._executions.get(key)
                if known is None or known[0].sequence <= batch.sequence:
                    self._executions[key] = (batch, record)
            else:
                found = self._entries.get(key)
                if found is None:
                    self._entries[key] = found = []
                found.append((batch.sequence, ordinal, record))

    def rows(self) -> Rows:
        entries = [_entry_row(key, found) for key, found in with_breaks(self._entries.items())]
        return Rows(
            executions=[_execution_row(*found) for found in self._executions.values()],
            entries=entries,
            firings=[(*key, *found) for key, found in self._firings.items()],
            deliveries=[row for _, row in self._deliveries.values()],
            audit=self._audit,
        )

    def _take_firing(self, batch: Batch, record: FiringRecord) -> None:
        until = record.planned_at if record.until is None else record.until
        key = (batch.uid, record.planned_at, until, record.execute_number or 0)
        found = (batch.sequence, batch.at, record.outcome._value_, record.count, record.reason)
        known = self._firings.get(key)
        self._firings[key] = found if known is None else _join_firings(known, found)

    def _take_delivery(self, batch: Batch, record: DeliveryRecord) -> None:
        rank = (len(record.tries), batch.at)
        given_up = batch.at if record.state in _GIVEN_UP else None
        known = self._deliveries.get(record.delivery_id)
        if known is None:
            self._deliveries[record.delivery_id] = (rank, _delivery_row(batch, record, given_up))
            return
        before: Any = known[1][-1]
        first = before if given_up is None else given_up if before is None else min(before, given_up)
        if known[0] <= rank:
            self._deliveries[record.delivery_id] = (rank, _delivery_row(batch, record, first))
        else:
            self._deliveries[record.delivery_id] = (known[0], (*known[1][:-1], first))


def _join_firings(one: Firing, other: Firing) -> Firing:
    """The later of two records of a firing, with values that only the earlier one has."""
    earlier, later = (one, other) if one[0] <= other[0] else (other, one)
    count = earlier[3] if later[3] is None else later[3]
    return (*later[:3], count, earlier[4] if later[4] is None else later[4])


def _execution_row(batch: Batch, record: ExecutionRecord) -> Row:
    # `value` of an enum is a property in Python, 0.2 µs each; `_value_` is what it returns.
    return (
        batch.uid,
        record.execute_number,
        batch.job_id,
        batch.tenant,
        batch.sequence,
        record.revision,
        record.state._value_,
        record.triggered_by._value_,
        record.planned_at,
        record.created_at,
        record.started_at,
        record.ended_at,
        record.reason,
        record.error,
        None if record.failure_type is None else record.failure_type._value_,
        record.attempt_count,
        record.progress,
        None if record.params is None else bytearray(record.params),
        int(record.params_complete),
    )


def _entry_row(key: Execution, found: list[Entry]) -> Row:
    sequences = [entry[0] for entry in found]
    value = bytearray()
    _ENCODER.encode_into(found, value)
    return (*key, min(sequences), max(sequences), value)


def _delivery_row(batch: Batch, record: DeliveryRecord, given_up: int | None) -> Row:
    detail = DeliveryDetail(record.tries, record.exchange, record.next_try_at, record.holder)
    return (
        record.delivery_id,
        batch.uid,
        record.execute_number,
        record.request_counts,
        batch.job_id,
        batch.tenant,
        record.event,
        record.name,
        record.url,
        record.state,
        record.created_at or batch.at,
        batch.at,
        len(record.tries),
        msgspec.msgpack.encode(detail),
        given_up,
    )


class Repetition(Exception):
    """Some of the executions were written before: which ones, `write_singly` finds."""


WriteExecutions = Callable[[Dialect, sa.Connection, Sequence[Row]], Sequence[Row]]
"""Writes rows of `executions`; those that were new, or newer than what was there."""


def insert_rows(
    dialect: Dialect,
    connection: sa.Connection,
    rows: Rows,
    *,
    write_executions: WriteExecutions,
    system_jobs: Collection[str] = (),
) -> None:
    """Writes all `rows` in the open transaction, table by table: of two nodes one waits, never both.

    Each execution that ends with this is added to the statistics. Raises Repetition: roll back.
    """
    written = write_executions(dialect, connection, rows.executions)
    cells, slots = count_ended(written, system_jobs)
    for upsert, found in (
        (ENTRIES, rows.entries),
        (FIRINGS, rows.firings),
        (DELIVERIES, rows.deliveries),
        (CELLS, cells),
        (SLOTS, slots),
        (LINES, rows.audit),
    ):
        dialect.insert_many(connection, upsert, found)


def write_together(dialect: Dialect, connection: sa.Connection, rows: Sequence[Row]) -> Sequence[Row]:
    """Writes all by few statements. Raises Repetition where one was there that may have been counted."""
    written = dialect.insert_many(connection, EXECUTIONS, rows)
    if written < len(rows) and any(map(has_ended, rows)):
        raise Repetition
    return rows


def write_singly(dialect: Dialect, connection: sa.Connection, rows: Sequence[Row]) -> Sequence[Row]:
    """Writes one after the other, in the order of their keys: slow, but says which of them were new."""
    ordered = sorted(rows, key=lambda row: row[:2])
    return [row for row in ordered if dialect.insert_many(connection, EXECUTIONS, [row])]


def mark_dropped(dialect: Dialect, connection: sa.Connection, dropped: Iterable[tuple[str, int]]) -> None:
    """Marks executions whose detail was dropped before it was written."""
    keys = sorted(dropped)
    if keys:
        table, of = executions.c, json_rows(sa.literal(msgspec.json.encode(keys).decode())).c
        is_one = dialect.among((table.uid, table.execute_number), (of.name, of.number))
        connection.execute(sa.update(executions).values(dropped=1).where(is_one))


def dismiss_lost(connection: sa.Connection, name: str, holders: Container[str], now: int) -> bool:
    """Gives up a delivery that is pending here, unless one of `holders` has it; whether it did.

    `name` is its id with its tenant, as a job's key; `now` is wall ms.
    """
    (tenant, delivery_id), table = read_job_key(name), deliveries.c
    is_own = (table.delivery_id == delivery_id) & (table.tenant == tenant)
    is_pending = is_own & (table.state == DeliveryState.PENDING.value)
    found = connection.execute(sa.select(table.payload, table.at).where(is_pending)).first()
    detail = None if found is None else msgspec.msgpack.decode(found.payload, type=DeliveryDetail)
    if found is None or detail is None or detail.holder in holders:
        return False
    left = msgspec.msgpack.encode(msgspec.structs.replace(detail, next_try_at=None, holder=""))
    given_up = {"state": DeliveryState.DISMISSED.value, "payload": left, "at": max(found.at, now)}
    connection.execute(sa.update(deliveries).where(is_pending).values(given_up))
    return True


def _columns(table: sa.Table, *but: str) -> tuple[str, ...]:
    """The columns in the order of the schema, which is that of `Rows`."""
    return tuple(column.name for column in table.c if column.name not in but)


def _key(table: sa.Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.primary_key)


def _add(table: sa.Table, *columns: str) -> Changes:
    """What is new is added to what is there."""
    return tuple((name, f'{table.name}."{name}"+excluded."{name}"') for name in columns)


EXECUTIONS = Upsert(
    executions,
    _columns(executions, "dropped"),
    _key(executions),
    overwrite(*_columns(executions, "uid", "execute_number", "job_id", "tenant", "dropped")),
    # An execution ends once, and is counted then: a row that has ended stays as it is.
    guard="excluded.sequence>executions.sequence AND executions.ended_at IS NULL",
    rare=("reason", "error", "failure_type", "progress"),
)
ENTRIES = Upsert(entries, _columns(entries, "id"), ("uid", "execute_number", "first", "last"))
FIRINGS = Upsert(
    firings,
    _columns(firings),
    _key(firings),
    (
        *overwrite("sequence", "at", "outcome"),
        ("count", 'coalesce(excluded."count",firings."count")'),
        ("reason", "coalesce(excluded.reason,firings.reason)"),
    ),
    guard="excluded.sequence>firings.sequence",
    rare=("reason",),
)
DELIVERIES = Upsert(
    deliveries,
    _columns(deliveries),
    _key(deliveries),
    (
        *overwrite("state", "at", "tries", "url", "payload"),
        ("given_up_at", "coalesce(deliveries.given_up_at,excluded.given_up_at)"),
    ),
    guard="(excluded.tries,excluded.at)>=(deliveries.tries,deliveries.at)",
)
CELLS = Upsert(
    statistic_cells,
    _columns(statistic_cells),
    _key(statistic_cells),
    _add(statistic_cells, "executions", "attempts", "lateness_ms", "duration_ms"),
)
SLOTS = Upsert(
    statistic_slots, _columns(statistic_slots), _key(statistic_slots), _add(statistic_slots, "executions")
)
