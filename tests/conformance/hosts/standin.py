"""A sidecar within the process: state, reminders and turn-based actors, under the SDK's own client seam."""

import asyncio
import base64
import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from zlib import crc32

from dapr.actor import ActorId, ActorRuntime
from dapr.actor.runtime.manager import ActorManager
from dapr.clients.base import DaprActorClientBase
from dapr.clients.exceptions import DaprInternalError

from scheduler_service.hosts.dapr.actor import register
from scheduler_service.hosts.dapr.dapr_host import DaprHost
from scheduler_service.hosts.dapr.sidecar import ACTOR_TYPE, ActorMissing
from scheduler_service.ports.clock import Alarm
from tests.conformance.hosts.stillness import Stillness
from tests.manual_clock import ManualClock

# A busy machine may take long over what takes no time by the test's clock.
TIMEOUT_FACTOR = 20.0
PROBE_MS, PROBES = 1_000, 3
NOT_PERIODIC = json.dumps({"dueTime": "", "period": ""}).encode()
Line = tuple[str, str]
Reach = Callable[[ActorManager], ActorManager]
Call = functools.partial[Awaitable[Any]]
Doing = Callable[[str], AbstractAsyncContextManager[None]]


class StandIn:
    """What placement, scheduler service, state store and all sidecars of a cluster do together.

    One turn of an actor at a time; an actor lives on one of the nodes that are up, and moves when they
    change. State and reminders outlive every node. A reminder's callback that fails comes again after 5 s.
    While actors move, turns wait, and so do the states that belong to no turn of a sidecar; what was written
    is refused then, if its actor has moved (`tests/sidecar/behaviours/test_local_writes.py`). `turns` counts
    those that a sidecar delivered, `refused` the states that it did not write, `reads` those asked for.

    A sidecar asks its node each second how it is. One that is not healthy three times is ill: its actors
    move without a word to it, and whatever it asks of its sidecar hangs until its timeout.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.state: dict[str, bytes] = {}
        self.reminders: dict[str, tuple[int, Alarm]] = {}
        self.registrations = 0
        self.saves = 0
        self.nodes: dict[str, ActorManager] = {}
        self.active: dict[str, str] = {}
        self.is_down = False
        self.before_save: Callable[[str, str], asyncio.Future[None] | None] | None = None
        self.after_save: Callable[[str, str], None] | None = None
        self.journal: list[Line] = []
        self.turns = self.refused = self.reads = 0
        self.ill: dict[str, ActorManager] = {}
        self._hosts: dict[str, DaprHost] = {}
        self._moved: asyncio.Future[None] | None = None
        self._locks: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def join(
        self, node: str, turns: DaprHost, reach: Reach = lambda manager: manager
    ) -> "StandInClient":
        """A node comes up; the actors that are its own now move there. `reach` is the way to its actors."""
        client = StandInClient(self, node)
        await register(turns, client)
        self.nodes[node] = reach(ActorRuntime._actor_managers[ACTOR_TYPE])
        self._hosts[node] = turns
        self._probe_later(node, turns, 0)
        await self.rebalance()
        return client

    def _probe_later(self, node: str, turns: DaprHost, failed: int) -> None:
        self.clock.call_after(PROBE_MS, lambda: self._probe(node, turns, failed))

    def _probe(self, node: str, turns: DaprHost, failed: int) -> None:
        if self._hosts[node] is not turns:
            return  # another start of the node is probed by now
        is_well = getattr(turns, "is_healthy", True)
        if is_well and node in self.ill:
            self.nodes[node] = self.ill.pop(node)
        elif not is_well and failed + 1 >= PROBES and node in self.nodes:
            manager = self.nodes[node]
            self.kill(node)
            self.ill[node] = manager
        self._probe_later(node, turns, 0 if is_well else failed + 1)

    async def leave(self, node: str) -> None:
        """A node leaves: its actors are deactivated there and move to the others."""
        manager = self.nodes.pop(node)
        for actor_id in [one for one, owner in self.active.items() if owner == node]:
            await self.deactivate(actor_id, manager)

    def kill(self, node: str) -> None:
        """A node dies without a word."""
        self.nodes.pop(node, None)
        self.ill.pop(node, None)
        self.active = {one: owner for one, owner in self.active.items() if owner != node}
        self.release_locks()

    def release_locks(self) -> None:
        """DaprHost that are under way hold up no other one any more."""
        self._locks.clear()

    async def come_back(self, node: str, manager: ActorManager) -> None:
        """A sidecar that stood still finds that its actors live elsewhere, and deactivates them."""
        self.nodes[node] = manager
        for actor_id in list(manager._active_actors):
            async with self._lock(actor_id):
                if actor_id in manager._active_actors:
                    await manager.deactivate_actor(ActorId(actor_id))

    async def rebalance(self) -> None:
        """Moves each active actor to where it belongs now, all of them at once; one round after the other.

        Who dies meanwhile has nothing to give.
        """
        await self._settled()
        moving = [
            self.deactivate(actor_id, self.nodes[owner])
            for actor_id, owner in self.active.items()
            if owner in self.nodes and owner != self.place(actor_id)
        ]
        if moving:
            self._moved = asyncio.get_running_loop().create_future()
            try:
                await asyncio.gather(*moving, return_exceptions=True)
            finally:
                self._moved.set_result(None)
                self._moved = None

    def restart(self, node: str) -> None:
        """The sidecar of a node starts anew: it has no actor active, and none is told."""
        self.active = {one: owner for one, owner in self.active.items() if owner != node}

    def place(self, actor_id: str) -> str:
        """The node on which an actor lives. Raises DaprInternalError where there is none."""
        if not self.nodes or self.is_down:
            raise DaprInternalError(f"did not find address for actor {actor_id}")
        return max(self.nodes, key=lambda node: crc32(f"{node}/{actor_id}".encode()))

    async def invoke(self, actor_id: str, method: str, data: bytes) -> bytes:
        """One turn."""
        await self._settled()
        async with self._lock(actor_id):
            node = self.place(actor_id)
            self.active[actor_id] = node
            self.turns += 1
            try:
                return await self.nodes[node].dispatch(ActorId(actor_id), method, data)
            except asyncio.CancelledError:
                asking = asyncio.current_task()
                if node in self.nodes or (asking is not None and asking.cancelling()):
                    raise
                raise DaprInternalError(f"{node} has died over a turn of {actor_id}") from None

    def remind(self, actor_id: str, name: str, pause: int) -> None:
        """Registers or replaces a reminder."""
        self.forget(actor_id)
        self.registrations += 1
        moment = self.clock.now().steady + pause
        self.reminders[actor_id] = (moment, self._plan(actor_id, name, pause))

    def forget(self, actor_id: str) -> None:
        """Removes a reminder."""
        known = self.reminders.pop(actor_id, None)
        if known is not None:
            known[1].cancel()

    async def save(self, node: str, actor_id: str, values: Mapping[str, bytes | None]) -> None:
        """Writes values of an actor, or removes them, when it is let. Raises ActorMissing: it is not here."""
        await self.await_move(actor_id)
        if self.active.get(actor_id) != node:
            self.refused += 1
            raise ActorMissing("actor instance is missing")
        self.journal.append(("save", actor_id))
        gate = None if self.before_save is None else self.before_save(node, actor_id)
        if gate is not None:
            await gate
        self.saves += 1
        for key, value in values.items():
            if value is None:
                self.state.pop(name_of(actor_id, key), None)
            else:
                self.state[name_of(actor_id, key)] = value
        self.journal.append(("saved", actor_id))
        if self.after_save is not None:
            self.after_save(node, actor_id)

    async def await_move(self, actor_id: str) -> None:
        """A state that belongs to no turn of a sidecar waits while actors move."""
        if not self._lock(actor_id).locked():
            await self._settled()

    async def _settled(self) -> None:
        while self._moved is not None:
            await asyncio.wait({self._moved})

    def _plan(self, actor_id: str, name: str, pause: int) -> Alarm:
        return self.clock.call_after(pause, lambda: self._fire_soon(actor_id, name))

    def _fire_soon(self, actor_id: str, name: str) -> None:
        moment, _ = self.reminders.pop(actor_id)
        task = asyncio.create_task(self.fire(actor_id, name, moment))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def fire(self, actor_id: str, name: str, moment: int) -> None:
        """The turn of a reminder that was due at `moment`. Never raises."""
        try:
            await self._settled()
            async with self._lock(actor_id):
                node = self.place(actor_id)
                self.active[actor_id] = node
                self.turns += 1
                await self.nodes[node].fire_reminder(ActorId(actor_id), name, NOT_PERIODIC)
        except Exception:  # noqa: BLE001 - whatever the callback raised, the policy says: again
            if actor_id not in self.reminders:
                self.reminders[actor_id] = (moment + 5_000, self._plan(actor_id, name, 5_000))

    async def deactivate(self, actor_id: str, manager: ActorManager) -> None:
        async with self._lock(actor_id):
            self.active.pop(actor_id, None)
            await manager.deactivate_actor(ActorId(actor_id))

    def _lock(self, actor_id: str) -> asyncio.Lock:
        return self._locks.setdefault(actor_id, asyncio.Lock())


def bounded(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A method of the SDK's client with the product's own `seconds`: then it raises TimeoutError."""

    @functools.wraps(call)
    async def within(client: "StandInClient", *arguments: Any, seconds: float) -> Any:
        if client.node in client.world.ill:
            await client.world.clock.sleep(round(seconds * 1_000 / client.timeout_factor))
            raise TimeoutError
        async with asyncio.timeout(seconds):
            return await client.carry(functools.partial(call, client, *arguments))

    return within


