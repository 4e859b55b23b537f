"""The state store of the embedded host over one Redis database."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Self

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.common.writes import (
    CLOCK_SKEW,
    StoreWrites,
    read_deliveries,
    unpack_delivery,
)
from scheduler_service.persistence.contexts.address import Address
from scheduler_service.persistence.redis.catalogue import RedisCatalogue
from scheduler_service.persistence.redis.connection import TIMEOUT_SECONDS, ServerConnection
from scheduler_service.persistence.redis.encoding import (
    DUE_STEADY,
    DUE_WALL,
    NUMBER_WIDTH,
    OPEN,
    answer_key,
    batch_key,
    number,
    read_answer,
    read_batch,
    read_definition,
    read_number,
)
from scheduler_service.persistence.redis.lease import LeaseKeeper, Taken, take_lease
from scheduler_service.persistence.redis.queues import RedisQueues, Step
from scheduler_service.persistence.redis.reader import Range, Reader
from scheduler_service.persistence.redis.server import check, inspect
from scheduler_service.persistence.redis.session import Session
from scheduler_service.persistence.redis.write_arguments import answer_arguments
from scheduler_service.persistence.redis.writer import Writer
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import OpenJob, Remembered, StoredJob

OPENING_SECONDS = 5.0
"""Nobody waits for a start; a server that has just begun may be slow."""
Release = Callable[[], None]


def _ignore(*_: object) -> None:
    return


class Hooks(msgspec.Struct, frozen=True):
    """Reports from an open store. Each is called on the event loop and must not raise.

    `on_lost`: why this process may not write any more. `on_trouble`: why the server cannot be reached, None
    when it can be reached again. `on_doubt`: what the server may fail to keep. `on_unasked`: a connection was
    ended over an answer that nobody asked for.
    """

    on_lost: Callable[[str], None] = _ignore
    on_trouble: Callable[[str | None], None] = _ignore
    on_doubt: Callable[[str], None] = _ignore
    on_unasked: Callable[[], None] = _ignore


_NO_HOOKS = Hooks()


class RedisStateStore(StoreWrites[Writer]):
    """`ports.state.OpenStore`, which documents the methods, over a Redis database with a lease.

    `boot` counts the starts over the database, and is the fence of every write. Over a destroyed job a commit
    may expect 0 or the destruction's sequence.
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

        def connect() -> ServerConnection:
            return ServerConnection(address=address, timeout=timeout, on_unasked=hooks.on_unasked)

        self._session = Session(connection=connect(), place=place, taken=taken, on_lost=hooks.on_lost)
        self._keeper = LeaseKeeper(
            connection=connect(), boot=taken.boot, on_lost=self._session.lose, on_trouble=hooks.on_trouble
        )
        super().__init__(Writer(session=self._session, place=place, size=size, faults=faults))
        self._reader = Reader(connection=connect(), session=self._session, place=place)
        # Lists may read all jobs: the load of a turn must not wait for one.
        self._lister = Reader(connection=connect(), session=self._session, place=place)
        self.catalogue = RedisCatalogue(reader=self._lister)
        self.queues = RedisQueues(put=self.writer.put, reader=self._reader)
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
        timeout: float = TIMEOUT_SECONDS,
        hooks: Hooks = _NO_HOOKS,
        faults: FaultPoints | None = None,
        release: Release = _ignore,
    ) -> Self:
        """Takes the store, making it where it is missing; waits for the lease of a process it cannot see.

        `durability` as in `server.check`. `node_id` empty: the name kept from the last start, or a new one.
        `size` is the most writes of one group, `timeout` (s) the longest wait for an answer once the store is
        open: until then it is five seconds at least. `release` is called at the end of `close`. Raises
        StoreRefused: ServerUnfit, StoreLocked, StoreTooNew; StoreUnavailable.
        """
        place = str(address)
        connection = ServerConnection(address=address, timeout=max(timeout, OPENING_SECONDS))
        try:
            doubt = check(await inspect(connection, place=place), place=place, durability=durability)
            if doubt is not None:
                hooks.on_doubt(doubt)
            taken = await take_lease(connection, place=place, node_id=node_id)
        finally:
            await connection.close()
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
        return await self._reader.load(job_id)

    async def definition(self, uid: str, revision: int) -> bytes | None:
        row = await self._reader.command("HGET", f"definitions:{uid}", revision)
        return None if row is None else read_definition(row)

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        row = await self._reader.command("HGET", "answers", answer_key(scope, key))
        found = None if row is None else read_answer(scope, key, row)
        return found if found is not None and found.created_at >= since else None

    def remember_first(self, remembered: Remembered, since: int) -> Awaitable[bool]:
        step = Step((b"remember_first", *answer_arguments(remembered), number(since)), b"yes".__eq__)
        return self.writer.put(step)

    async def due_wall(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        return await self._due(DUE_WALL, before, limit, after)

    async def due_steady(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        return await self._due(DUE_STEADY, before, limit, after)

    async def open_jobs(self, after: str, limit: int, marks: Sequence[bytes]) -> list[OpenJob]:
        found = await self._reader.members(Range(OPEN, _after(after.encode())), limit)
        rows = await self._reader.marked(found, marks)
        return [
            OpenJob(member.decode(), is_marked, size)
            for member, (size, is_marked) in zip(found, rows, strict=True)
        ]

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        place = after.encode(errors="surrogateescape")
        page = await self._reader.page(Range("deliveries:ids", _after(place)), limit, rows="deliveries")
        try:
            found = [unpack_delivery(row) for row in page.rows]
        except (msgspec.MsgspecError, ValueError):
            return await self._first_delivery(place)
        ids = [place, *(one.delivery_id.encode() for one in found)]
        if found and (ids[-1] != page.last or ids != sorted(set(ids))):  # one is not that of its row
            return await self._first_delivery(place)
        return found

    async def _first_delivery(self, place: bytes) -> list[Delivery]:
        """The one behind `place`, alone: where a page has a damaged one, its rows are read with their ids."""
        is_full = True
        while is_full:
            first = await self._reader.page(Range("deliveries:ids", _after(place)), 1, rows="deliveries")
            place, is_full = first.last, first.is_full
            if first.rows:
                return read_deliveries([(place, first.rows[0])])
        return []

    async def unwritten(self, after: tuple[str, int], limit: int) -> list[Batch]:
        wanted = Range("unwritten:keys", b"(" + batch_key(*after))
        page = await self._reader.page(wanted, limit, rows="unwritten")
        return [read_batch(row) for row in page.rows]

    async def clock_skew(self) -> int:
        return int(await self._reader.command("HGET", "meta", CLOCK_SKEW) or 0)

    def leave(self) -> None:
        for part in (self._session, self._reader, self._lister, self._keeper):
            part.leave()

    async def close(self) -> None:
        """Writes what was put in, then gives the lease back. A second call waits for the same end."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self.writer.close()
        await self._reader.close()
        await self._lister.close()
        await self._keeper.give_back()
        await self._session.close()
        self._release()

    async def _due(self, index: str, before: int, limit: int, after: int) -> list[tuple[int, str]]:
        wanted = Range(index, b"[" + number(after + 1), b"(" + number(before + 1))
        found = await self._reader.members(wanted, limit)
        return [(read_number(member), member[NUMBER_WIDTH:].decode()) for member in found]


def _after(mark: bytes) -> bytes:
    return b"(" + mark if mark else b"-"
