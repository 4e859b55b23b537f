"""Records of deliveries that the history may not have yet: they belong to no turn, and no job keeps them."""

from collections.abc import Iterable, Sequence

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.common.actor_document import Unwritten, as_batches, as_unwritten
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.schema import untold
from scheduler_service.ports.history import Batch

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Unwritten).decode


class PendingHistory:
    """Written with the settlement of their delivery, removed when the history has them. Raises StoreError."""

    def __init__(self, *, database: SharedDatabase) -> None:
        self._database = database

    def put(self, connection: sa.Connection, batches: Iterable[Batch], holder: Holder) -> None:
        """Within a transaction: `holder` brings these to the history."""
        rows = [_row(batch, one, holder) for batch in batches for one in as_unwritten((batch,))]
        for row in rows:  # a repetition of a settlement that was not confirmed replaces it
            connection.execute(sa.delete(untold).where(_is(row["uid"], row["sequence"])))
        if rows:
            connection.execute(sa.insert(untold), rows)

    async def forget(self, keys: Sequence[tuple[str, int]]) -> None:
        """The history has these, by (uid, sequence)."""

        def work(connection: sa.Connection) -> None:
            for uid, sequence in keys:
                connection.execute(sa.delete(untold).where(_is(uid, sequence)))

        await self._database.write(work)

    async def adopt(self, alive: Iterable[Holder], holder: Holder, limit: int) -> list[Batch]:
        """Leaves to `holder` those of nodes that are not among `alive`; at most `limit`."""
        table = untold.c
        strange = sa.tuple_(table.node, table.boot).not_in([(one.node, one.boot) for one in alive])

        def work(connection: sa.Connection) -> list[Batch]:
            found = connection.execute(
                sa.select(table.uid, table.sequence, table.content).where(strange).limit(limit)
            ).all()
            for uid, sequence, _ in found:
                statement = sa.update(untold).where(_is(uid, sequence))
                connection.execute(statement.values(node=holder.node, boot=holder.boot))
            return as_batches(_decode(bytes(content)) for _, _, content in found)

        return await self._database.write(work)


def _row(batch: Batch, content: Unwritten, holder: Holder) -> dict[str, object]:
    return {
        "uid": batch.uid,
        "sequence": batch.sequence,
        "content": _encode(content),
        "node": holder.node,
        "boot": holder.boot,
    }


def _is(uid: object, sequence: object) -> sa.ColumnElement[bool]:
    return (untold.c.uid == uid) & (untold.c.sequence == sequence)
