"""Instances of services and their rates in the shared database; by the number of a writing nodes find it."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.registered_services import InstancePlace
from scheduler_service.persistence.job_store.counters_and_leases import count, read_number
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.job_store_schema import (
    node_reports,
    service_notices,
    shared_instances,
    shared_rates,
)
from scheduler_service.persistence.sql.expressions import Upsert, overwrite, replacing
from scheduler_service.ports.shared_registry import (
    Changes,
    NodeReport,
    Old,
    RatePage,
    ServiceNotice,
    SharedInstance,
    Unread,
)

MARK = "registry"
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(NodeReport).decode


class SqlSharedRegistry:
    """ports.SharedRegistry: the mark `registry` has the latest number.

    Whoever writes holds the mark's row to the end of its transaction: who reads a number finds all that was
    written up to it. Writings have transactions of their own, so that no turn waits for that row.
    """

    def __init__(self, *, database: JobDatabase) -> None:
        self._database = database

    async def put(
        self, instances: Sequence[SharedInstance] = (), services: Sequence[ServiceNotice] = ()
    ) -> int:
        def write(connection: sa.Connection, number: int) -> None:
            for instance in instances:
                self._put(connection, shared_instances, msgspec.structs.asdict(instance) | {"number": number})
            for notice in services:
                row = msgspec.structs.asdict(notice) | {"number": number, "anew": int(notice.anew)}
                self._put(connection, service_notices, row)

        return await self._write(write)

    async def change(self, instances: Sequence[SharedInstance]) -> None:
        def write(connection: sa.Connection, number: int) -> None:
            for one in instances:
                as_read = (_is(one.place), shared_instances.c.number == one.number)
                row = msgspec.structs.asdict(one) | {"number": number}
                connection.execute(sa.update(shared_instances).where(*as_read).values(row))

        await self._write(write)

    async def report(self, report: NodeReport) -> None:
        content = _pack(report)

        def write(connection: sa.Connection, number: int) -> None:
            row = {"node": report.node, "number": number, "at": report.at, "content": content}
            self._put(connection, node_reports, row)

        await self._write(write)

    async def after(self, number: int, node: str) -> Changes:
        def read(connection: sa.Connection) -> Changes:
            latest = read_number(connection, MARK)
            if latest == number:
                return Changes(number)
            reports = [_read_report(row) for row in _rows(connection, node_reports, number, node)]
            return Changes(
                latest,
                tuple(_read_instance(row) for row in _rows(connection, shared_instances, number)),
                tuple(
                    ServiceNotice(row.tenant, row.name, bool(row.anew))
                    for row in _rows(connection, service_notices, number)
                ),
                tuple(one for one in reports if isinstance(one, NodeReport)),
                tuple(one for one in reports if isinstance(one, Unread)),
            )

        return await self._database.read(read)

    async def forget(self, old: Old) -> None:
        left, seen = shared_instances.c.left_at, shared_instances.c.seen_at
        reported, noticed = node_reports.c, service_notices.c

        def write(connection: sa.Connection) -> None:
            connection.execute(sa.delete(shared_instances).where(left < old.before))
            for place in old.silent:
                unheard = (_is(place), left.is_(None), seen < old.before)
                connection.execute(sa.delete(shared_instances).where(*unheard))
            gone = (reported.at < old.before, reported.node.not_in(old.alive))
            connection.execute(sa.delete(node_reports).where(*gone))
            settled = (noticed.number <= old.noticed, noticed.anew == 0)
            connection.execute(sa.delete(service_notices).where(*settled))

        await self._database.write_apart(write)

    async def _write(self, write: Callable[[sa.Connection, int], None]) -> int:
        def work(connection: sa.Connection) -> int:
            number = count(connection, self._database.dialect, MARK)
            write(connection, number)
            return number

        return await self._database.write_apart(work)

    def _put(self, connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> None:
        values = tuple(row[column.name] for column in table.c)
        self._database.dialect.insert_many(connection, replacing(table), [values])


def _is(place: InstancePlace) -> sa.ColumnElement[bool]:
    table = shared_instances.c
    return sa.and_(table.tenant == place[0], table.service == place[1], table.instance_id == place[2])


def _rows(
    connection: sa.Connection, table: sa.Table, number: int, besides: str | None = None
) -> Sequence[sa.Row[Any]]:
    statement = sa.select(table).where(table.c.number > number)
    if besides is not None:
        statement = statement.where(table.c.node != besides)
    return connection.execute(statement.order_by(table.c.number)).all()


def _read_instance(row: sa.Row[Any]) -> SharedInstance:
    return SharedInstance(
        row.tenant, row.service, row.instance_id, bytes(row.content), row.seen_at, row.left_at, row.number
    )


def _read_report(row: sa.Row[Any]) -> NodeReport | Unread:
    """One that is damaged, or of another version, must not hide what the others wrote."""
    try:
        return _unpack(row.content)
    except msgspec.DecodeError as error:
        return Unread(row.node, str(error))


_rate = shared_rates.c
_FIRST_RATE = Upsert(
    table=shared_rates, columns=("tenant", "service", "number", "content"), key=("tenant", "service")
)
_NEXT_RATE = msgspec.structs.replace(
    _FIRST_RATE,
    changes=overwrite("number", "content"),
    guard="shared_rates.number = excluded.number - 1",
)


class SqlRates:
    """ports.SharedRates. Writings have transactions of their own, so that no turn waits for them."""

    def __init__(self, *, database: JobDatabase) -> None:
        self._database = database

    async def read(self, tenant: str, service: str) -> RatePage:
        statement = sa.select(_rate.content, _rate.number).where(
            _rate.tenant == tenant, _rate.service == service
        )
        found = await self._database.first(statement)
        return RatePage() if found is None else RatePage(bytes(found.content), found.number)

    async def write(self, tenant: str, service: str, page: RatePage) -> bool:
        row = (tenant, service, page.number + 1, page.content)
        insert_many = self._database.dialect.insert_many
        return await self._database.write_apart(
            lambda connection: insert_many(connection, _NEXT_RATE if page.number else _FIRST_RATE, [row]) == 1
        )
