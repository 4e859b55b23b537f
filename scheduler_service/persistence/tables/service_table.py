"""Services and their declared timers in SQL: `ports.ServiceTable` in the history's database."""

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.registered_services import Applied, Kind, Pause, RateLimit, Service
from scheduler_service.persistence.sql.database import Database, DatabaseThreads
from scheduler_service.persistence.sql.expressions import Row, Upsert, replacing, text

KEEP, UPDATE = "keep", "update"
NO_TIMERS = b"[]"
KEY = ("tenant", "job_id")
OWN = (*KEY, "service")
"""Columns that identify the row of a declared job, and that of a service about it."""
_LIMIT = msgspec.json.Decoder(RateLimit | None)
_TAGS = msgspec.json.Decoder(tuple[str, ...])
_encode = msgspec.json.Encoder().encode


class SqlServiceTable:
    """ports.ServiceTable over the history's database, in a thread of its own; one write at a time.

    Writes are rare: a service that changes what it declares, and a job that is created, changed or removed.
    """

    def __init__(self, *, database: Database) -> None:
        self._database = database
        thread = DatabaseThreads(database, name="services")
        self._read, self._write, self.close = thread.read, thread.write, thread.close

    async def services(self) -> Sequence[Service]:
        columns = [column for column in services.c if column.name != "timers"]
        wanted = sa.select(*columns).order_by(services.c.tenant, services.c.name)
        return await self._read(lambda connection: [_read_service(row) for row in connection.execute(wanted)])

    async def timers(self, tenant: str, name: str) -> bytes:
        own = (services.c.tenant == tenant, services.c.name == name)
        wanted = sa.select(services.c.timers).where(*own)
        found = await self._read(lambda connection: connection.execute(wanted).scalar())
        return bytes(found) if found else NO_TIMERS

    async def declared_bytes(self, tenant: str, name: str) -> tuple[int, int]:
        size = sa.func.length(services.c.timers)
        is_own = sa.and_(services.c.tenant == tenant, services.c.name == name)
        own = sa.func.coalesce(sa.func.sum(sa.case((is_own, size), else_=0)), 0)
        wanted = sa.select(own, sa.func.coalesce(sa.func.sum(size), 0))
        found = await self._read(lambda connection: connection.execute(wanted).one())
        return int(found[0]), int(found[1])

    async def put(self, service: Service, timers: bytes | None = None) -> None:
        values = _service_values(service) | {"timers": NO_TIMERS if timers is None else timers}
        row = tuple(values[column.name] for column in services.c)
        await self._put(_SERVICES if timers is None else _SERVICES_AND_TIMERS, [row])

    async def drop(self, tenant: str, name: str) -> None:

        def write(connection: sa.Connection) -> None:
            connection.execute(
                sa.delete(applied).where(applied.c.tenant == tenant, applied.c.service == name)
            )
            connection.execute(
                sa.delete(services).where(services.c.tenant == tenant, services.c.name == name)
            )

        await self._write(write)

    async def applied(self, tenant: str, name: str) -> Sequence[Applied]:
        own = (applied.c.tenant == tenant, applied.c.service == name)
        wanted = sa.select(applied).where(*own).order_by(applied.c.job_id)
        return await self._read(lambda connection: [_read_applied(row) for row in connection.execute(wanted)])

    async def owner(self, tenant: str, job_id: str, uid: str) -> str | None:
        own = (applied.c.tenant == tenant, applied.c.job_id == job_id, applied.c.uid == uid)
        wanted = sa.select(applied.c.service).where(*own)
        return await self._read(lambda connection: connection.execute(wanted).scalar())

    async def pauses(self) -> Sequence[Pause]:
        wanted = sa.select(pauses).order_by(*pauses.primary_key.columns)
        return await self._read(
            lambda connection: [
                Pause(Kind(row.kind), row.tenant, row.name, row.since) for row in connection.execute(wanted)
            ]
        )

    async def pause(self, pause: Pause) -> None:
        await self._put(_PAUSES, [msgspec.structs.astuple(pause)])

    async def resume(self, kind: Kind, tenant: str, name: str) -> None:
        own = (pauses.c.kind == kind, pauses.c.tenant == tenant, pauses.c.name == name)
        await self._write(lambda connection: connection.execute(sa.delete(pauses).where(*own)))

    async def note(self, kept: Sequence[Applied], dropped: Sequence[Applied]) -> None:
        """Writes what was done; nothing to write costs nothing.

        One statement each for all rows: every one that is built leaves sixty objects to the collector.
        """
        if not kept and not dropped:
            return

        def write(connection: sa.Connection) -> None:
            if dropped:
                connection.execute(
                    _DROP, [{f"own_{name}": getattr(one, name) for name in OWN} for one in dropped]
                )
            if kept:
                rows = {(one.tenant, one.job_id): _applied_row(one) for one in kept}
                self._database.dialect.insert_many(connection, _APPLIED, list(rows.values()))

        await self._write(write)

    async def _put(self, upsert: Upsert, rows: Sequence[Row]) -> None:
        await self._write(lambda connection: self._database.dialect.insert_many(connection, upsert, rows))


