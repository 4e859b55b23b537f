"""The nodes of a cluster, the leases that one has for all, and the events that nodes write for each other."""

import secrets
from collections.abc import Sequence
from functools import partial

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.public_events import Occurrence
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.job_store import counters_and_leases
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.job_store_schema import event_groups, nodes
from scheduler_service.persistence.job_store.job_store_schema import marks as marks_table
from scheduler_service.persistence.sql.expressions import GuardedUpsert
from scheduler_service.ports.cluster import EventGroup, Node

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
    """The table of nodes, and their leases, in the shared database."""

    def __init__(self, *, database: JobDatabase) -> None:
        self._database = database
        self._dialect = database.dialect

    async def enter(self, node: Node, *, alive_since: int) -> bool:
        """Adds a node; False: a live one of the same name is there, seen after `alive_since`."""
        values = msgspec.structs.asdict(node)
        if known := values.pop("format"):
            values["version"] += _FORMAT_SIGN + known
        values["reads_claims"] = 1
        row = (*(values[name] for name in _COLUMNS), alive_since)
        write_guarded = self._dialect.write_guarded
        return await self._database.write(lambda connection: bool(write_guarded(connection, _ENTER, [row])))

    async def beat(self, node: Node) -> bool:
        """Updates the row of a node; False: another start of the node has replaced it."""
        values = {f"its_{name}": getattr(node, name) for name in ("node_id", "boot", *_BEAT)}
        return await self._database.write(
            lambda connection: connection.execute(_UPDATE, values).rowcount == 1
        )

    async def list(self) -> list[Node]:
        """All nodes, in order of their names."""
        statement = sa.select(*_SAID).order_by(nodes.c.node_id)
        rows = await self._database.read(lambda connection: connection.execute(statement).all())
        return [_read(Node(*row)) for row in rows]

    async def forget(self, before: int) -> None:
        """Removes nodes that were not seen since `before`."""
        statement = sa.delete(nodes).where(nodes.c.seen_at < before)
        await self._database.write(lambda connection: connection.execute(statement).rowcount)

    async def remove(self, holders: Sequence[Holder]) -> None:
        """Removes these nodes: their heartbeats count no more, and they commit nothing."""
        is_one = sa.tuple_(nodes.c.node_id, nodes.c.boot).in_([(one.node, one.boot) for one in holders])
        await self._database.write(
            lambda connection: connection.execute(sa.delete(nodes).where(is_one)) and None
        )

    async def next_epoch(self) -> int:
        """A number above all that were returned before."""
        begin = partial(
            counters_and_leases.count_start, dialect=self._dialect, placement=counters_and_leases.CLUSTER
        )
        return await self._database.write(begin)

    async def keep_app_id(self, app_id: str) -> str:
        """The app id under which the actors' state is kept; the first one given stays."""
        keep = partial(counters_and_leases.keep_holder, dialect=self._dialect, mark=APP_ID, holder=app_id)
        return await self._database.write(keep)

    async def lease(self, name: str, holder: Holder, now: int, until: int) -> bool:
        """Takes or renews a lease; False: another holder still has it."""
        said = f"{holder.node}/{holder.boot}"
        lease = partial(
            counters_and_leases.lease, dialect=self._dialect, mark=name, holder=said, now=now, until=until
        )
        return await self._database.write(lease)


def _read(row: Node) -> Node:
    version, _, known = row.version.partition(_FORMAT_SIGN)
    return msgspec.structs.replace(row, version=version, format=known)


EVENTS_MARK, SEAL_MARK = "events", "events_seal"
KEPT_GROUPS = 2_000
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Occurrence]).decode
_OF_EVENTS = marks_table.c.name == EVENTS_MARK


class SharedEvents:
    """The events that nodes write for each other.

    The mark `events` has the number of the latest group, and the end of the wish.
    Whoever writes holds the mark's row to the end of its transaction: groups appear in their order.
    """

    def __init__(self, *, database: JobDatabase) -> None:
        self._database = database

    async def want(self, now: int, until: int) -> int:
        """Says that a node wants events up to `until`; the number of the latest group.

        Where they were not wanted before, older groups are gone, and a number is left out.
        """
        lapse = (
            sa.update(marks_table)
            .where(_OF_EVENTS, marks_table.c.until < now)
            .values(value=marks_table.c.value + 1)
        )

        def work(connection: sa.Connection) -> int:
            if connection.execute(lapse).rowcount:  # what happened meanwhile is in no group
                connection.execute(sa.delete(event_groups))
            counters_and_leases.renew(connection, self._database.dialect, EVENTS_MARK, until, first=1)
            return counters_and_leases.read_number(connection, EVENTS_MARK)

        return await self._database.write(work)

    async def seal_key(self) -> bytes:
        """The key with which all nodes seal the ids of events; made by the first one that asks."""
        made, dialect = secrets.token_hex(32), self._database.dialect
        held = await self._database.write(
            lambda one: counters_and_leases.keep_holder(one, dialect, SEAL_MARK, made)
        )
        return bytes.fromhex(held)

    async def are_wanted(self, now: int) -> bool:
        """Whether a node wants them."""
        found = await self._database.first(
            sa.select(marks_table.c.value).where(_OF_EVENTS, marks_table.c.until >= now)
        )
        return found is not None

    async def put(self, occurrences: Sequence[Occurrence], now: int) -> bool:
        """Adds a group, and removes what is too much; False: nobody wants it, and nothing was written."""
        content = _encode(list(occurrences))

        def work(connection: sa.Connection) -> bool:
            number = counters_and_leases.count_wanted(connection, EVENTS_MARK, now)
            if number is None:
                return False
            connection.execute(sa.insert(event_groups).values(number=number, at=now, content=content))
            connection.execute(sa.delete(event_groups).where(event_groups.c.number <= number - KEPT_GROUPS))
            return True

        return await self._database.write(work)

    async def after(self, number: int, limit: int) -> list[EventGroup]:
        """The groups after `number`, in order."""
        columns = (event_groups.c.number, event_groups.c.content)
        statement = sa.select(*columns).where(event_groups.c.number > number).order_by(event_groups.c.number)
        rows = await self._database.read(lambda one: one.execute(statement.limit(limit)).all())
        return [EventGroup(found, tuple(_decode(content))) for found, content in rows]

    async def forget(self, before: int) -> None:
        """Removes groups that are older."""
        statement = sa.delete(event_groups).where(event_groups.c.at < before)
        await self._database.write(lambda connection: connection.execute(statement).rowcount)
