"""The heartbeat of this node, which nodes are alive, which actors are active here, and standstills."""

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from scheduler_service.domain.moments import DAY, SECOND, Now, rfc3339
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.background_tasks import keep_at
from scheduler_service.persistence.cluster.nodes import Nodes
from scheduler_service.ports.clock import Clock, Timekeeper
from scheduler_service.ports.cluster import TURNS_IN_ROWS, Node
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.log_summaries import Outage

HEARTBEAT_INTERVAL_MS = 3 * SECOND
OFFLINE_AFTER_MS = 10 * SECOND
# A node gives itself up a second before the others may: its clock is not quite theirs.
OWN_LAPSE_AFTER_MS = OFFLINE_AFTER_MS - HEARTBEAT_INTERVAL_MS // 3
RUNNING, DRAINING, CUT_OFF, OFF = "running", "draining", "cut off", "offline"
GONE = (OFF, CUT_OFF)


def is_alive(node: Node, now: int) -> bool:
    """Whether a node counts as alive at `now` (steady ms); one without its sidecar reaches no job."""
    return node.state not in GONE and now - node.seen_at < OFFLINE_AFTER_MS


class Liveness:
    """Numbers the periods in which no other node can have counted this one as offline.

    A period lasts from heartbeat to heartbeat, and ends when the latest is 9 s old: the process stood still,
    was starved, or the database was away. After it others may have gone on with what was under way here.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._heartbeat_at: int | None = None
        self._period = 0

    @property
    def period(self) -> int:
        """The number of the present period, or, between two, of the one that has ended."""
        return self._period

    @property
    def is_current(self) -> bool:
        """Whether the others count this node as alive: its latest heartbeat is fresh."""
        return (
            self._heartbeat_at is not None
            and self._clock.now().steady - self._heartbeat_at < OWN_LAPSE_AFTER_MS
        )

    def lasts(self, period: int) -> bool:
        """Whether `period` goes on: no other node can have taken over what was begun in it."""
        return period == self._period and self.is_current

    def extend(self, heartbeat_at: int) -> None:
        """A heartbeat as of `heartbeat_at` (steady ms) was written; after a break a new period begins."""
        if not self.is_current:
            self._period += 1
        self._heartbeat_at = heartbeat_at

    def end(self) -> None:
        """This node reports itself as gone."""
        self._heartbeat_at = None


class ActiveActors:
    """An actor is active here from a turn that daprd delivered until daprd takes the actor away.

    daprd takes many away at once, and holds all turns and states meanwhile. So after the first sign of that
    none counts as active until daprd delivers a turn again: then the move is over.
    """

    def __init__(self, *, liveness: Liveness) -> None:
        self._liveness = liveness
        self._job_ids: set[str] = set()
        self._is_sure = self._is_closed = False

    def __contains__(self, job_id: object) -> bool:
        """Whether a turn on this job may be taken here without asking daprd."""
        return self._is_sure and job_id in self._job_ids and self._liveness.is_current

    def __len__(self) -> int:
        return len(self._job_ids)

    def compare(self, count: int, before: int) -> None:
        """daprd has said that it has `count` active, at a moment since when `before` were known here.

        Fewer than that: it has let some go without a word.
        """
        if count < min(before, len(self._job_ids)):
            self.clear()

    def add(self, job_id: str) -> None:
        """daprd has delivered a turn here."""
        self._job_ids.add(job_id)
        self._is_sure = not self._is_closed

    def remove(self, job_id: str) -> None:
        """daprd takes the actor away; others may follow."""
        self._job_ids.discard(job_id)
        self._is_sure = False

    def clear(self) -> None:
        """daprd may have let all go without a word: it started anew, or took this process for ill."""
        self._job_ids.clear()
        self._is_sure = False

    def close(self) -> None:
        """This node stops: none counts as active any more."""
        self._is_closed = True
        self.clear()


SILENT = "silent"


class Membership:
    """Compares the nodes that are alive with those of the time before; `own` is this node."""

    def __init__(self, *, log: Log, own: Holder) -> None:
        self._log = log
        self._own = own
        self._alive: dict[Holder, Node] | None = None

    def is_due(self, now: Now) -> bool:
        """Whether another node that was alive is offline by now, unless it has written a heartbeat since."""
        others = () if self._alive is None else self._alive.items()
        return any(holder != self._own and not is_alive(node, now.steady) for holder, node in others)

    def look(self, nodes: Iterable[Node], now: Now) -> frozenset[Holder]:
        """Those that are alive. The first look writes nothing: who is there then was there before."""
        listed = {node.holder: node for node in nodes}
        alive = {holder: node for holder, node in listed.items() if is_alive(node, now.steady)}
        before, self._alive = self._alive, alive
        for holder, node in () if before is None else before.items():
            if holder not in alive and holder != self._own:
                self._part(listed.get(holder, node), now)
        for holder, node in alive.items():
            if before is not None and holder not in before and holder != self._own:
                self._log("node_joined", node=node.node_id, address=node.address, version=node.version)
        return frozenset(alive)

    def _part(self, node: Node, now: Now) -> None:
        since = rfc3339(now.wall - (now.steady - node.seen_at))
        if node.state == OFF:
            self._log("node_left", node=node.node_id)
        else:
            reason = SILENT if is_alive(node, node.seen_at) else node.state
            self._log("node_lost", node=node.node_id, since=since, reason=reason)


POLL_MS = SECOND // 2
STANDSTILL_MS = 2 * SECOND


class NodeHeartbeat:
    """Writes the heartbeat every 3 s; a node without one for 10 s is offline (SPEC section 14).

    `liveness` is what the other nodes take this one for. A node without its sidecar is gone for them.
    `left_at`: when another node was last seen to stop, or to be gone (steady ms).
    """

    def __init__(self, *, nodes: Nodes, clock: Timekeeper, node: Node, log: Log) -> None:
        self._nodes = nodes
        self._clock = clock
        self._node = node
        self._log = log
        self.liveness = Liveness(clock=clock)
        self._alive: frozenset[Holder] = frozenset()
        self._stopping: frozenset[Holder] = frozenset()
        self._membership = Membership(log=log, own=node.holder)
        self._outage = Outage("heartbeat_not_written", "heartbeat_written_again", log=log)
        self.left_at = -OFFLINE_AFTER_MS
        self._written_at = 0
        self._polled_at = 0
        self._figures: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._on_standstill: Callable[[], None] = lambda: None
        self._on_refresh: Callable[[], None] = lambda: None
        self._task: asyncio.Task[None] | None = None

    @property
    def holder(self) -> Holder:
        """This node and this start of its process."""
        return self._node.holder

    @property
    def others(self) -> frozenset[Holder]:
        """The other nodes that are alive, as of the latest heartbeat."""
        return self._alive - {self.holder}

    @property
    def stopping(self) -> frozenset[Holder]:
        """Those of them that drain."""
        return self._stopping - {self.holder}

    async def enter(self) -> None:
        """Registers this node. Raises StoreUnavailable where a live node has the same name.

        The entry of a dead node with this name is replaced when it is 10 s old, which is waited for, or has
        stood still so long, where this clock is behind the one of its last heartbeat. Waited for is the end
        of each node, too, whose program makes turns durable in another way (before TURNS_IN_ROWS).
        """
        await self._outlast_older_nodes()
        began, seen_at = self._clock.now().steady, await self._try_to_enter()
        while seen_at is not None:
            await self._clock.sleep(HEARTBEAT_INTERVAL_MS // 3)
            stands_still = self._clock.now().steady - began > OFFLINE_AFTER_MS
            again = await self._try_to_enter(seen_at if stands_still else 0)
            if again is not None and again > seen_at:
                raise StoreUnavailable(
                    f"a node {self._node.node_id!r} is running already; give this one another node.id"
                )
            seen_at = again
        self._written_at = self._polled_at = self._clock.now().steady
        self.liveness.extend(self._written_at)
        await self._refresh()

    def start(
        self,
        *,
        figures: Callable[[], tuple[int, int]],
        on_standstill: Callable[[], None],
        on_refresh: Callable[[], None],
    ) -> None:
        """Begins to write heartbeats.

        `figures` are the jobs in memory and how many of them run; `on_standstill` is called when this process
        did not run for over 2 s, `on_refresh` when the other nodes were read: after each heartbeat, and as
        soon as one of them may be offline.
        """
        self._figures, self._on_standstill, self._on_refresh = figures, on_standstill, on_refresh
        self._polled_at = self._clock.now().steady
        self._task = keep_at(self._run, name="heartbeat", clock=self._clock, log=self._log)

    async def report(self, state: str) -> None:
        """Writes a new state at once; where that fails, the next heartbeat has it."""
        self._node = msgspec.structs.replace(self._node, state=state)
        if state in GONE:
            self.liveness.end()
        await self._write()

    async def cancel(self) -> None:
        """Ends the heartbeats; to the other nodes this looks like a dead process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def stop(self) -> None:
        """Reports this node as offline: the others take over at once."""
        await self.cancel()
        await self.report(OFF)

    async def forget_old(self) -> None:
        """Removes nodes that have been gone for a day. Raises StoreError."""
        await self._nodes.forget(self._clock.now().steady - DAY)

    async def _outlast_older_nodes(self) -> None:
        """Returns once none is alive; those that are gone cannot come back."""
        told = frozenset[str]()
        while True:
            older = [one for one in await self._nodes.list() if one.format < TURNS_IN_ROWS]
            now = self._clock.now().steady
            alive = frozenset(one.node_id for one in older if is_alive(one, now))
            if not alive:
                if older:
                    await self._nodes.remove([one.holder for one in older])
                return
            if alive != told:
                self._log("older_nodes_awaited", nodes=sorted(alive), remedy="stop these nodes")
                told = alive
            await self._clock.sleep(HEARTBEAT_INTERVAL_MS // 3)

    async def _try_to_enter(self, dead_since: int = 0) -> int | None:
        """None: this node is registered; else the latest heartbeat of the node that has its name.

        One that is no later than `dead_since` is that of a dead one, too.
        """
        now = self._clock.now().steady
        node = msgspec.structs.replace(self._node, seen_at=now)
        if await self._nodes.enter(node, alive_since=max(now - OFFLINE_AFTER_MS, dead_since)):
            return None
        return next((one.seen_at for one in await self._nodes.list() if one.node_id == node.node_id), now)

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(POLL_MS)
            await self._clock.follow()
            now = self._clock.now().steady
            if now - self._polled_at > STANDSTILL_MS:
                self._log("node_stalled", ms=now - self._polled_at)
                self._on_standstill()
            self._polled_at = now
            if now - self._written_at >= HEARTBEAT_INTERVAL_MS:
                await self._write()
                self._polled_at = self._clock.now().steady
            elif self._membership.is_due(self._clock.now()):
                await self._look_again()
                self._polled_at = self._clock.now().steady

    async def _write(self) -> None:
        cached, running = self._figures()
        now = self._clock.now().steady
        node = msgspec.structs.replace(self._node, seen_at=now, jobs_held=cached, running=running)
        try:
            is_registered = await self._nodes.beat(node)
            await self._refresh()
        except StoreError as error:
            self._outage.fail(str(error))
            return
        self._outage.succeed()
        self._on_refresh()
        if is_registered:
            self._written_at = now
            if not {node.state, self._node.state} & set(GONE):  # it may have changed while this was written
                self.liveness.extend(now)
        else:
            self._log("node_replaced", node=node.node_id)

    async def _look_again(self) -> None:
        """What a dead node had waits for this: the next heartbeat may be 3 s away."""
        try:
            await self._refresh()
        except StoreError as error:
            self._outage.fail(str(error))
            return
        self._outage.succeed()
        self._on_refresh()

    async def _refresh(self) -> None:
        now = self._clock.now()
        nodes = await self._nodes.list()
        before, self._alive = self._alive, self._membership.look(nodes, now)
        self._stopping = self._alive & {one.holder for one in nodes if one.state == DRAINING}
        if self.stopping or before - self._alive:
            self.left_at = now.steady