def _service_values(service: Service) -> dict[str, Any]:
    values = msgspec.structs.asdict(service)
    limit = service.rate_limit
    return {name: values[name] for name in values.keys() & set(services.c.keys())} | {
        "tags": _encode(service.tags).decode(),
        "on_change": KEEP if service.keeps else UPDATE,
        "rate_limit": None if limit is None else _encode(limit).decode(),
        "vouched": None if service.vouched is None else int(service.vouched),
    }


def _read_service(row: sa.Row[Any]) -> Service:
    values = {name: row._mapping[name] for name in Service.__struct_fields__ if name != "keeps"}
    return Service(
        **values
        | {
            "tags": _TAGS.decode(row.tags),
            "keeps": row.on_change == KEEP,
            "rate_limit": _LIMIT.decode(row.rate_limit or "null"),
            "digest": bytes(row.digest),
            "vouched": None if row.vouched is None else bool(row.vouched),
        }
    )


def _applied_row(one: Applied) -> Row:
    values = msgspec.structs.asdict(one) | {"paused": int(one.paused), "finished": int(one.finished)}
    return tuple(values[column.name] for column in applied.c)


def _read_applied(row: sa.Row[Any]) -> Applied:
    values = {name: row._mapping[name] for name in Applied.__struct_fields__}
    flags = {"paused": bool(row.paused), "finished": bool(row.finished)}
    return Applied(**values | flags | {"digest": bytes(row.digest)})


metadata = sa.MetaData()

# Declared timers are kept as the JSON array that was posted; `digest` identifies it.
services = sa.Table(
    "manager_service",
    metadata,
    sa.Column("tenant", text(128), primary_key=True),
    sa.Column("name", text(128), primary_key=True),
    sa.Column("address", sa.Text),
    sa.Column("route", text(16)),
    sa.Column("tags", sa.Text, nullable=False),
    sa.Column("timers", sa.LargeBinary, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("on_change", text(8), nullable=False),
    sa.Column("grace", sa.BigInteger, nullable=False),
    sa.Column("rate_limit", sa.Text),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("removed_at", sa.BigInteger),
    sa.Column("signing", text(128), nullable=False, server_default=""),
    sa.Column("options", sa.Text),
    sa.Column("vouched", sa.SmallInteger),
)

# What `check-timers` did about a declared job; a job has one owner.
applied = sa.Table(
    "declared_timers",
    metadata,
    sa.Column("tenant", text(128), primary_key=True),
    sa.Column("job_id", text(260), primary_key=True),
    sa.Column("service", text(128), nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("uid", text(64), nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("removed_at", sa.BigInteger),
    sa.Column("paused", sa.SmallInteger, nullable=False),
    sa.Column("finished", sa.SmallInteger, nullable=False),
)
sa.Index("declared_timers_of_service", applied.c.tenant, applied.c.service, applied.c.job_id)
_DROP = sa.delete(applied).where(*(applied.c[name] == sa.bindparam(f"own_{name}") for name in OWN))

# What is paused: `since` is steady.
pauses = sa.Table(
    "pauses",
    metadata,
    sa.Column("kind", text(8), primary_key=True),
    sa.Column("tenant", text(128), primary_key=True),
    sa.Column("name", text(128), primary_key=True),
    sa.Column("since", sa.BigInteger, nullable=False),
)

_SERVICES_AND_TIMERS, _SERVICES = replacing(services), replacing(services, but=("timers",))
_APPLIED = replacing(applied)
_PAUSES = Upsert(pauses, tuple(pauses.c.keys()), tuple(pauses.primary_key.columns.keys()))
