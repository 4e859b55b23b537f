"""One process of a cluster as its world sees it: what it does is counted, and it can die at any of that."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.wire import Holder, OutboundRequest, Outcome
from scheduler_service.persistence.job_store.database import (
    GroupedWork,
    IsSingle,
    JobDatabase,
    JointWork,
)
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.ports.cluster import QueueTurn, TurnClaim
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.sending import MayGo, Sender, always
from scheduler_service.ports.state import Remembered, Settlement
from tests.conformance.hosts.stillness import Stillness

T = TypeVar("T")
Work = Callable[[Any], T]
Point = int | tuple[str, str]


class Points:
    """Counts what all processes do to their world; at point `chosen` the process that comes there dies.

    A point is chosen by its count, or by the process and what it does: where it first comes to that. `seen`
    has how often each kind of point was passed, `firsts` the count at which a process first came to one.
    """

    def __init__(self, die: Callable[[str], None]) -> None:
        self._die = die
        self.chosen: Point = 0
        self.count = 0
        self.seen: Counter[str] = Counter()
        self.firsts: dict[tuple[str, str], int] = {}
        self.died: tuple[str, str] | None = None

    def start(self, chosen: Point) -> None:
        """Counts from here on."""
        self.chosen, self.count = chosen, 0
        self.firsts.clear()

    async def pass_by(self, process: str, what: str) -> None:
        """One more point; at the chosen one nothing follows."""
        self.count += 1
        self.seen[what] += 1
        self.firsts.setdefault((process, what), self.count)
        if self.died is None and self.chosen in (self.count, (process, what)):
            self.died = (process, what)
            self._die(process)
            await asyncio.get_running_loop().create_future()


class Process:
    """What a process does passes by here; while it stands still, nothing does."""

    def __init__(self, name: str, points: Points) -> None:
        self.name = name
        self.stillness = Stillness()
        self._points = points

    @asynccontextmanager
    async def doing(self, what: str) -> AsyncIterator[None]:
        """A point before, and one after which the process has not yet heard of it."""
        await self.stillness.over()
        await self._points.pass_by(self.name, f"before {what}")
        yield
        await self._points.pass_by(self.name, f"after {what}")
        await self.stillness.over()


class ProcessDatabase(JobDatabase):
    """The shared database in the hands of one process; work is done at once, by the caller's own thread."""

    def __init__(self, database: JobDatabase, process: Process) -> None:
        self._database = database
        self._process = process
        self.dialect = database.dialect

    async def write(self, work: Work[T]) -> T:
        """Runs `work` in a transaction. Raises StoreError."""
        await self._process.stillness.over()
        (found,) = self._database._serve([work])
        await asyncio.sleep(0)
        await self._process.stillness.over()
        if isinstance(found, StoreError):
            raise found
        return found  # type: ignore[return-value]

    write_apart = write

    async def write_together(
        self, work: JointWork, value: object, is_single: IsSingle | None = None, *, may_wait: bool = False
    ) -> Any:
        """Runs `work` for this value alone, at once. Raises StoreError."""
        return await self.write(lambda connection: work(connection, [value])[0])

    async def write_all(self, work: JointWork, values: Sequence[object]) -> list[Any]:
        """Runs `work` for these values alone."""
        return await self.write(lambda connection: list(work(connection, list(values))))

    async def read_together(self, work: JointWork, value: object) -> Any:
        """What `work` reads for this value alone."""
        return await self.read(lambda connection: work(connection, [value])[0])

    async def read(self, work: Work[T]) -> T:
        """What `work` reads."""
        await self._process.stillness.over()
        (found,) = self._database._serve_reads([GroupedWork(lambda one, _: [work(one)], None)])
        await asyncio.sleep(0)
        await self._process.stillness.over()
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]


class ProcessStore(TurnStore):
    """The shared tables, with points at what turns and deliveries write."""

    def __init__(self, *, database: JobDatabase, process: Process) -> None:
        super().__init__(database=database)
        self.database = database
        self._process = process

    async def claim(self, claim: TurnClaim) -> None:
        """Claims a turn."""
        async with self._process.doing("claim"):
            await super().claim(claim)

    async def claim_all(self, claims: Sequence[TurnClaim]) -> Sequence[StoreError | None]:
        """Claims the first turns of jobs."""
        async with self._process.doing("claims"):
            return await super().claim_all(claims)

    async def keep(
        self, deliveries: Sequence[Delivery], answers: Sequence[Remembered], holder: Holder
    ) -> None:
        """Keeps what belongs to no turn."""
        async with self._process.doing("outbox"):
            await super().keep(deliveries, answers, holder)

    async def remember(self, remembered: Remembered) -> None:
        """Keeps an answer that belongs to no turn."""
        async with self._process.doing("outbox"):
            await super().remember(remembered)

    async def enqueue(self, turn: QueueTurn) -> None:
        """Writes into the queues what an old state wants."""
        async with self._process.doing("queues"):
            await super().enqueue(turn)

    async def settle(self, settlements: Sequence[Settlement], now: int, holder: Holder) -> None:
        """Writes what became of deliveries."""
        async with self._process.doing("settlement"):
            await super().settle(settlements, now, holder)


class ProcessSender(Sender):
    """What a process sends to the targets of its house, whichever these are at the moment."""

    def __init__(self, targets: Callable[[], Sender], process: Process) -> None:
        self._targets = targets
        self._process = process

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The target's answer."""
        async with self._process.doing("send"):
            return await self._targets().send(request, may_go)

    async def close(self) -> None:
        """Nothing is held open."""