def name_of(actor_id: str, key: str) -> str:
    """Under which a value of an actor lies in the world's state: that of 0.1.0 under the id alone."""
    return actor_id if key == "state" else f"{actor_id}||{key}"


class StandInClient(DaprActorClientBase):
    """One node's client (`hosts.dapr.sidecar.ActorCalls`)."""

    timeout_factor = TIMEOUT_FACTOR

    def __init__(self, world: StandIn, node: str, doing: Doing | None = None) -> None:
        self.world = world
        self.stillness = Stillness()
        self._doing = doing or _nothing
        self.node = node
        self.is_cut = False

    async def carry(self, call: Call) -> Any:
        """What the sidecar answers to a call."""
        return await call()

    @bounded
    async def invoke_method(
        self, actor_type: str, actor_id: str, method: str, data: bytes | None = None
    ) -> bytes:
        self._check(actor_type)
        try:
            answer = await self.world.invoke(actor_id, method, data or b"")
        except DaprInternalError:
            await self.stillness.over()
            raise
        await self.stillness.over()
        return answer

    @bounded
    async def save_state_transactionally(self, actor_type: str, actor_id: str, data: bytes) -> None:
        self._check(actor_type)
        requests = [operation["request"] for operation in json.loads(data)]
        values = {
            one["key"]: json.dumps(one["value"]).encode() if "value" in one else None for one in requests
        }
        async with self._doing("save"):
            await self.world.save(self.node, actor_id, values)
        await self.stillness.over()

    @bounded
    async def get_state(self, actor_type: str, actor_id: str, name: str) -> bytes:
        self._check(actor_type)
        await asyncio.sleep(0)
        await self.world.await_move(actor_id)
        self.world.reads += 1
        found = self.world.state.get(name_of(actor_id, name), b"")
        await self.stillness.over()
        return found

    @bounded
    async def register_reminder(self, actor_type: str, actor_id: str, name: str, data: bytes) -> None:
        self._check(actor_type)
        reminder = json.loads(data)
        base64.b64decode(reminder["data"])
        async with self._doing("reminder"):
            self.world.remind(actor_id, name, int(reminder["dueTime"].removesuffix("ms")))
        await self.stillness.over()

    @bounded
    async def unregister_reminder(self, actor_type: str, actor_id: str, name: str) -> None:
        self._check(actor_type)
        async with self._doing("removal of a reminder"):
            self.world.forget(actor_id)

    async def register_timer(self, actor_type: str, actor_id: str, name: str, data: bytes) -> None:
        raise AssertionError("no sidecar timers: they break after a rebalance")

    async def unregister_timer(self, actor_type: str, actor_id: str, name: str) -> None:
        raise AssertionError("no sidecar timers")

    def _check(self, actor_type: str) -> None:
        if actor_type != ACTOR_TYPE or self.is_cut or self.world.is_down:
            raise DaprInternalError("the sidecar cannot be reached")


@asynccontextmanager
async def _nothing(what: str) -> AsyncIterator[None]:
    """Nobody counts."""
    yield
