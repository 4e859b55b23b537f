"""The events of a cluster: groups that nodes write while a node wants them, in one line of numbers."""

import secrets
from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.public_events import Occurrence
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.marks import count_wanted, keep_holder, read_number, renew
from scheduler_service.persistence.job_store.schema import event_groups, marks
from scheduler_service.ports.cluster import EventGroup

MARK, SEAL_MARK = "events", "events_seal"
KEPT_GROUPS = 2_000
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Occurrence]).decode
_OF_EVENTS = marks.c.name == MARK


class SharedEvents:
    """ports.ClusterEvents: the mark `events` has the number of the latest group, and the end of the wish.

    Whoever writes holds the mark's row to the end of its transaction: groups appear in their order.
    """

    def __init__(self, *, database: JobDatabase) -> None:
        self._database = database

    async def want(self, now: int, until: int) -> int:
        lapse = sa.update(marks).where(_OF_EVENTS, marks.c.until < now).values(value=marks.c.value + 1)

        def work(connection: sa.Connection) -> int:
            if connection.execute(lapse).rowcount:  # what happened meanwhile is in no group
                connection.execute(sa.delete(event_groups))
            renew(connection, self._database.dialect, MARK, until, first=1)
            return read_number(connection, MARK)

        return await self._database.write(work)

    async def seal_key(self) -> bytes:
        made, dialect = secrets.token_hex(32), self._database.dialect
        held = await self._database.write(lambda one: keep_holder(one, dialect, SEAL_MARK, made))
        return bytes.fromhex(held)

    async def are_wanted(self, now: int) -> bool:
        found = await self._database.first(sa.select(marks.c.value).where(_OF_EVENTS, marks.c.until >= now))
        return found is not None

    async def put(self, occurrences: Sequence[Occurrence], now: int) -> bool:
        content = _encode(list(occurrences))

        def work(connection: sa.Connection) -> bool:
            number = count_wanted(connection, MARK, now)
            if number is None:
                return False
            connection.execute(sa.insert(event_groups).values(number=number, at=now, content=content))
            connection.execute(sa.delete(event_groups).where(event_groups.c.number <= number - KEPT_GROUPS))
            return True

        return await self._database.write(work)

    async def after(self, number: int, limit: int) -> list[EventGroup]:
        columns = (event_groups.c.number, event_groups.c.content)
        statement = sa.select(*columns).where(event_groups.c.number > number).order_by(event_groups.c.number)
        rows = await self._database.read(lambda one: one.execute(statement.limit(limit)).all())
        return [EventGroup(found, tuple(_decode(content))) for found, content in rows]

    async def forget(self, before: int) -> None:
        statement = sa.delete(event_groups).where(event_groups.c.at < before)
        await self._database.write(lambda connection: connection.execute(statement).rowcount)
