"""The lines of the alerts in SQL: `ports.alerts.AlertTable` in the history's database."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.audit_acts import OwnAct
from scheduler_service.domain.execution import DeliveryState, ExecutionState, FailureType, TriggeredBy
from scheduler_service.domain.job_key import DEFAULT_TENANT, SEPARATOR, read_job_key, write_job_key
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.persistence.history.row_shapes import last_answer
from scheduler_service.persistence.history.schema import (
    ENDED_BADLY,
    GIVEN_UP,
    alert_marks,
    alerts,
    deliveries,
    executions,
)
from scheduler_service.persistence.history.stored_records import read_failures
from scheduler_service.persistence.sql.database import Database, DatabaseThreads
from scheduler_service.persistence.sql.expressions import replacing
from scheduler_service.persistence.tables.audit_lines import audit
from scheduler_service.ports.alerts import (
    AlertLine,
    AlertOccasion,
    AlertState,
    EndedExecution,
    Tallied,
    Waiting,
)
from scheduler_service.telemetry.event_source import Take
from scheduler_service.telemetry.logs import told_message

FOUND_HERE = frozenset({OccurrenceKind.OVERDUE, OccurrenceKind.FAILING})
"""What alerts alone find out; all else that they tell was an occurrence before."""

_PAUSES = {OwnAct.PAUSE_OF_GONE.value: "gone", OwnAct.PAUSE_OF_FAILURES.value: "failures"}
Key = tuple[str, str, str]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Occurrence).decode
_OPEN, _RECOVERED = AlertState.OPEN.value, AlertState.RECOVERED.value
# Of a line that was said and has recovered since, its end is one.
_HAPPENINGS = sa.func.sum(sa.case((alerts.c.unsaid > 1, alerts.c.unsaid), else_=1))
_TALLIES = (
    sa.select(alerts.c.kind, alerts.c.state, sa.func.count(), _HAPPENINGS)
    .group_by(alerts.c.kind, alerts.c.state)
    .order_by(alerts.c.kind, alerts.c.state)
)
_ALERTS, _MARKS = replacing(alerts), replacing(alert_marks)
_EXTENT = sa.select(sa.func.count(alerts.c.subject.distinct()), sa.func.max(alerts.c.at))


class SqlAlertTable:
    """ports.AlertTable for all tenants over the history's database, in a thread of its own.

    Findings that were not known, and all ends, go to `publish`, too: readers of events see `overdue`,
    `failing` and `recovered`. Several alerts may find the same: each of them publishes it, and names itself.
    """

    def __init__(self, *, database: Database, publish: Take = lambda _: None) -> None:
        self._database = database
        self._publish = publish
        thread = DatabaseThreads(database, name="alerts")
        self._read, self._write, self.close = thread.read, thread.write, thread.close

    async def marks(self) -> Mapping[str, int]:
        wanted = sa.select(alert_marks)
        return await self._read(
            lambda connection: {row.name: row.moment for row in connection.execute(wanted)}
        )

    async def note(self, noted: Sequence[AlertOccasion], marks: Mapping[str, int]) -> Sequence[AlertOccasion]:
        """Nothing to keep costs nothing."""
        if not noted and not marks:
            return ()

        def write(connection: sa.Connection) -> list[AlertOccasion]:
            new = [one for one in noted if self._note(connection, one)]
            self._database.dialect.insert_many(connection, _MARKS, list(marks.items()))
            return new

        new = await self._write(write)
        for one in new:
            if one.occurrence.kind in FOUND_HERE:
                self._publish(msgspec.structs.replace(one.occurrence, subject=one.alert))
        return new

    async def recover(self, lines: Sequence[AlertLine], at: int) -> None:
        def write(connection: sa.Connection) -> None:
            for line in lines:
                connection.execute(
                    sa.update(alerts)
                    .where(_is(line.key), alerts.c.state == _OPEN)
                    .values(state=_RECOVERED, at=at, waits=1)
                )

        await self._write(write)
        for line in lines:
            self._publish(_end_of(line, at))

    async def drop(self, lines: Sequence[AlertLine]) -> None:
        def write(connection: sa.Connection) -> None:
            for line in lines:
                connection.execute(sa.delete(alerts).where(_is(line.key)))

        await self._write(write)

    async def open(
        self,
        kinds: Sequence[OccurrenceKind],
        limit: int,
        after: AlertLine | None = None,
        *,
        is_own: bool = False,
    ) -> Sequence[AlertLine]:
        table = alerts.c
        wanted = sa.select(alerts).where(*_open(is_own))
        if after is not None:
            place = sa.tuple_(table.subject, table.alert, table.kind)
            wanted = wanted.where(place > sa.tuple_(after.subject, after.alert, after.kind.value))
        if kinds:
            wanted = wanted.where(table.kind.in_([kind.value for kind in kinds]))
        ordered = wanted.order_by(table.subject, table.alert, table.kind).limit(limit)
        return await self._read(lambda connection: [_line(row) for row in connection.execute(ordered)])

    async def count_open(self, *, is_own: bool = False) -> int:
        wanted = sa.select(sa.func.count()).select_from(alerts).where(*_open(is_own))
        return await self._read(lambda connection: int(connection.execute(wanted).scalar_one()))

    async def waiting(self, alert: str, until: int, limit: int) -> Waiting:
        conditions = _waiting(alert, until)
        wanted = sa.select(alerts).where(*conditions).order_by(alerts.c.at, alerts.c.subject).limit(limit)

        def read(connection: sa.Connection) -> Waiting:
            found = tuple(_line(row) for row in connection.execute(wanted))
            if not found:
                return Waiting(lines=(), subjects=0, newest=0, tallied=())
            subjects, newest = connection.execute(_EXTENT.where(*conditions)).one()
            rows = connection.execute(_TALLIES.where(*conditions)).all()
            return Waiting(lines=found, subjects=subjects, newest=newest, tallied=tuple(map(_tallied, rows)))

        return await self._read(read)

    async def said(self, lines: Sequence[AlertLine], at: int) -> None:
        def write(connection: sa.Connection) -> None:
            for line in lines:
                known = connection.execute(sa.select(alerts).where(_is(line.key))).first()
                if known is None:
                    continue
                is_same = (known.at, known.total, known.state) == (line.at, line.total, line.state.value)
                left = 0 if is_same else max(known.unsaid - line.count, 0)
                values = {"said_at": at, "unsaid": left, "waits": int(not is_same)}
                connection.execute(sa.update(alerts).where(_is(line.key)).values(**values))

        await self._write(write)

    async def said_all(self, alert: str, until: int, at: int, waiting: Waiting) -> None:
        conditions = (*_waiting(alert, until), alerts.c.at <= waiting.newest)
        now = sa.select(sa.func.count(), _HAPPENINGS).where(*conditions)
        statement = sa.update(alerts).where(*conditions).values(said_at=at, unsaid=0, waits=0)

        def write(connection: sa.Connection) -> None:
            if tuple(connection.execute(now).one()) == (waiting.total, waiting.happenings):
                connection.execute(statement)

        await self._write(write)

    async def purge(self, before: int, names: Sequence[str]) -> None:
        table = alerts.c
        is_over = (table.waits == 0) & (table.state != _OPEN) & (table.said_at < before) & (table.at < before)
        statement = sa.delete(alerts).where(is_over | table.alert.not_in(names))
        await self._write(lambda connection: connection.execute(statement).rowcount)

    async def ended_badly(self, since: int, limit: int, skip: int) -> Sequence[Occurrence]:
        return await self._read(lambda connection: read_ended_badly(connection, since, limit, skip))

    async def given_up(self, since: int, limit: int, skip: int) -> Sequence[Occurrence]:
        return await self._read(lambda connection: read_given_up(connection, since, limit, skip))

    async def paused(self, since: int, limit: int, skip: int) -> Sequence[Occurrence]:
        return await self._read(lambda connection: read_paused(connection, since, limit, skip))

    async def late(self, first: int, last: int, bound: int, limit: int, skip: int) -> Sequence[Occurrence]:
        return await self._read(lambda connection: read_late(connection, first, last, bound, limit, skip))

    async def runs(self, job_ids: Sequence[str], most: int) -> Mapping[str, Sequence[EndedExecution]]:
        return await self._read(lambda connection: read_runs(connection, job_ids, most))

    def _note(self, connection: sa.Connection, one: AlertOccasion) -> bool:
        """Whether it was not known."""
        key = (one.alert, one.occurrence.kind.value, one.subject)
        known = connection.execute(sa.select(alerts).where(_is(key))).first()
        values = _first(one) if known is None else _next(known, one)
        if values:
            row = (*key, *(values[name] for name in _ALERTS.columns[len(key) :]))
            self._database.dialect.insert_many(connection, _ALERTS, [row])
        return bool(values)


def _end_of(line: AlertLine, at: int) -> Occurrence:
    return Occurrence(
        kind=OccurrenceKind.RECOVERED,
        at=at,
        tenant=line.occurrence.tenant,
        job_id=line.occurrence.job_id,
        uid=line.occurrence.uid,
        reason=line.kind.value,
        # The tenant is a member of its own, as in the event of what has ended.
        subject=line.subject.removeprefix(write_job_key(line.occurrence.tenant or DEFAULT_TENANT, "")),
    )


def _first(one: AlertOccasion) -> dict[str, Any]:
    at = one.occurrence.at
    state = AlertState.OPEN if one.lasts else AlertState.POINT
    return {
        "state": state.value,
        "since": at,
        "at": at,
        "unsaid": 1,
        "total": 1,
        "waits": 1,
        "said_at": None,
        "payload": _encode(one.occurrence),
    }


def _next(known: Any, one: AlertOccasion) -> dict[str, Any] | None:
    """What changes with one more happening; None: it is known."""
    is_next = _place(one.occurrence) > _place(_decode(bytes(known.payload))) and one.occurrence.at >= known.at
    if known.state == _OPEN or not (is_next or (one.is_new and not one.lasts)):
        return None
    more = {"unsaid": known.unsaid + 1, "total": known.total + 1}
    is_more = known.unsaid > 0 and not one.lasts and known.state != _RECOVERED
    if not is_next:
        since = min(known.since, one.occurrence.at) if is_more else one.occurrence.at
        kept = {name: getattr(known, name) for name in ("state", "at", "said_at", "payload")}
        return kept | more | {"waits": 1, "since": since}
    values = _first(one) | more | {"said_at": known.said_at}
    return values | {"since": known.since} if is_more else values


def _place(one: Occurrence) -> tuple[int, str, str, int]:
    """Its place among those of its line, as they are read."""
    return one.at, one.subject or "", one.uid or "", one.execute_number or 0


def _tallied(row: Any) -> Tallied:
    kind, state, lines, happenings = row
    return Tallied(OccurrenceKind(kind), AlertState(state), lines, int(happenings))


def _waiting(alert: str, until: int) -> Iterable[sa.ColumnElement[bool]]:
    table = alerts.c
    return table.alert == alert, table.waits == 1, table.said_at.is_(None) | (table.said_at <= until)


def _open(is_own: bool) -> Iterable[sa.ColumnElement[bool]]:
    yield alerts.c.state == _OPEN
    if is_own:  # what lasts of a tenant is a job or an instance: its subject has the tenant in front
        yield alerts.c.subject.not_like(f"%{SEPARATOR}%")


def _is(key: Key) -> sa.ColumnElement[bool]:
    table = alerts.c
    return (table.alert == key[0]) & (table.kind == key[1]) & (table.subject == key[2])


def _line(row: Any) -> AlertLine:
    return AlertLine(
        alert=row.alert,
        kind=OccurrenceKind(row.kind),
        subject=row.subject,
        state=AlertState(row.state),
        since=row.since,
        at=row.at,
        count=row.unsaid,
        total=row.total,
        said_at=row.said_at,
        occurrence=_decode(bytes(row.payload)),
    )


BESIDE = 100
"""Of a job's newest executions so many may be live, skipped or cancelled without hiding the others."""
_JUDGED = (ExecutionState.SUCCEEDED.value, ExecutionState.TERMINATED.value)
_SETTLED = (DeliveryState.DELIVERED.value, DeliveryState.DISMISSED.value)
_NOT_BEGUN = (ExecutionState.SCHEDULED.value, ExecutionState.ENQUEUED.value)


