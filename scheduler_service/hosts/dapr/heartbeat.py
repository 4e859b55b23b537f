"""This node among others: its heartbeat, who else lives, and whether this process stood still."""

import asyncio
from collections.abc import Callable

import msgspec

from scheduler_service.domain.moments import DAY, SECOND
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.clock import Timekeeper
from scheduler_service.hosts.dapr.liveness import BEAT, OFFLINE, Liveness
from scheduler_service.ports.cluster import ClusterNodes, Node
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from scheduler_service.ports.log import Log

LOOK = SECOND // 2
STANDSTILL = 2 * SECOND
RUNNING, DRAINING, CUT_OFF, OFF = "running", "draining", "cut off", "offline"
GONE = (OFF, CUT_OFF)

Figures = Callable[[], tuple[int, int]]


class NodeHeartbeat:
    """Writes the heartbeat every 3 s; a node that was not seen for 10 s is offline (SPEC section 14).

    `tenure` tells what the others think of this node. One without its sidecar is gone for them.
    `figures` are jobsHeld and running; `on_standstill` is called when this process did not run for over 2 s,
    `on_look` after each look at the others.
    """

    def __init__(self, *, nodes: ClusterNodes, clock: Timekeeper, node: Node, log: Log) -> None:
        self._nodes = nodes
        self._clock = clock
        self._node = node
        self._log = log
        self.tenure = Liveness(clock=clock)
        self._figures: Figures = lambda: (0, 0)
        self._on_standstill: Callable[[], None] = lambda: None
        self._on_look: Callable[[], None] = lambda: None
        self._alive: frozenset[Holder] = frozenset()
        self._beaten = 0
        self._looked = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def holder(self) -> Holder:
        """This node and this start of its process."""
        return self._node.holder

    @property
    def others(self) -> frozenset[Holder]:
        """The other nodes that live, as of the last heartbeat."""
        return self._alive - {self.holder}

    async def enter(self) -> None:
        """Takes this node's place. Raises StoreUnavailable where a live node has the same name.

        A namesake that does not beat any more has died: its 10 s are waited for.
        """
        seen = await self._try_to_enter()
        while seen is not None:
            await self._clock.sleep(BEAT // 3)
            again = await self._try_to_enter()
            if again is not None and again > seen:
                raise StoreUnavailable(
                    f"a node {self._node.node_id!r} is running already; give this one another node.id"
                )
            seen = again
        self._beaten = self._looked = self._clock.now().steady
        self.tenure.extend(self._beaten)
        await self._refresh()

    def start(
        self, *, figures: Figures, on_standstill: Callable[[], None], on_look: Callable[[], None]
    ) -> None:
        """Begins to beat."""
        self._figures, self._on_standstill, self._on_look = figures, on_standstill, on_look
        self._looked = self._clock.now().steady
        self._task = asyncio.create_task(self._run())

    async def say(self, state: str) -> None:
        """Tells the others of a new state at once; where that fails, the next heartbeat does."""
        self._node = msgspec.structs.replace(self._node, state=state)
        if state in GONE:
            self.tenure.end()
        await self._beat()

    async def stop(self) -> None:
        """Leaves: the others take over at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.say(OFF)

    async def _try_to_enter(self) -> int | None:
        """None: this node has its place; else when the namesake that has it was seen last."""
        now = self._clock.now().steady
        node = msgspec.structs.replace(self._node, seen_at=now)
        if await self._nodes.enter(node, alive_since=now - OFFLINE):
            return None
        return next((one.seen_at for one in await self._nodes.list() if one.node_id == node.node_id), now)

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(LOOK)
            await self._clock.follow()
            now = self._clock.now().steady
            if now - self._looked > STANDSTILL:
                self._log("stood_still", ms=now - self._looked)
                self._on_standstill()
            self._looked = now
            if now - self._beaten >= BEAT:
                await self._beat()
                self._looked = self._clock.now().steady

    async def _beat(self) -> None:
        cached, running = self._figures()
        now = self._clock.now().steady
        node = msgspec.structs.replace(self._node, seen_at=now, jobs_held=cached, running=running)
        try:
            kept = await self._nodes.beat(node)
            await self._refresh()
        except StoreError as error:
            self._log("heartbeat_not_written", error=str(error))
            return
        self._on_look()
        if kept:
            self._beaten = now
            if not {node.state, self._node.state} & set(GONE):  # it may have changed while this was written
                self.tenure.extend(now)
        else:
            self._log("node_replaced", node=node.node_id)

    async def _refresh(self) -> None:
        now = self._clock.now().steady
        self._alive = frozenset(node.holder for node in await self._nodes.list() if is_alive(node, now))

    async def forget_old(self) -> None:
        """Removes nodes that have been gone for a day. Raises StoreError."""
        await self._nodes.forget(self._clock.now().steady - DAY)


def is_alive(node: Node, now: int) -> bool:
    """Whether a node is taken for alive at `now` (steady ms); one without its sidecar reaches no job."""
    return node.state not in GONE and now - node.seen_at < OFFLINE
