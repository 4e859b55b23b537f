"""Instances of services that come and go, and a cluster of which each node has its own view of them."""

import random
from collections.abc import Sequence

import msgspec

from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.registered_services import InstancePlace, Kind
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.hosts.dapr.heartbeat import NodeHeartbeat
from scheduler_service.persistence.cluster.shared_registry import SqlSharedRegistry
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.sending import MayGo, NotSent, Sender, always
from scheduler_service.ports.shared_registry import (
    Changes,
    NodeReport,
    Old,
    ServiceNotice,
    SharedInstance,
)
from scheduler_service.services.instances import Instance, Instances
from scheduler_service.services.lost_instances import Losses
from scheduler_service.services.registry import Registry
from scheduler_service.services.router import MemoryRouter, Terms
from scheduler_service.services.routing_policies import RANDOM
from scheduler_service.services.shared_registry_view import SharedView
from tests.conformance.hosts.houses import DaprHouse
from tests.conformance.hosts.process import Process, ProcessDatabase
from tests.conformance.hosts.stillness import ProcessClock
from tests.manual_clock import ManualClock
from tests.unit.services.tables import MemoryTable

TENANT = "default"
KNOWN_WITHIN = 2 * SECOND


class MortalRegistry(SqlSharedRegistry):
    """The shared tables, as a process that may die reaches them."""

    is_dead = False

    async def put(
        self, instances: Sequence[SharedInstance] = (), services: Sequence[ServiceNotice] = ()
    ) -> int:
        self._check()
        return await super().put(instances, services)

    async def change(self, instances: Sequence[SharedInstance]) -> None:
        self._check()
        await super().change(instances)

    async def report(self, report: NodeReport) -> None:
        self._check()
        await super().report(report)

    async def after(self, number: int, node: str) -> Changes:
        self._check()
        return await super().after(number, node)

    async def forget(self, old: Old) -> None:
        self._check()
        await super().forget(old)

    def _check(self) -> None:
        if self.is_dead:
            raise StoreUnavailable("this process is dead")


class NodeView(msgspec.Struct, frozen=True):
    """What one node knows of services."""

    shared: MortalRegistry
    instances: Instances
    view: SharedView
    registry: Registry


