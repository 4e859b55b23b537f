"""The placement `alone`: one process at a time over one folder, the embedded host in it."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from scheduler_service.domain.moments import Now
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.embedded.early_commit import BATCH_WINDOW_MS, BURST_LEAD_MS, EARLY_COMMIT_MS
from scheduler_service.hosts.embedded.embedded_host import EmbeddedHost, EmbeddedParts, build_embedded_host
from scheduler_service.hosts.host_dependencies import HostLimits
from scheduler_service.hosts.processes.shards import Shard
from scheduler_service.persistence.job_store.state_store import SqlStateStore
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError
from scheduler_service.security.history_masking import Masking
from scheduler_service.services.instances import Instances
from scheduler_service.services.lost_instances import Losses
from scheduler_service.services.router import MemoryRouter, Terms
from tests.simulation.callers import NoAnswer
from tests.simulation.disk import SimulatedHistory
from tests.simulation.faults import Risks
from tests.simulation.loop import SimulatedProcess, set_once
from tests.simulation.target import SimulatedSender
from tests.unit.hosts.house import CORE

if TYPE_CHECKING:
    from tests.simulation.world import World

OUTBOX_SECONDS = 30.0
LIMITS = HostLimits(
    interval=5_000, early_commit=EARLY_COMMIT_MS, batch_window=BATCH_WINDOW_MS, burst_lead=BURST_LEAD_MS
)


class Life:
    """One process, from its start to its end."""

    host: EmbeddedHost | None = None
    jobs: Shard | None = None
    store: SqlStateStore
    clock: SystemClock
    shard = 0
    is_begun = False
    up_at: float | None = None
    died_at: float | None = None

    def __init__(self, around: "World", number: int) -> None:
        self._around = around
        self.process = SimulatedProcess(around.loop, f"node.{number}")
        self._chance = around.chance(f"node {number}")
        self._risks = Risks(self.process, self._chance, around.troubles, around.points)

    @property
    def is_up(self) -> bool:
        """Whether it takes requests."""
        return self.host is not None and self.host.is_ready and not self.process.is_dead

    def forget(self) -> None:
        """Drops what the dead process had."""
        self.host = self.jobs = None
        for name in ("store", "clock"):
            self.__dict__.pop(name, None)

    def owns(self, job_id: str) -> bool:
        """Whether the job lives in this process."""
        return True

    async def serve(self) -> None:
        """Opens the store, and begins. Raises StoreError: it does not come up."""
        await self.open()
        await self.begin()
        await self._resend()

    async def open(self, skew: int | None = None) -> None:
        """Builds the host over the store. `skew`: of its clock, which another process keeps."""
        around = self._around
        store = self.store = around.disk.open(self._risks, self.owns)
        clock = self.clock = SystemClock(
            skew=await store.clock_skew() if skew is None else skew,
            on_step=store.save_clock_skew if skew is None else keep_nothing,
            wall=around.wall,
            monotonic=around.loop.time,
        )
        history = SimulatedHistory(archive=around.disk.archive, risks=self._risks)
        history.confirm = store.written
        holder = Holder("node", str(store.boot))
        parts = EmbeddedParts(
            store=store,
            history=history,
            sender=self._sender(clock.now),
            router=self._router(clock),
            clock=clock,
            redact=Masking().redact_all,
            log=self.log,
            holder=holder,
            boot=store.boot,
            begun=around.disk.mark_of(holder, self.shard),
            new_identity=around.new_identity,
            core=CORE,
            limits=LIMITS,
        )
        self.host = self.jobs = build_embedded_host(parts)

    async def begin(self) -> None:
        """Recovers, and takes firings."""
        assert self.host is not None
        await self.host.start()
        self.up_at = self._around.loop.time()
        self._around.note(self.process.name, f"up, boot {self.store.boot}")

    async def deliver(self, job_id: str, command: Command) -> Reply:
        """The reply of a turn; called from outside. Raises NoAnswer."""
        answer: asyncio.Future[Reply | None] = self._around.loop.create_future()
        self.process.start(self._take(job_id, command, answer))
        self.process.tell_of_death(lambda: set_once(answer, None))
        try:
            reply = await asyncio.wait_for(answer, 5.0)
        except TimeoutError:
            raise NoAnswer from None
        if reply is None:
            raise NoAnswer
        return reply

    async def stop(self, grace: int) -> None:
        """As on SIGTERM; returns when the process has ended, or is dead."""
        ended: asyncio.Future[None] = self._around.loop.create_future()
        self.process.start(self.shut_down(grace, ended))
        self.process.tell_of_death(lambda: set_once(ended, None))
        await ended

    async def shut_down(self, grace: int, ended: "asyncio.Future[None]") -> None:
        """What the process does then; sets `ended`."""
        assert self.host is not None
        await self.host.stop(grace)
        ended.set_result(None)

    def log(self, event: str, /, **keys: object) -> None:
        """A line of the process's log."""
        self._around.note(self.process.name, f"log {event} {keys}")

    async def _take(self, job_id: str, command: Command, answer: "asyncio.Future[Reply | None]") -> None:
        assert self.jobs is not None
        await asyncio.sleep(self._chance.uniform(0.0, 0.003))
        reply: Reply | None
        try:
            reply = await self.jobs.deliver(job_id, command)
        except StoreError:
            reply = None
        await asyncio.sleep(self._chance.uniform(0.0, 0.003))
        set_once(answer, reply)

    async def _resend(self) -> None:
        """What the system job `outbox` does."""
        assert self.jobs is not None
        while True:
            await asyncio.sleep(OUTBOX_SECONDS)
            try:
                await self.jobs.resend_outbox()
            except StoreError:
                continue

    def _sender(self, now: Callable[[], Now]) -> SimulatedSender:
        return SimulatedSender(targets=self._around.targets, risks=self._risks, now=now)

    def _router(self, clock: SystemClock) -> MemoryRouter:
        instances = Instances()
        losses = Losses(
            instances=instances, clock=clock, lost_after=10_000, complete_at=lambda: 0, log=_no_log
        )
        return MemoryRouter(instances=instances, terms=lambda _, __: Terms(), clock=clock, losses=losses)


async def keep_nothing(_: int) -> None:
    """The skew of the clock is another's to keep."""


def _no_log(event: str, /, **keys: object) -> None:
    """There are no instances."""
