"""The database of jobs: a thread that writes in groups, one that reads in groups, and others that read."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.effects import Delivery
from scheduler_service.persistence.common.fault_points import FaultPoint, FaultPoints
from scheduler_service.persistence.common.group_thread import GroupThread, Verdict, Weights
from scheduler_service.persistence.job_store.claim_rows import SettledDeliveries
from scheduler_service.persistence.job_store.job_store_schema import MIGRATIONS
from scheduler_service.persistence.sql.database import Database, DatabaseThreads, OpenDatabase
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.telemetry.metrics.metric_list import Sample

T = TypeVar("T")
Work = Callable[[sa.Connection], Any]
JointWork = Callable[[sa.Connection, list[Any]], Sequence[Verdict]]
IsSingle = Callable[[Sequence[Any]], bool]
GROUP_SIZE = 128
"""Fewer than the rows that a dialect writes with one statement: a group of claims is one, or begins none."""
SLOW_SECONDS = 1.0
CALM_SECONDS = 1.0
"""How long writing has not failed before it counts as possible again: a full disk takes some writes."""
LARGE_BYTES = 64 << 10
"""What is longer is read and written apart from others."""
GROUP_BYTES = 4 << 20
"""So many bytes a transaction has at most, or one write alone; it takes three times that meanwhile."""
LARGE_GROUP_BYTES = 1 << 20
"""So many bytes of large writes are put into a group with small ones, which wait until it is written."""
OnTrouble = Callable[[str | None], None]
"""Is told what is wrong whenever nothing can be written, and None when it can again, on the loop's thread."""


class GroupedWork(msgspec.Struct, frozen=True, gc=False):
    """A value that `work` takes together with the others of its group; it has a verdict for each.

    `is_single` says of which values it makes one statement.
    """

    work: JointWork
    value: Any
    is_single: IsSingle | None = None


class WritePace(msgspec.Struct, frozen=True):
    """How writes are grouped: at most `size` of them; one that may wait is kept back for `wait_seconds`.

    On a server a group of one costs the node and the server 1.2 ms of CPU.
    """

    size: int = GROUP_SIZE
    wait_seconds: float = 0.015
    readers: int = 2


OF_SERVERS = WritePace()