def read_ended_badly(connection: sa.Connection, since: int, limit: int, skip: int) -> list[Occurrence]:
    """Executions that failed or were cancelled from `since` on, in order of their end, but `skip` of them."""
    table = executions.c
    wanted = sa.select(
        table.uid, table.execute_number, table.sequence, table.job_id, table.tenant, table.state,
        table.triggered_by, table.planned_at, table.ended_at, table.reason, table.error, table.failure_type,
    ).where(ENDED_BADLY, table.ended_at >= since)  # fmt: skip
    rows = connection.execute(
        wanted.order_by(table.ended_at, table.uid, table.execute_number).limit(limit).offset(skip)
    ).all()
    failures = read_failures(connection, rows)
    return [
        Occurrence(
            kind=OccurrenceKind.FINAL_FAILED,
            at=row.ended_at,
            tenant=row.tenant,
            job_id=row.job_id,
            uid=row.uid,
            execute_number=row.execute_number,
            triggered_by=TriggeredBy(row.triggered_by),
            state=row.state,
            reason=row.reason,
            error=row.error,
            failure_type=None if row.failure_type is None else FailureType(row.failure_type),
            planned_at=row.planned_at,
            message=told_message(failures.get((row.uid, row.execute_number))),
        )
        for row in rows
    ]


