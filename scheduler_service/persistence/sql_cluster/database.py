"""The shared database: a thread that writes in groups, one that reads in groups, and others that read."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import sqlalchemy as sa

from scheduler_service.persistence.common.group_thread import GroupThread, Verdict
from scheduler_service.persistence.sql.database import Database, DatabaseThreads
from scheduler_service.persistence.sql_cluster.schema import MIGRATIONS
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.telemetry.metrics.samples import Sample

T = TypeVar("T")
Work = Callable[[sa.Connection], Any]
JointWork = Callable[[sa.Connection, list[Any]], Sequence[Verdict]]
IsSingle = Callable[[Sequence[Any]], bool]
GROUP_SIZE = 128
"""Fewer than the rows that a dialect writes with one statement: a group of claims is one, or begins none."""
READERS = 2
SLOW_SECONDS = 1.0
ENDS_WAIT_SECONDS = 0.015
"""How long a write that may wait is kept back: a group of one costs the node and the server 1.2 ms of CPU."""


class GroupedWork(NamedTuple):
    """A value that `work` takes together with the others of its group; it has a verdict for each.

    `is_single` says of which values it makes one statement.
    """

    work: JointWork
    value: Any
    is_single: IsSingle | None = None


class SharedDatabase:
    """An open shared database. SQLite serves nodes on one machine, a server any number of machines.

    `clock_skew` is by how much this machine's clock is ahead of the database's, in ms: that one is the steady
    time of all nodes.
    """

    def __init__(self, *, url: str, loop: asyncio.AbstractEventLoop) -> None:
        """Opens `url`, its tables brought up to date. Raises StoreUnavailable."""
        self._database = Database(
            url=url, migrations=MIGRATIONS, durability="process", unconfirmed=StoreUncertain
        )
        self.dialect = self._database.dialect
        try:
            with self._database.reading() as connection:
                self.clock_skew = round(time.time() * 1_000) - self.dialect.milliseconds(connection)
        except BaseException:
            self._database.close()
            raise
        self._writer: GroupThread[Work | GroupedWork] = GroupThread(
            name="shared-writer",
            serve=self._serve,
            size=GROUP_SIZE,
            loop=loop,
            wait_seconds=ENDS_WAIT_SECONDS,
        )
        self._reader: GroupThread[GroupedWork] = GroupThread(
            name="shared-group-reader", serve=self._serve_reads, size=GROUP_SIZE, loop=loop
        )
        self._apart = DatabaseThreads(self._database, name="shared-reader", count=READERS)

    @classmethod
    async def open(cls, *, url: str) -> "SharedDatabase":
        """The database of `url`, opened beside the event loop. Raises StoreUnavailable."""
        loop = asyncio.get_running_loop()
        return await asyncio.to_thread(cls, url=url, loop=loop)

    @property
    def commits_waiting(self) -> int:
        """About how many writes wait for their group."""
        return self._writer.waiting

    async def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Runs `work` in a transaction, together with other writes that wait at the moment.

        A StoreError that `work` returns is raised. Raises StoreUnavailable: nothing was written, and
        StoreUncertain where the commit was not confirmed.
        """
        return cast("T", await self._writer.put(work))

    def write_together(
        self, work: JointWork, value: object, is_single: IsSingle | None = None, *, may_wait: bool = False
    ) -> asyncio.Future[Any]:
        """Runs `work` once for all values that wait for it; the verdict on `value`, as `write` gives it.

        Returns at once: values are written in the order of the calls.

        Other writes of the same transaction are done before. `is_single` says whether `work` makes one
        statement of some values: where nothing else waits, that needs no transaction around it. What
        `may_wait` waits up to 15 ms for others.
        """
        return self._writer.put(GroupedWork(work, value, is_single), may_wait=may_wait)

    async def write_all(self, work: JointWork, values: Sequence[object]) -> list[Any]:
        """Runs `work` once for all `values`, in one transaction: the verdict on each, errors among them."""
        return await self._writer.put_all([GroupedWork(work, value) for value in values])

    async def write_apart(self, work: Callable[[sa.Connection], T]) -> T:
        """Runs `work` in a transaction of its own, for which no other write waits in this process.

        Raises StoreUnavailable: nothing was written, and StoreUncertain where the commit was not confirmed.
        """
        return await self._apart.write(work)

    async def read(self, work: Callable[[sa.Connection], T]) -> T:
        """What `work` reads, all of one moment. Raises StoreUnavailable."""
        return await self._apart.read(work)

    async def read_together(self, work: JointWork, value: object) -> Any:
        """Runs `work` once for all values that wait for it; what it read for `value`.

        Raises StoreUnavailable.
        """
        return await self._reader.put(GroupedWork(work, value))

    async def first(
        self, statement: sa.Select[Any], values: Mapping[str, Any] | None = None
    ) -> sa.Row[Any] | None:
        """The first row of `statement`, or None. Raises StoreUnavailable."""
        return await self.read(lambda connection: connection.execute(statement, values).first())

    async def rows(self, statement: sa.Select[Any], values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        """All rows of `statement`. Raises StoreUnavailable."""
        return await self.read(lambda connection: connection.execute(statement, values).all())

    async def scalars(
        self, statement: sa.Select[tuple[T]], values: Mapping[str, Any] | None = None
    ) -> list[T]:
        """The first column of all rows of `statement`. Raises StoreUnavailable."""
        return await self.read(lambda connection: list(connection.scalars(statement, values)))

    def samples(self, *, is_away: bool = False) -> Iterable[Sample]:
        """The figures of its transactions, and whether it is up, which it is not while it `is_away`."""
        return self._writer.groups.samples(is_away=is_away)

    async def end_writing(self) -> None:
        """Writes what was handed in; what comes later is refused."""
        await self._writer.close()

    async def close(self) -> None:
        """Writes what was handed in, then closes the connections."""
        await self.end_writing()
        await self._reader.close()
        await self._apart.close()
        self._database.close()

    def _serve_reads(self, items: list[GroupedWork]) -> list[Verdict]:
        try:
            with self._database.reading() as connection:
                return _run(connection, items)
        except StoreError as error:
            return [error] * len(items)
        except Exception as error:  # noqa: BLE001 - what one row cannot be read as is told to who asked for it
            if len(items) == 1:
                return [error]
        return [verdict for item in items for verdict in self._serve_reads([item])]

    def _serve(self, items: list[Work | GroupedWork]) -> list[Verdict]:
        began = time.monotonic()
        try:
            return self._database.write(lambda one: _run(one, items), is_single=_is_single(items))
        except StoreUncertain as error:
            return [error] * len(items)
        except StoreError as error:
            # What took long is no fault of a value: each of them alone would take as long.
            if len(items) == 1 or time.monotonic() - began > SLOW_SECONDS:
                return [error] * len(items)
        except self.dialect.value_errors as error:
            if len(items) == 1:
                return [StoreUnavailable(self.dialect.explain(error))]
        except Exception as error:  # noqa: BLE001 - a defect is told to its caller, and the thread goes on
            if len(items) == 1:
                return [error]
        # One of them may be what the database cannot store: alone, it fails alone.
        return [verdict for item in items for verdict in self._serve([item])]


def _is_single(items: Sequence[Work | GroupedWork]) -> bool:
    """Whether all that waits is one statement."""
    first = items[0]
    if not isinstance(first, GroupedWork) or first.is_single is None:
        return False
    parts = [item for item in items if isinstance(item, GroupedWork) and item.work == first.work]
    return len(parts) == len(items) and first.is_single([part.value for part in parts])


def _run(connection: sa.Connection, items: Sequence[Work | GroupedWork]) -> list[Verdict]:
    verdicts: list[Verdict] = [None] * len(items)
    joint: dict[JointWork, list[int]] = {}
    for place, item in enumerate(items):
        if isinstance(item, GroupedWork):
            joint.setdefault(item.work, []).append(place)
        else:
            verdicts[place] = item(connection)
    for work, places in joint.items():
        values = [cast("GroupedWork", items[place]).value for place in places]
        for place, verdict in zip(places, work(connection, values), strict=True):
            verdicts[place] = verdict
    return verdicts
