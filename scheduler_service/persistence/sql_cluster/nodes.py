"""The nodes of a cluster, their heartbeats, and the leases that one of them has for all."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.schema import marks, nodes
from scheduler_service.ports.cluster import Node

EPOCH, APP_ID = "epoch", "app_id"
_FORMAT_SIGN = "+"
"""In the column `version` the format stands after it: programs of before show both as the version."""
_SAID = tuple(nodes.c[name] for name in Node.__struct_fields__ if name != "format")
_BEAT = ("state", "seen_at", "jobs_held", "running", "address")
_UPDATE = (
    sa.update(nodes)
    .where(nodes.c.node_id == sa.bindparam("its_node_id"), nodes.c.boot == sa.bindparam("its_boot"))
    .values({name: sa.bindparam(f"its_{name}") for name in _BEAT})
)


class Nodes:
    """ports.ClusterNodes over the shared database."""

    def __init__(self, *, database: SharedDatabase) -> None:
        self._database = database
        self._insert = database.dialect.insert
        self._lease = _build_lease(self._insert)

    async def enter(self, node: Node, *, alive_since: int) -> bool:
        values = msgspec.structs.asdict(node)
        if known := values.pop("format"):
            values["version"] += _FORMAT_SIGN + known
        values["reads_claims"] = 1
        is_gone = (nodes.c.seen_at <= alive_since) | (nodes.c.state == "offline")
        insert = self._insert(nodes).values(values)
        statement = insert.on_conflict_do_update(
            index_elements=[nodes.c.node_id], set_=values, where=is_gone
        ).returning(nodes.c.node_id)
        return await self._database.write(
            lambda connection: connection.execute(statement).first() is not None
        )

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
        insert = self._insert(marks).values(name=EPOCH, value=1, holder="", until=0)
        statement = insert.on_conflict_do_update(
            index_elements=[marks.c.name], set_={"value": marks.c.value + 1}
        ).returning(marks.c.value)
        return await self._database.write(lambda connection: int(connection.execute(statement).scalar_one()))

    async def keep_app_id(self, app_id: str) -> str:
        insert = self._insert(marks).values(name=APP_ID, value=0, holder=app_id, until=0)
        statement = insert.on_conflict_do_nothing()
        known = sa.select(marks.c.holder).where(marks.c.name == APP_ID)

        def work(connection: sa.Connection) -> str:
            connection.execute(statement)
            return str(connection.execute(known).scalar_one())

        return await self._database.write(work)

    async def lease(self, name: str, holder: Holder, now: int, until: int) -> bool:
        values = {"lease": name, "text": f"{holder.node}/{holder.boot}", "end": until, "now": now}
        return await self._database.write(
            lambda connection: connection.execute(self._lease, values).first() is not None
        )


def _read(row: Node) -> Node:
    version, _, known = row.version.partition(_FORMAT_SIGN)
    return msgspec.structs.replace(row, version=version, format=known)


def _build_lease(insert: Callable[[sa.Table], Any]) -> sa.Executable:
    """Each node asks for it once a second: to build it costs more than to execute it."""
    text, end = sa.bindparam("text", type_=sa.Text), sa.bindparam("end", type_=sa.BigInteger)
    wanted = insert(marks).values(name=sa.bindparam("lease"), value=0, holder=text, until=end)
    statement: sa.Executable = wanted.on_conflict_do_update(
        index_elements=[marks.c.name],
        set_={"holder": text, "until": end},
        where=(marks.c.holder == text) | (marks.c.until < sa.bindparam("now")),
    ).returning(marks.c.name)
    return statement
