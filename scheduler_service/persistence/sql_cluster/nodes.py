"""The nodes of a cluster, their heartbeats, and the leases that one of them holds for all."""

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.schema import marks, nodes
from scheduler_service.ports.cluster import Node

EPOCH, APP_ID = "epoch", "app_id"


class Nodes:
    """The table of nodes. `now` is always steady ms. Everything raises StoreError."""

    def __init__(self, *, database: SharedDatabase) -> None:
        self._database = database
        self._insert = postgresql.insert if database.dialect == "postgresql" else sqlite.insert

    async def enter(self, node: Node, *, alive_since: int) -> bool:
        """Enters a node; False: a live one of the same name is there, seen since `alive_since`."""
        values = msgspec.structs.asdict(node)
        held = nodes.c.seen_at < alive_since
        first = self._insert(nodes).values(values)
        statement = first.on_conflict_do_update(
            index_elements=[nodes.c.node_id], set_=values, where=held | (nodes.c.state == "offline")
        ).returning(nodes.c.node_id)
        return await self._database.write(
            lambda connection: connection.execute(statement).first() is not None
        )

    async def beat(self, node: Node) -> bool:
        """Writes what the node says of itself; False: its place was taken by another start."""
        statement = (
            sa.update(nodes)
            .where(nodes.c.node_id == node.node_id, nodes.c.boot == node.boot)
            .values(
                state=node.state,
                seen_at=node.seen_at,
                jobs_held=node.jobs_held,
                running=node.running,
                address=node.address,
            )
        )
        return await self._database.write(lambda connection: connection.execute(statement).rowcount == 1)

    async def list(self) -> list[Node]:
        """All nodes, in order of their names."""
        statement = sa.select(nodes).order_by(nodes.c.node_id)
        rows = await self._database.read(lambda connection: connection.execute(statement).all())
        return [Node(*row) for row in rows]

    async def forget(self, before: int) -> None:
        """Removes nodes that were not seen since `before`."""
        statement = sa.delete(nodes).where(nodes.c.seen_at < before)
        await self._database.write(lambda connection: connection.execute(statement).rowcount)

    async def next_epoch(self) -> int:
        """A number that no node ever got before, above all that were given out."""
        first = self._insert(marks).values(name=EPOCH, value=1, holder="", until=0)
        statement = first.on_conflict_do_update(
            index_elements=[marks.c.name], set_={"value": marks.c.value + 1}
        ).returning(marks.c.value)
        return await self._database.write(lambda connection: int(connection.execute(statement).scalar_one()))

    async def keep_app_id(self, app_id: str) -> str:
        """The app id under which the actors' state lies; the first that is told stays."""
        first = self._insert(marks).values(name=APP_ID, value=0, holder=app_id, until=0)
        statement = first.on_conflict_do_nothing()
        known = sa.select(marks.c.holder).where(marks.c.name == APP_ID)

        def work(connection: sa.Connection) -> str:
            connection.execute(statement)
            return str(connection.execute(known).scalar_one())

        return await self._database.write(work)

    async def lease(self, name: str, holder: Holder, now: int, until: int) -> bool:
        """Takes or renews a lease; False: another holder has it still."""
        text = f"{holder.node}/{holder.boot}"
        first = self._insert(marks).values(name=name, value=0, holder=text, until=until)
        statement = first.on_conflict_do_update(
            index_elements=[marks.c.name],
            set_={"holder": text, "until": until},
            where=(marks.c.holder == text) | (marks.c.until < now),
        ).returning(marks.c.name)
        return await self._database.write(
            lambda connection: connection.execute(statement).first() is not None
        )
