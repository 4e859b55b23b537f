"""The audit in the history's database: lines of turns come with their records, all others from here."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.audit_acts import (
    ActKind,
    ActOutcome,
    AuditEntry,
    OwnAct,
    Via,
)
from scheduler_service.domain.execution import write_execution_id
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.records import Audited
from scheduler_service.persistence.common.pagination import Number, mark_list, read_cursor, write_cursor
from scheduler_service.persistence.sql.database import Database, DatabaseThreads
from scheduler_service.persistence.sql.expressions import WHERE, Contains, Row, Upsert, overwrite, text
from scheduler_service.ports.audit import AuditQuery, AuditWire
from scheduler_service.ports.history import Batch

MANY = "[]"
"""Stands for the job in a line of several jobs: no job has such an id."""
_encode = msgspec.json.Encoder().encode
_DETAIL = msgspec.json.Decoder(dict[str, Any])
metadata = sa.MetaData()

# `detail` is a JSON object: `given`, `difference`, `items`. `at` is wall ms.
audit = sa.Table(
    "audit",
    metadata,
    sa.Column("id", text(128), primary_key=True),
    sa.Column("tenant", text(128), nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("via", text(16), nullable=False),
    sa.Column("who", text(256), nullable=False),
    sa.Column("key_id", text(64), nullable=False),
    sa.Column("address", text(64), nullable=False),
    sa.Column("operation", text(64), nullable=False),
    sa.Column("kind", text(16), nullable=False),
    sa.Column("subject", text(400), nullable=False),
    sa.Column("job_id", text(260)),
    sa.Column("service", text(128)),
    sa.Column("uid", text(64)),
    sa.Column("execute_number", sa.BigInteger),
    sa.Column("revision", sa.BigInteger),
    sa.Column("outcome", text(16), nullable=False),
    sa.Column("status", sa.BigInteger),
    sa.Column("detail", sa.LargeBinary, nullable=False),
)
sa.Index("audit_newest", audit.c.tenant, audit.c.at)
sa.Index("audit_of_job", audit.c.tenant, audit.c.job_id, audit.c.at)
sa.Index("audit_by_age", audit.c.at)
_OF_EXECUTION = audit.c.execute_number.is_not(None)
sa.Index(
    "audit_of_execution",
    audit.c.uid,
    audit.c.execute_number,
    sqlite_where=_OF_EXECUTION,
    info={WHERE: _OF_EXECUTION},
)

_COLUMNS = tuple(column.name for column in audit.c)
LINES = Upsert(audit, _COLUMNS, ("id",))
"""Of a turn: a repetition does nothing."""
_OUTCOMES = Upsert(audit, _COLUMNS, ("id",), overwrite("tenant", "subject", "outcome", "status", "detail"))
BACKFILL, MOST_BACKFILLED = "backfillJob", 1_000
"""The operation of which one line is about several executions, and how many those are at most."""


class AuditPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last line of a page."""

    at: Number
    entry_id: str


class SqlAudit:
    """Writes lines that belong to no turn, and reads all. Everything raises StoreUnavailable."""

    def __init__(self, *, database: Database) -> None:
        self._database = database
        thread = DatabaseThreads(database, name="audit")
        self._read, self._write, self.close = thread.read, thread.write, thread.close

    async def put(self, entry: AuditEntry) -> None:
        """Writes a line; one that is there gets the outcome of `entry`, and what is known since."""
        await self._write(lambda connection: self._put(connection, [row_of(entry)]))

    def put_now(self, entry: AuditEntry) -> None:
        """The same in the calling thread, for commands without a server."""
        self._database.write(lambda connection: self._put(connection, [row_of(entry)]))

    async def drop(self, entry_id: str) -> None:
        """Removes a line that was asked for, where nothing had to be changed."""
        await self._write(lambda one: one.execute(sa.delete(audit).where(audit.c.id == entry_id)))

    async def page(self, query: AuditQuery) -> tuple[Sequence[AuditWire], str | None]:
        """A page in wire form, and the cursor of the next one. Raises CursorError."""
        mark, found = _mark(query), list[Any]()
        place = None if query.cursor is None else read_cursor(mark, query.cursor, AuditPlace)
        while len(found) <= query.limit:
            rows = await self._read(partial(_read_rows, wanted=_select(query, place)))
            found += [row for row in rows if _is_about(row, query.job_id)]
            if len(rows) <= query.limit:
                break
            place = AuditPlace(rows[-1].at, rows[-1].id)
        shown = found[: query.limit]
        is_last = len(found) <= query.limit
        following = None if is_last else write_cursor(mark, AuditPlace(shown[-1].at, shown[-1].id))
        return [write_line(row) for row in shown], following

    async def of_execution(self, tenant: str, uid: str, execute_number: int) -> Sequence[AuditWire]:
        """Who triggered, replayed, cancelled or released it, in order."""
        table = audit.c
        is_own = (table.tenant == tenant, table.uid == uid)
        near = table.execute_number.between(execute_number - MOST_BACKFILLED, execute_number)
        of_it = sa.and_(near, sa.or_(table.execute_number == execute_number, table.operation == BACKFILL))
        wanted = sa.select(audit).where(*is_own, of_it).order_by(table.at, table.id)
        rows = await self._read(lambda connection: connection.execute(wanted).all())
        found = [row for row in rows if row.execute_number == execute_number or _has(row, execute_number)]
        return [
            {
                "operation": row.operation,
                "who": row.who,
                "keyId": row.key_id or None,
                "via": row.via,
                "at": rfc3339(row.at),
            }
            for row in found
        ]

    def _put(self, connection: sa.Connection, rows: Sequence[Row]) -> int:
        return self._database.dialect.insert_many(connection, _OUTCOMES, rows)


