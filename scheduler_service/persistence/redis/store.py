"""The state store of the embedded host over one Redis database."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Self

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.redis.address import Address
from scheduler_service.persistence.redis.catalogue import RedisCatalogue
from scheduler_service.persistence.redis.keys import (
    DUE_STEADY,
    DUE_WALL,
    NUMBER_WIDTH,
    OPEN,
    number,
    read_number,
)
from scheduler_service.persistence.redis.lease import LeaseKeeper, Taken, take_lease
from scheduler_service.persistence.redis.queues import RedisQueues
from scheduler_service.persistence.redis.reader import Range, Reader
from scheduler_service.persistence.redis.rows import (
    answer_key,
    batch_key,
    read_answer,
    read_batch,
    read_definition,
    read_delivery,
)
from scheduler_service.persistence.redis.server import check, inspect
from scheduler_service.persistence.redis.session import Session
from scheduler_service.persistence.redis.wire import TIMEOUT, Wire
from scheduler_service.persistence.redis.writer import Writer
from scheduler_service.persistence.sqlite.writes import Forget, Keep, Settle, Written
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, Remembered, Settlement, StoredJob

_CLOCK_SKEW = "clock_skew"
Release = Callable[[], None]


class Hooks(msgspec.Struct, frozen=True):
    """Reports from an open store. Each is called on the event loop and must not raise.

    `on_lost`: why this process may not write any more. `on_trouble`: why the server cannot be reached, None
    when it can be reached again. `on_doubt`: what the server may fail to keep.
    """

    on_lost: Callable[[str], None]
    on_trouble: Callable[[str | None], None]
    on_doubt: Callable[[str], None]


def _ignore(_: object) -> None:
    return


def _release_nothing() -> None:
    return


_NO_HOOKS = Hooks(on_lost=_ignore, on_trouble=_ignore, on_doubt=_ignore)


class RedisStateStore:
    """ports.StateStore over a Redis database that this process has a lease on.

    `boot` counts the starts over the database from 1, and is the fence of every write; `node_id` is this
    node's name; `catalogue` answers lists. Over a destroyed job a commit may expect 0 or the destruction's
    sequence.
    """

    def __init__(
        self,
        *,
        address: Address,
        taken: Taken,
        size: int,
        timeout: float,
        hooks: Hooks,
        faults: FaultPoints | None,
        release: Release,
    ) -> None:
        self.boot = taken.boot
        self.node_id = taken.node_id
        place = str(address)

        def connect() -> Wire:
            return Wire(address=address, timeout=timeout)

        self._session = Session(wire=connect(), place=place, taken=taken, on_lost=hooks.on_lost)
        self._keeper = LeaseKeeper(
            wire=connect(), boot=taken.boot, on_lost=self._session.lose, on_trouble=hooks.on_trouble
        )
        self._writer = Writer(session=self._session, place=place, size=size, faults=faults)
        self._reader = Reader(wire=connect(), session=self._session, place=place)
        # Lists may walk over all jobs: they must not stand before the load of a turn.
        self._lister = Reader(wire=connect(), session=self._session, place=place)
        self.catalogue = RedisCatalogue(reader=self._lister)
        self.queues = RedisQueues(put=self._writer.put, reader=self._reader)
        self._release = release
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        *,
        address: Address,
        durability: str = "full",
        node_id: str = "",
        size: int = 500,
        timeout: float = TIMEOUT,
        hooks: Hooks = _NO_HOOKS,
        faults: FaultPoints | None = None,
        release: Release = _release_nothing,
    ) -> Self:
        """Takes the store, making it where it is missing; waits for the lease of a process it cannot see.

        `durability` as in `server.check`. `node_id` empty: the name kept from the last start, or a new one.
        `size` is the most writes of one group, `timeout` (s) how long an answer is waited for; `release` is
        called at the end of `close`. Raises StoreRefused: ServerUnfit, StoreLocked, StoreTooNew;
        StoreUnavailable.
        """
        place = str(address)
        wire = Wire(address=address, timeout=timeout)
        try:
            doubt = check(await inspect(wire, place=place), place=place, durability=durability)
            if doubt is not None:
                hooks.on_doubt(doubt)
            taken = await take_lease(wire, place=place, node_id=node_id)
        finally:
            await wire.close()
        return cls(
            address=address,
            taken=taken,
            size=size,
            timeout=timeout,
            hooks=hooks,
            faults=faults,
            release=release,
        )

    async def load(self, job_id: str) -> StoredJob | None:
        """The job, destroyed ones too, or None. Raises StoreUnavailable."""
        return await self._reader.load(job_id)

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """A definition as posted, also of a life that has ended, or None. Raises StoreUnavailable."""
        row = await self._reader.command("HGET", f"definitions:{uid}", revision)
        return None if row is None else read_definition(row)

    def commit(self, commit: Commit) -> Awaitable[None]:
        """Writes one turn; returns at once an awaitable that ends when it is written. Raises StoreError."""
        return self._writer.put(commit)

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        """Writes the turns of many jobs in one group; for each None, or the error that is its own."""
        verdicts = await self._writer.put_all(commits)
        return [verdict if isinstance(verdict, StoreError) else None for verdict in verdicts]

    def settle(self, settlements: Sequence[Settlement]) -> Awaitable[None]:
        """Writes what became of deliveries. Raises StoreError."""
        return self._writer.put(Settle(tuple(settlements)))

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        """The answer kept under this Idempotency-Key since `since` (wall ms). Raises StoreUnavailable."""
        row = await self._reader.command("HGET", "answers", answer_key(scope, key))
        found = None if row is None else read_answer(scope, key, row)
        return found if found is not None and found.created_at >= since else None

    def remember(self, remembered: Remembered) -> Awaitable[None]:
        """Keeps an answer that belongs to no single job, for 24 h. Raises StoreError."""
        return self._writer.put(remembered)

    async def due_wall(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        """(moment, job_id) of alarms later than `after` and up to `before` on the wall line, earliest first.

        At most `limit`; equal moments in order of id. Raises StoreUnavailable.
        """
        return await self._due(DUE_WALL, before, limit, after)

    async def due_steady(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        """The same on the steady line."""
        return await self._due(DUE_STEADY, before, limit, after)

    async def open_jobs(self, after: str, limit: int) -> list[str]:
        """Ids, in order, of jobs with executions that are processing or wait for a retry (recovery)."""
        found = await self._reader.members(Range(OPEN, _beyond(after.encode())), limit)
        return [member.decode() for member in found]

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        """Durable deliveries in order of id. Raises StoreUnavailable."""
        wanted = Range("deliveries:ids", _beyond(after.encode()))
        page = await self._reader.page(wanted, limit, rows="deliveries")
        return [read_delivery(row) for row in page.rows]

    async def unwritten(self, after: tuple[str, int], limit: int) -> list[Batch]:
        """Batches that the history has not confirmed, in order of (uid, sequence)."""
        wanted = Range("unwritten:keys", b"(" + batch_key(*after))
        page = await self._reader.page(wanted, limit, rows="unwritten")
        return [read_batch(row) for row in page.rows]

    def written(self, keys: Sequence[tuple[str, int]]) -> Awaitable[None]:
        """The history has these batches (uid, sequence): forget them. Raises StoreError."""
        return self._writer.put(Written(tuple(keys)))

    def forget(self, job_id: str) -> Awaitable[bool]:
        """Removes a destroyed job, its counters and definitions; False: there is none. Raises StoreError."""
        return self._writer.put(Forget(job_id))

    async def clock_skew(self) -> int:
        """The steady clock's distance as it was saved last, in ms; 0: never."""
        return int(await self._reader.command("HGET", "meta", _CLOCK_SKEW) or 0)

    def save_clock_skew(self, skew: int) -> Awaitable[None]:
        """Keeps `skew` (ms) for the next start; ends when it is written. Raises StoreError."""
        return self._writer.put(Keep(_CLOCK_SKEW, skew))

    async def close(self) -> None:
        """Writes what was handed in, then gives the lease back. A second call does nothing."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._writer.close()
        await self._reader.close()
        await self._lister.close()
        await self._keeper.give_back()
        await self._session.close()
        self._release()

    async def _due(self, index: str, before: int, limit: int, after: int) -> list[tuple[int, str]]:
        wanted = Range(index, b"[" + number(after + 1), b"(" + number(before + 1))
        found = await self._reader.members(wanted, limit)
        return [(read_number(member), member[NUMBER_WIDTH:].decode()) for member in found]


def _beyond(mark: bytes) -> bytes:
    return b"(" + mark if mark else b"-"
