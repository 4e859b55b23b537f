"""The nodes of a cluster, their heartbeats, and the leases that one of them has for all."""

from collections.abc import Sequence
from functools import partial

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.job_store import marks
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.schema import nodes
from scheduler_service.persistence.sql.expressions import GuardedUpsert
from scheduler_service.ports.cluster import Node

APP_ID = "app_id"
_FORMAT_SIGN = "+"
"""In the column `version` the format stands after it: programs of before show both as the version."""
_SAID = tuple(nodes.c[name] for name in Node.__struct_fields__ if name != "format")
_BEAT = ("state", "seen_at", "jobs_held", "running", "address")
_UPDATE = (
    sa.update(nodes)
    .where(nodes.c.node_id == sa.bindparam("its_node_id"), nodes.c.boot == sa.bindparam("its_boot"))
    .values({name: sa.bindparam(f"its_{name}") for name in _BEAT})
)
_COLUMNS = tuple(column.name for column in nodes.c)
_ENTER = GuardedUpsert(
    nodes, _COLUMNS, ("alive_since",), guard="nodes.seen_at <= given.alive_since OR nodes.state = 'offline'"
)


class Nodes:
    """ports.ClusterNodes over the shared database."""

    def __init__(self, *, database: JobDatabase) -> None:
        self._database = database
        self._dialect = database.dialect

    async def enter(self, node: Node, *, alive_since: int) -> bool:
        values = msgspec.structs.asdict(node)
        if known := values.pop("format"):
            values["version"] += _FORMAT_SIGN + known
        values["reads_claims"] = 1
        row = (*(values[name] for name in _COLUMNS), alive_since)
        write_guarded = self._dialect.write_guarded
        return await self._database.write(lambda connection: bool(write_guarded(connection, _ENTER, [row])))

    async def beat(self, node: Node) -> bool:
        values = {f"its_{name}": getattr(node, name) for name in ("node_id", "boot", *_BEAT)}
        return await self._database.write(
            lambda connection: connection.execute(_UPDATE, values).rowcount == 1
        )

    async def list(self) -> list[Node]:
        statement = sa.select(*_SAID).order_by(nodes.c.node_id)
        rows = await self._database.read(lambda connection: connection.execute(statement).all())
        return [_read(Node(*row)) for row in rows]

    async def forget(self, before: int) -> None:
        statement = sa.delete(nodes).where(nodes.c.seen_at < before)
        await self._database.write(lambda connection: connection.execute(statement).rowcount)

    async def remove(self, holders: Sequence[Holder]) -> None:
        is_one = sa.tuple_(nodes.c.node_id, nodes.c.boot).in_([(one.node, one.boot) for one in holders])
        await self._database.write(
            lambda connection: connection.execute(sa.delete(nodes).where(is_one)) and None
        )

    async def next_epoch(self) -> int:
        begin = partial(marks.count_start, dialect=self._dialect, placement=marks.CLUSTER)
        return await self._database.write(begin)

    async def keep_app_id(self, app_id: str) -> str:
        keep = partial(marks.keep_holder, dialect=self._dialect, mark=APP_ID, holder=app_id)
        return await self._database.write(keep)

    async def lease(self, name: str, holder: Holder, now: int, until: int) -> bool:
        said = f"{holder.node}/{holder.boot}"
        lease = partial(marks.lease, dialect=self._dialect, mark=name, holder=said, now=now, until=until)
        return await self._database.write(lease)


def _read(row: Node) -> Node:
    version, _, known = row.version.partition(_FORMAT_SIGN)
    return msgspec.structs.replace(row, version=version, format=known)