class JobDatabase:
    """An open database of jobs: a file, memory, or a server that any number of machines share.

    `clock_skew` is by how much this machine's clock is ahead of the database's, in ms: that one is the steady
    time of all nodes. `on_written` is told of each transaction the bytes that were written, or may have been,
    in the writer's thread; `on_trouble` whether anything can be written.
    """

    def __init__(
        self,
        database: OpenDatabase,
        *,
        loop: asyncio.AbstractEventLoop,
        pace: WritePace = OF_SERVERS,
        on_written: Callable[[int], None] = lambda _: None,
        on_trouble: OnTrouble | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self.dialect = database.dialect
        self._loop = loop
        self._on_written = on_written
        self._on_trouble = on_trouble
        self._clock = clock
        self._failed_at: float | None = None
        self._trouble: StoreError | None = None
        with database.reading() as connection:
            self.clock_skew = round(time.time() * 1_000) - self.dialect.milliseconds(connection)
        self._writer: GroupThread[Work | GroupedWork] = GroupThread(
            name="state-writer",
            serve=self._serve,
            size=pace.size,
            loop=loop,
            wait_seconds=pace.wait_seconds,
            weights=Weights(weigh, LARGE_BYTES, LARGE_GROUP_BYTES),
            owner=tenant_of,
        )
        self._reader: GroupThread[Work | GroupedWork] = GroupThread(
            name="state-reader", serve=self._serve_reads, size=GROUP_SIZE, loop=loop
        )
        # Lists may search all jobs: the load of a turn must not wait for one.
        self._apart = DatabaseThreads(database, name="state-lister", count=pace.readers)

    @classmethod
    async def open(cls, *, url: str, faults: FaultPoints | None = None) -> "JobDatabase":
        """The database of `url`, its tables brought up to date beside the event loop.

        `faults` observes commits. Raises StoreUnavailable.
        """
        loop = asyncio.get_running_loop()

        def open_it() -> JobDatabase:
            database = Database(
                url=url,
                migrations=MIGRATIONS,
                durability="process",
                faults=faults,
                commit_point=FaultPoint.COMMIT,
                unconfirmed=StoreUncertain,
            )
            try:
                return cls(database, loop=loop)
            except BaseException:
                database.close()
                raise

        return await asyncio.to_thread(open_it)

    def follow_writes(self, tell: Callable[[], None]) -> None:
        """Calls `tell` after each transaction that was written, or may have been, in the writer's thread."""
        note = self._on_written

        def tell_both(size: int) -> None:
            note(size)
            tell()

        self._on_written = tell_both

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
        `may_wait` waits some ms for others; what is large may be passed by others.
        """
        return self._writer.put(GroupedWork(work, value, is_single), may_wait=may_wait)

    async def write_all(self, work: JointWork, values: Sequence[object]) -> list[Any]:
        """Runs `work` for all `values`: the verdict on each, errors among them.

        They are one transaction, or several of GROUP_BYTES.
        """
        items = [GroupedWork(work, value) for value in values]
        verdicts: list[Any] = await self._writer.put(*items, is_alone=False)
        return verdicts

    async def write_apart(self, work: Callable[[sa.Connection], T]) -> T:
        """Runs `work` in a transaction of its own, for which no other write waits in this process.

        Raises StoreUnavailable: nothing was written, and StoreUncertain where the commit was not confirmed.
        """
        return await self._apart.write(work)

    async def read(self, work: Callable[[sa.Connection], T]) -> T:
        """What `work` reads, all of one moment. Raises StoreUnavailable."""
        return await self._apart.read(work)

    async def read_soon(self, work: Callable[[sa.Connection], T]) -> T:
        """As `read`, with the loads of turns: no list that searches all jobs is waited for."""
        return cast("T", await self._reader.put(work))

    async def read_together(self, work: JointWork, value: object) -> Any:
        """Runs `work` once for all values that wait for it; what it read for `value`.

        Raises StoreUnavailable.
        """
        return await self._reader.put(GroupedWork(work, value))

    async def first(self, statement: sa.Select[Any]) -> sa.Row[Any] | None:
        """The first row of `statement`, or None. Raises StoreUnavailable."""
        return await self.read(lambda connection: connection.execute(statement).first())

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

    def _serve_reads(self, items: list[Work | GroupedWork]) -> list[Verdict]:
        began = time.monotonic()
        try:
            with self._database.reading() as connection:
                return _run(connection, items)
        except Exception as error:  # noqa: BLE001 - what one row cannot be read as is told to who asked for it
            if len(items) == 1 or (isinstance(error, StoreError) and time.monotonic() - began > SLOW_SECONDS):
                return [error] * len(items)
        return [verdict for item in items for verdict in self._serve_reads([item])]

    def _serve(self, items: list[Work | GroupedWork]) -> list[Verdict]:
        self._trouble = None
        parts = divide(items, self._writer.weight)
        verdicts = [one for part, size in parts for one in self._write(part, size)]
        if self._on_trouble is not None:
            self._note(self._on_trouble)
        return verdicts

    def _note(self, on_trouble: OnTrouble) -> None:
        """Tells of each group that could not be written, and when writing works again."""
        if self._trouble is not None:
            self._failed_at = self._clock()
        elif self._failed_at is None or self._clock() - self._failed_at < CALM_SECONDS:
            return
        else:
            self._failed_at = None
        with contextlib.suppress(RuntimeError):  # the loop was closed before the store
            trouble = None if self._trouble is None else str(self._trouble)
            self._loop.call_soon_threadsafe(on_trouble, trouble)

    def _write(self, items: list[Work | GroupedWork], size: int) -> list[Verdict]:
        if not items:
            return []
        began = time.monotonic()
        verdicts: Sequence[Verdict] = ()

        def work(connection: sa.Connection) -> Sequence[Verdict]:
            nonlocal verdicts
            verdicts = _run(connection, items)
            return verdicts

        try:
            self._database.write(work, is_single=_is_single(items))
        except StoreUncertain as error:
            self._trouble = error
            self._on_written(size)
            return [one if isinstance(one, Exception) else error for one in verdicts or [error] * len(items)]
        except StoreError as error:
            cause = error.__cause__
            cause = cause.orig if isinstance(cause, sa.exc.DBAPIError) else cause
            if not isinstance(cause, self.dialect.value_errors):
                self._trouble = error
            # What took long is no fault of a value: each of them alone would take as long.
            is_slow = time.monotonic() - began > SLOW_SECONDS
            if len(items) == 1 or is_slow or self.dialect.hits_all(cause):
                return [error] * len(items)
        except self.dialect.value_errors as error:
            if len(items) == 1:
                return [StoreUnavailable(self.dialect.explain(error))]
        except Exception as error:  # noqa: BLE001 - a defect is told to its caller, and the thread goes on
            if len(items) == 1:
                return [error]
        else:
            self._on_written(size)
            return list(verdicts)
        # One of them may be what the database cannot store: halving finds it, and the others are written.
        half = len(items) // 2
        return self._write(items[:half], size // 2) + self._write(items[half:], size // 2)


def weigh(item: Work | GroupedWork) -> int:
    """About the bytes of a write, where they may be many: of a turn its texts and bodies of deliveries."""
    deliveries: Iterable[Delivery]
    value = item.value if type(item) is GroupedWork else None
    if type(value) is TurnClaim:  # by the type, and without another function: each turn is weighed
        commit = value.commit
        size, deliveries = len(value.state or b""), commit.deliveries
        if commit.definition is not None:
            size += len(commit.definition)
        if not deliveries:  # as with most
            return size
    elif type(value) is SettledDeliveries:
        size, deliveries = 0, [one.delivery for one in value.settlements]
    else:
        return 0
    for delivery in deliveries:
        size += len(delivery.request.body or b"")
    return size


def tenant_of(item: Work | GroupedWork) -> str:
    """Whose turn is written; of all else nobody's."""
    value = item.value if type(item) is GroupedWork else None
    return value.commit.entry.tenant if type(value) is TurnClaim else ""


def divide(items: list[Work | GroupedWork], weight: int) -> Iterable[tuple[list[Work | GroupedWork], int]]:
    """The same writes in their order, in groups that are written one after the other, with their weights.

    `weight`: what `weigh` says of all of them together.
    """
    return ((items, weight),) if weight <= GROUP_BYTES else _divide(items)


def _divide(items: list[Work | GroupedWork]) -> Iterator[tuple[list[Work | GroupedWork], int]]:
    start = size = 0
    for place, item in enumerate(items):
        own = weigh(item)
        if size and size + own > GROUP_BYTES:
            yield items[start:place], size
            start, size = place, 0
        size += own
    yield items[start:] if start else items, size


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