class FleetHouse(DaprHouse):
    """A cluster over the stand-in, each node with a view of the shared registry of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.table = MemoryTable()
        self.views: dict[str, NodeView] = {}

    def route(self, clock: ProcessClock, heartbeat: NodeHeartbeat) -> MemoryRouter:
        """The router of a node that comes up, with its view."""
        instances = Instances()
        database = ProcessDatabase(self.database, Process("views", self.points))
        shared = MortalRegistry(database=database)
        view = SharedView(
            shared=shared,
            instances=instances,
            clock=clock,
            node=heartbeat.holder.node,
            others=lambda: heartbeat.others,
            log=self._write_log,
        )
        registry = Registry(table=self.table, instances=instances, clock=clock, sharing=view)

        def terms(tenant: str, name: str) -> Terms:
            awaits = registry.awaits_instances(tenant, name)
            return Terms(RANDOM, (), (), None, None, awaits)

        losses = Losses(
            instances=instances,
            clock=clock,
            lost_after=10_000,
            complete_at=lambda: registry.complete_at,
            log=self._write_log,
        )
        router = MemoryRouter(
            instances=instances,
            terms=terms,
            clock=clock,
            losses=losses,
            others=view,
            is_paused=lambda *key: registry.pauses.since(Kind.SERVICE, *key) is not None,
        )
        registry.pauses.subscribe(lambda _, *key: router.follow_pause(*key))
        view.bind(open_here=router.open_calls, on_notices=registry.take_notices)
        self.views[heartbeat.holder.node] = NodeView(shared, instances, view, registry)
        return router

    async def begin(self, name: str) -> None:
        """A node comes up, and begins to share."""
        if name not in self.nodes:
            await self.add(name)
        await self.views[name].registry.load()
        self.views[name].view.start()

    async def end(self, name: str, *, kill: bool) -> None:
        """A node is stopped, or dies; another one is there."""
        if kill:
            self.views[name].shared.is_dead = True
            await self.crash(name)
        else:
            node = self.nodes.pop(name)
            self.gone.append(node)
            self.node = next(iter(self.nodes.values()))
            await self.world.leave(name)
            await node.host.stop(0)
        await self.views.pop(name).view.stop()


class Program:
    """An instance of a service as its own process sees itself."""

    def __init__(self, service: str, name: str) -> None:
        self.service = service
        self.name = name
        self.is_running = self.drains = self.is_registered = False
        self.next_beat = 0
        self.out_since: int | None = 0

    @property
    def place(self) -> InstancePlace:
        """As the registry names it."""
        return TENANT, self.service, self.name

    @property
    def is_there(self) -> bool:
        """Whether it takes work, and has said so."""
        return self.is_running and self.is_registered and not self.drains


class Fleet(Sender):
    """Programs that register with any node, and what is sent to them.

    `astray` are calls to one that had left or drained for longer than nodes may take to know it.
    """

    def __init__(self, house: FleetHouse, services: Sequence[str], each: int, chance: random.Random) -> None:
        self.house = house
        self.clock: ManualClock = house.clock
        self.chance = chance
        self.programs = {
            f"http://{service}{number}.test": Program(service, f"{service}{number}")
            for service in services
            for number in range(each)
        }
        self.answered = 0
        self.astray: list[str] = []
        self._was_there: dict[str, list[tuple[int, bool]]] = {service: [] for service in services}

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        if not may_go():
            raise NotSent
        program = self.programs[request.base or ""]
        now = self.clock.now().steady
        if program.out_since is not None and now - program.out_since > KNOWN_WITHIN:
            self.astray.append(f"{program.name} at {now}, out since {program.out_since}")
        if not program.is_running:
            return Fault(FaultKind.CONNECT, "refused", unsent=True)
        if program.drains or not program.is_registered:
            return Answer(503, (("X-Instance-State", "draining"),))
        self.answered += 1
        return Answer(200, body=b"{}")

    async def close(self) -> None:
        """Nothing is held open."""

    async def happen(self) -> None:
        """One program starts, drains, goes on, leaves or dies."""
        program = self.chance.choice(list(self.programs.values()))
        if not program.is_running:
            program.is_running, program.drains = True, False
            await self._register(program)
        else:
            what = self.chance.choice(("drain", "undrain", "leave", "die", "nothing"))
            if what in ("drain", "undrain"):
                program.drains = what == "drain"
                await self._beat(program)
            elif what == "leave":
                await self._leave(program)
            elif what == "die":
                program.is_running = program.is_registered = False
        self.look()

    async def beat(self) -> None:
        """Those whose time has come send a heartbeat to any node."""
        for program in self.programs.values():
            if program.is_running and program.next_beat <= self.clock.now().steady:
                await self._beat(program)
        self.look()

    def look(self) -> None:
        """Notes which services are there (wall moments)."""
        now = self.clock.now().wall
        for service, changes in self._was_there.items():
            is_there = any(one.is_there for one in self.programs.values() if one.service == service)
            if not changes or changes[-1][1] is not is_there:
                changes.append((now, is_there))

    def was_there(self, service: str, since: int, until: int) -> bool:
        """Whether an instance was there, one or another, all the time (wall moments)."""
        changes = self._was_there[service]
        before = [is_there for at, is_there in changes if at <= since]
        meanwhile = [is_there for at, is_there in changes if since < at <= until]
        return bool(before) and before[-1] and all(meanwhile)

    def _node(self) -> NodeView:
        return self.chance.choice(list(self.house.views.values()))

    async def _register(self, program: Program) -> None:
        now = self.clock.now().steady
        instance = Instance(program.service, TENANT, program.name, f"http://{program.name}.test", seen=now)
        await self._node().registry.announce(instance, None)
        program.is_registered = True
        program.next_beat = now + 3 * SECOND
        program.out_since = None
        # One that died while it drained and is back within ten seconds has to say that it takes work again.
        await self._beat(program)

    async def _beat(self, program: Program) -> None:
        now, node = self.clock.now().steady, self._node()
        for _ in range(2):
            known = node.instances.renew(*program.place, now, load=0, draining=program.drains)
            if known is not None:
                break
            await node.registry.catch_up()
        else:
            await self._register(program)
        program.next_beat = now + 3 * SECOND
        if not program.drains:
            program.out_since = None
        elif program.out_since is None:
            program.out_since = now

    async def _leave(self, program: Program) -> None:
        await self._node().registry.deregister(*program.place)
        program.is_running = program.is_registered = False
        program.out_since = self.clock.now().steady
