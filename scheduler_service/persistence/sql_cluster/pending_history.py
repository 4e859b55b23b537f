"""Records of deliveries that the history may not have yet: they belong to no turn, and no job keeps them."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.common.packing import PackedBatch, pack
from scheduler_service.persistence.common.row_state import pack_batches, unpack_batches
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.schema import untold
from scheduler_service.persistence.sql_cluster.sweep_statements import (
    ABANDONED_HISTORY,
    DEAD_TELLERS,
    read_dead,
)
from scheduler_service.ports.history import Batch

_decode = msgspec.msgpack.Decoder(PackedBatch).decode


class PendingHistory:
    """ports.PendingBatches: written with the settlement of their delivery. Raises StoreError."""

    def __init__(self, *, database: SharedDatabase) -> None:
        self._database = database

    def put(self, connection: sa.Connection, batches: Iterable[Batch], holder: Holder) -> None:
        """Within a transaction: `holder` brings these to the history."""
        for batch in pack_batches(batches):  # a repetition of an unconfirmed settlement replaces it
            connection.execute(sa.delete(untold).where(_is(batch.uid, batch.sequence)))
            key = {"uid": batch.uid, "sequence": batch.sequence}
            row = {"content": pack(batch), "node": holder.node, "boot": holder.boot}
            connection.execute(sa.insert(untold).values(**key, **row))

    async def forget(self, keys: Sequence[tuple[str, int]]) -> None:
        def work(connection: sa.Connection) -> None:
            for uid, sequence in keys:
                connection.execute(sa.delete(untold).where(_is(uid, sequence)))

        await self._database.write(work)

    async def adopt(self, alive: Iterable[Holder], holder: Holder, limit: int) -> list[Batch]:
        dead = await self._database.read(lambda connection: read_dead(connection, DEAD_TELLERS, alive))
        if not dead:
            return []

        def work(connection: sa.Connection) -> list[Batch]:
            found: list[Any] = []
            for one in dead:
                found += connection.execute(ABANDONED_HISTORY, {**one, "most": limit - len(found)})
            for uid, sequence, _ in found:
                statement = sa.update(untold).where(_is(uid, sequence))
                connection.execute(statement.values(node=holder.node, boot=holder.boot))
            return unpack_batches(_decode(content) for _, _, content in found)

        return await self._database.write(work)


def _is(uid: str, sequence: int) -> sa.ColumnElement[bool]:
    return (untold.c.uid == uid) & (untold.c.sequence == sequence)