def read_given_up(connection: sa.Connection, since: int, limit: int, skip: int) -> list[Occurrence]:
    """Deliveries given up from `since` on that still are not delivered, in order, but `skip` of them.

    Once is enough: the outbox tries them again and again.
    """
    table = deliveries.c
    wanted = sa.select(
        table.delivery_id, table.uid, table.execute_number, table.request_counts, table.job_id, table.tenant,
        table.event, table.state, table.given_up_at, table.tries, table.payload,
    ).where(GIVEN_UP, table.given_up_at >= since, table.state.not_in(_SETTLED))  # fmt: skip
    rows = connection.execute(wanted.order_by(table.given_up_at, table.delivery_id).limit(limit).offset(skip))
    return [
        Occurrence(
            kind=OccurrenceKind.UNDELIVERABLE,
            at=row.given_up_at,
            tenant=row.tenant,
            job_id=row.job_id,
            uid=row.uid,
            execute_number=row.execute_number,
            request_counts=row.request_counts,
            state=row.state,
            count=row.tries,
            subject=row.delivery_id,
            error=last_answer(row.payload),
            message=f"the notification of {row.event}",
        )
        for row in rows
    ]


def read_paused(connection: sa.Connection, since: int, limit: int, skip: int) -> list[Occurrence]:
    """Jobs that the service has paused by itself from `since` on, in order, but `skip` of them."""
    line, run = audit.c, executions.c
    wanted = (
        sa.select(
            run.uid, run.execute_number, run.sequence, run.job_id, run.tenant, run.error, run.failure_type,
            line.at, line.operation, line.revision, line.detail,
        )
        .join_from(audit, executions, (run.uid == line.uid) & (run.execute_number == line.execute_number))
        .where(line.at >= since, line.operation.in_(_PAUSES))
    )  # fmt: skip
    rows = connection.execute(wanted.order_by(line.at, line.id).limit(limit).offset(skip)).all()
    failures = read_failures(connection, rows)
    return [
        Occurrence(
            kind=OccurrenceKind.JOB_PAUSED,
            at=row.at,
            tenant=row.tenant,
            job_id=row.job_id,
            uid=row.uid,
            execute_number=row.execute_number,
            reason=_PAUSES[row.operation],
            error=row.error,
            failure_type=None if row.failure_type is None else FailureType(row.failure_type),
            count=_failures_in(row.detail),
            revision=row.revision,
            message=told_message(failures.get((row.uid, row.execute_number))),
        )
        for row in rows
    ]