_PAUSES = (OwnAct.PAUSE_OF_GONE, OwnAct.PAUSE_OF_FAILURES)


def line_of(batch: Batch, record: Audited) -> Row:
    """The line of a turn."""
    act, number = record.act, record.execute_number
    job_id = read_job_key(batch.job_id)[1]
    kind = ActKind.JOB if number is None else ActKind.EXECUTION
    subject = job_id if number is None else write_execution_id(batch.uid, number)
    is_beside = act.operation in _PAUSES  # the turn of a caller may bring it
    return (
        f"{batch.uid}.{batch.sequence}{'.pause' if is_beside else ''}",
        batch.tenant,
        batch.at,
        act.via.value,
        act.who,
        act.key_id,
        act.address,
        act.operation,
        kind.value,
        subject,
        job_id,
        act.service or None,
        batch.uid,
        number,
        record.revision or None,
        ActOutcome.DONE.value,
        record.status,
        bytearray(act.detail or b"{}"),
    )


def row_of(entry: AuditEntry) -> Row:
    """The line of a request, or of what the service did."""
    act = entry.act
    detail = act.detail or b"{}"
    if entry.items:
        detail = _encode(_DETAIL.decode(detail) | {"items": entry.items})
    is_many = entry.kind is ActKind.JOBS
    return (
        entry.entry_id,
        entry.tenant,
        entry.at,
        act.via.value,
        act.who,
        act.key_id,
        act.address,
        act.operation,
        entry.kind.value,
        entry.subject,
        entry.job_id or (MANY if is_many else None),
        entry.subject if entry.kind is ActKind.SERVICE else act.service or None,
        None,
        None,
        None,
        entry.outcome.value,
        entry.status,
        bytearray(detail),
    )


def write_line(row: Any) -> AuditWire:
    """A line as the API shows it."""
    detail = _DETAIL.decode(bytes(row.detail))
    is_of_execution = row.uid is not None and row.execute_number is not None
    return {
        "id": row.id,
        "at": rfc3339(row.at),
        "who": row.who,
        "keyId": row.key_id or None,
        "via": Via(row.via),
        "address": row.address or None,
        "operation": row.operation,
        "kind": ActKind(row.kind),
        "subject": row.subject,
        "jobId": None if row.job_id == MANY else row.job_id,
        "executionId": write_execution_id(row.uid, row.execute_number) if is_of_execution else None,
        "service": row.service,
        "fromRevision": detail.get("fromRevision"),
        "revision": row.revision,
        "outcome": ActOutcome(row.outcome),
        "status": row.status,
        "given": detail.get("given", {}),
        "difference": detail.get("difference", []),
        "items": detail.get("items", []),
        "truncated": detail.get("truncated", False),
    }


def _has(backfill: sa.Row[Any], number: int) -> bool:
    """Whether a backfill, whose line has its first execution, made this one, too."""
    given = _DETAIL.decode(bytes(backfill.detail)).get("given", {})
    return bool(number < backfill.execute_number + given.get("executions", 0))


def _mark(query: AuditQuery) -> str:
    """That of its cursors."""
    asked = (query.who, query.key_id, query.operation, query.job_id, query.service)
    return mark_list("audit", query.tenant, *asked)


def _read_rows(connection: sa.Connection, wanted: sa.Select[Any]) -> Sequence[Any]:
    return connection.execute(wanted).all()


def _is_about(row: Any, job_id: str | None) -> bool:
    """Whether a line is about this job: the search in texts also finds its id as another word."""
    if job_id is None or (row.job_id == job_id and job_id != MANY):
        return True
    return job_id in _DETAIL.decode(bytes(row.detail)).get("items", ())


def _select(query: AuditQuery, after: AuditPlace | None) -> sa.Select[Any]:
    """The lines behind `after`, and one more than a page has; some may not be about the job."""
    table = audit.c
    conditions: list[sa.ColumnElement[bool]] = [table.tenant == query.tenant]
    named = (
        (table.who, query.who),
        (table.key_id, query.key_id),
        (table.operation, query.operation),
        (table.service, query.service),
    )
    conditions += [column == value for column, value in named if value is not None]
    if query.job_id is not None:
        part = sa.literal(_encode(query.job_id), sa.LargeBinary)
        conditions.append(table.job_id.in_((query.job_id, MANY)))
        conditions.append(sa.or_(table.job_id == query.job_id, Contains(table.detail, part)))
    if query.since is not None:
        conditions.append(table.at >= query.since)
    if query.until is not None:
        conditions.append(table.at <= query.until)
    if after is not None:
        conditions.append(table.at <= after.at)
        conditions.append(sa.tuple_(table.at, table.id) < (after.at, after.entry_id))
    order = (table.at.desc(), table.id.desc())
    return sa.select(audit).where(*conditions).order_by(*order).limit(query.limit + 1)
