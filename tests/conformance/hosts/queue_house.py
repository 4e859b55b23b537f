"""A cluster of which each node hands out parts of queues, and instances that claim them at any node."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from scheduler_service.domain.leases import Leased, QueueFigures, QueueQuery, Renewed
from scheduler_service.domain.records import StepEnded
from scheduler_service.domain.registered_services import Kind
from scheduler_service.domain.step_parts import PartEnd
from scheduler_service.persistence.cluster.cluster_queues import ClusterQueues
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.ports.errors import StoreError
from scheduler_service.services.instances import Instances
from scheduler_service.services.pauses import Pauses
from scheduler_service.services.pull_queues import Completed, PullQueues
from scheduler_service.services.queue_watch import DOWNTIME_MS, QueueWatch
from scheduler_service.services.rate_windows import ClaimRate
from scheduler_service.services.router import MemoryRouter, Terms
from tests.conformance.hosts.houses import DaprHouse, DaprNode
from tests.conformance.hosts.process import Process, ProcessDatabase, T, Work
from tests.conformance.hosts.stillness import ProcessClock
from tests.unit.services.tables import MemoryTable

TENANT, QUEUE = "default", "work"
Reply = TypeVar("Reply")
Place = tuple[str, int, int, int, int | None]
"""Job, execution, attempt, step and part; no part: the whole step."""


class QueueDatabase(ProcessDatabase):
    """The shared database as a process reaches it for its queues, with points at each write."""

    def __init__(self, database: JobDatabase, process: Process) -> None:
        super().__init__(database, process)
        self._doing = process.doing
        self._tasks: set[asyncio.Task[Any]] = set()

    async def write_apart(self, work: Work[T]) -> T:
        """Runs `work` in a transaction. Raises StoreError."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with self._doing("part"):
                return await self.write(work)
        finally:
            self._tasks.discard(task)

    def end(self) -> None:
        """Ends what its process has under way here, as its death does."""
        for task in self._tasks:
            task.cancel()


class NodeQueues(msgspec.Struct, frozen=True):
    """The queues at one node."""

    queues: PullQueues
    watch: QueueWatch
    pauses: Pauses
    database: QueueDatabase

    async def end(self) -> None:
        """Ends all of it."""
        self.database.end()
        await self.watch.stop()
        await self.queues.stop()


class QueueHouse(DaprHouse):
    """A cluster over the stand-in, with the queues of SPEC section 13."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.at: dict[str, NodeQueues] = {}
        self.table = MemoryTable()

    def make_parts(self, process: Process, clock: ProcessClock) -> dict[str, Any]:
        """The queues of a node that comes up."""
        database = QueueDatabase(self.database, process)
        table = ClusterQueues(database=database, downtime=DOWNTIME_MS)
        queues = PullQueues(table=table, clock=clock, log=self._write_log)
        watch = QueueWatch(queues=queues, table=table, clock=clock, log=self._write_log)
        pauses = Pauses(table=self.table, clock=clock, tell=self._tell)
        self.at[process.name] = NodeQueues(queues, watch, pauses, database)
        return {"wake_claimers": queues.wake_for, "tend_queues": watch.tend}

    async def add(self, name: str) -> DaprNode:
        """Starts another node, and its queues."""
        node = await super().add(name)
        queues = self.at[name]
        rate = ClaimRate(rate_of=self.limit_claims(name).rate_of, clock=self.clock)
        await queues.pauses.refresh()
        await queues.queues.start(node.host, lambda *_: None, rate, queues.pauses)
        queues.watch.start()
        return node

    async def _tell(self, tenant: str, name: str) -> None:
        """Every node reads what is paused, as it does after a notice."""
        for node in self.at.values():
            await node.pauses.refresh()

    def limit_claims(self, name: str) -> MemoryRouter:
        """What knows the rate limits of queues at a node."""
        return MemoryRouter(instances=Instances(), terms=lambda *_: Terms(), clock=self.clock)

    async def crash(self, name: str = "one") -> None:
        """A node dies; nothing that its queues had begun goes on."""
        node = self.nodes[name]
        if not node.process.stillness.is_on:
            node.process.stillness.begin()
        await self.at.pop(name).end()
        await super().crash(name)

    async def close(self) -> None:
        """Ends everything."""
        for queues in self.at.values():
            await queues.end()
        await super().close()

    async def ask(self, ask: Callable[[PullQueues], Coroutine[Any, Any, Reply]], name: str = "") -> Reply:
        """As a caller does who gets no answer, or 503: again, at a node that is there."""
        while True:
            asked = name if name in self.at else next(iter(self.at))
            there = self.at[asked]
            asking = asyncio.ensure_future(ask(there.queues))
            await self.settle()
            while not asking.done() and self.at.get(asked) is there:
                await self.advance(100)
                await self.bury()
            if asking.done():
                try:
                    return asking.result()
                except (StoreError, asyncio.CancelledError):  # nobody, or one that has died
                    await self.advance(500)
            asking.cancel()

    async def bury(self) -> None:
        """Clears away who has died at the chosen point."""
        died = self.points.died
        if died is not None and died[0] in self.at and self.nodes[died[0]].process.stillness.is_on:
            await self.crash(died[0])

    async def pause(self, name: str) -> None:
        """A node is told that nothing is claimed any more."""
        await self.at[name].pauses.pause(Kind.QUEUE, TENANT, QUEUE)

    async def claim(
        self, instance: str = "w", *, most: int = 1, wait: int = 0, name: str = ""
    ) -> tuple[Leased, ...]:
        """What the instance is given."""
        return await self.ask(lambda one: one.claim(TENANT, QUEUE, instance, most=most, wait=wait), name)

    async def renew(self, lease: str, name: str = "", **said: str) -> Renewed | None:
        """The renewed lease; None: it is lost."""
        return await self.ask(lambda one: one.renew(lease, **said), name)

    async def complete(self, lease: str, end: PartEnd, name: str = "") -> Completed:
        """What the completion came to."""
        return await self.ask(lambda one: one.complete(lease, end), name)

    async def figures(self) -> list[QueueFigures]:
        """What the present node says of the queues."""
        return await self.ask(lambda one: one.figures(QueueQuery(TENANT)))

    def parts_left(self) -> int:
        """How many rows of parts there are, whatever their state."""
        return self.count("queue_parts")

    def count(self, table: str) -> int:
        """How many rows a table has."""
        with self.database.dialect.reading() as connection:
            return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())

    def ended_parts(self, job_ids: Sequence[str]) -> dict[Place, list[str | None]]:
        """The recorded errors (None: none) of each part and each whole step; each batch counts once."""
        found: dict[Place, list[str | None]] = defaultdict(list)
        for job_id in job_ids:
            for batch in {(one.uid, one.sequence): one for one in self.batches(job_id)}.values():
                for record in batch.records:
                    if isinstance(record, StepEnded):
                        attempt = (job_id, record.execute_number, record.request_counts)
                        found[(*attempt, record.index, record.part)].append(record.error)
        return found