def _failures_in(detail: bytes) -> int | None:
    """So many in a row paused the job; None: something else did."""
    given = msgspec.json.decode(detail, type=dict[str, Any]).get("given") if detail else None
    return int(given["failures"]) if isinstance(given, dict) and "failures" in given else None


def _select_tenants() -> sa.Select[tuple[str | None]]:
    """The tenants that have executions: one step in an index for each, however many executions there are."""
    table = executions.c
    found = sa.select(sa.func.min(table.tenant).label("tenant")).cte("tenants", recursive=True)
    following = sa.select(sa.func.min(table.tenant)).where(table.tenant > found.c.tenant).scalar_subquery()
    found = found.union_all(sa.select(following).where(found.c.tenant.is_not(None)))
    return sa.select(found.c.tenant)


_TENANTS = _select_tenants()


def read_late(
    connection: sa.Connection, first: int, last: int, bound: int, limit: int, skip: int
) -> list[Occurrence]:
    """Firings planned in `first` to `last` that began more than `bound` ms late, or not yet."""
    table = executions.c
    is_waiting = table.started_at.is_(None) & table.state.in_(_NOT_BEGUN)
    wanted = sa.select(
        table.uid, table.execute_number, table.job_id, table.tenant, table.state, table.planned_at,
        table.started_at,
    ).where(
        table.tenant.in_(_TENANTS),
        table.planned_at >= first,
        table.planned_at <= last,
        table.triggered_by == TriggeredBy.TIMER.value,
        is_waiting | (table.started_at - table.planned_at > bound),
    )  # fmt: skip
    ordered = wanted.order_by(table.planned_at, table.uid, table.execute_number).limit(limit).offset(skip)
    return [
        Occurrence(
            kind=OccurrenceKind.OVERDUE,
            at=row.planned_at + bound if row.started_at is None else row.started_at,
            tenant=row.tenant,
            job_id=row.job_id,
            uid=row.uid,
            execute_number=row.execute_number,
            state=row.state,
            planned_at=row.planned_at,
            lateness_ms=None if row.started_at is None else row.started_at - row.planned_at,
        )
        for row in connection.execute(ordered)
    ]


def read_runs(
    connection: sa.Connection, job_ids: Sequence[str], most: int
) -> dict[str, list[EndedExecution]]:
    """The newest executions of each job that succeeded or failed, the newest first."""
    return {job_id: _runs_of(connection, job_id, most) for job_id in job_ids}


def _runs_of(connection: sa.Connection, job_id: str, most: int) -> list[EndedExecution]:
    table = executions.c
    newest = (
        sa.select(table.state, table.ended_at)
        .where(table.tenant == read_job_key(job_id)[0], table.job_id == job_id)
        .order_by(table.created_at.desc(), table.execute_number.desc())
        .limit(most + BESIDE)
    )
    found: list[EndedExecution] = []
    for state, ended_at in connection.execute(newest):
        if state in _JUDGED and ended_at is not None:
            found.append(EndedExecution(state == ExecutionState.TERMINATED.value, ended_at))
            if len(found) == most:
                break
    return found
