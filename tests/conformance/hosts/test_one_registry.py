"""Six instances of three services come and go at two nodes that are themselves stopped, killed and started.

What each was told, all know (SPEC section 13): a step goes only to who is there, and nothing ends as
`no_instance` while one is.
"""

import random
from collections.abc import Sequence

import msgspec
import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.records import ExecutionRecord
from scheduler_service.domain.registered_services import InstancePlace, Kind
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.hosts.dapr.heartbeat import NodeHeartbeat
from scheduler_service.persistence.cluster.shared_registry import SqlSharedRegistry
from scheduler_service.ports.errors import StoreError, StoreUnavailable
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

pytestmark = pytest.mark.anyio
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


SERVICES = ("shop", "till", "yard")
NODES = ("one", "two")
STEPS = 150
STEP_MS = 400


class Story:
    """One seed of what happens, and what every execution must come to."""

    def __init__(self, house: FleetHouse, seed: int) -> None:
        self.house = house
        self.chance = random.Random(seed)
        self.fleet = Fleet(house, SERVICES, 2, self.chance)

    async def play(self) -> None:
        """To the end of all that was begun."""
        house = self.house
        house.sender = self.fleet  # type: ignore[assignment]
        for node in NODES:
            await house.begin(node)
        for service in SERVICES:
            await house.create(
                service, qos=1, timeoutSeconds=60, request=[{"url": f"service://{service}/run"}]
            )
        for step in range(STEPS):
            await self.go_on(step)
        for _ in range(100):
            await self.pass_by()

    async def go_on(self, step: int) -> None:
        """Something happens, and something is asked for."""
        await self.fleet.happen()
        if step % 25 == 24:
            await self.disturb()
        service = self.chance.choice(SERVICES)
        try:
            await self.house.trigger(service)
        except StoreError:
            return  # its node has just died; nothing was begun
        await self.pass_by()

    async def pass_by(self) -> None:
        """Time goes by."""
        await self.house.advance(STEP_MS)
        await self.fleet.beat()

    async def disturb(self) -> None:
        """A node is stopped or dies, or comes back."""
        gone = [node for node in NODES if node not in self.house.nodes]
        if gone:
            for _ in range(10 * SECOND // STEP_MS + 1):  # till then a dead node's name is taken
                await self.pass_by()
            await self.house.begin(gone[0])
        else:
            await self.house.end(self.chance.choice(NODES), kill=self.chance.random() < 0.5)

    def ended(self, service: str) -> list[ExecutionRecord]:
        """The executions of its job that ran and ended."""
        return [one for one in self.house.finished(service) if one.state is not State.SKIPPED]

    def ended_without_cause(self, service: str) -> list[str]:
        """Those that ended badly, though an instance was there all the time."""
        found = []
        for one in self.ended(service):
            assert one.ended_at is not None
            if one.state is not State.SUCCEEDED and self.fleet.was_there(
                service, one.created_at - KNOWN_WITHIN, one.ended_at
            ):
                found.append(f"{service} {one.execute_number}: {one.error} at {one.ended_at}")
        return found


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
async def test_a_step_goes_to_who_is_there(seed: int) -> None:
    """All that was begun ends, and badly only in a time in which nobody was there."""
    house = FleetHouse()
    await house.start()
    story = Story(house, seed)
    try:
        await story.play()
    finally:
        for view in house.views.values():
            await view.view.stop()
        await house.close()
    assert story.fleet.astray == []
    assert story.fleet.answered > STEPS // 3
    for service in SERVICES:
        assert story.ended_without_cause(service) == []
        assert set(house.executions(service).values()) <= {State.SUCCEEDED, State.TERMINATED, State.SKIPPED}


@pytest.mark.parametrize("kill", [False, True])
async def test_a_pause_holds_at_every_node(kill: bool) -> None:
    """Whichever has the job, and over the end of the one that was told; then each step is sent, once."""
    house = FleetHouse()
    await house.start()
    fleet = Fleet(house, ("shop",), 1, random.Random(7))
    house.sender = fleet  # type: ignore[assignment]
    for node in NODES:
        await house.begin(node)
    (program,) = fleet.programs.values()
    while not program.is_running:
        await fleet.happen()
    jobs = [f"job-{number}" for number in range(6)]
    for job in jobs:
        await house.create(job, qos=1, timeoutSeconds=20, request=[{"url": "service://shop/run"}])
    await house.views["one"].registry.pause_service("default", "shop")
    await pass_time(house, fleet, 2)
    for job in jobs:
        await house.trigger(job)
    await pass_time(house, fleet, 40)
    await house.end("one", kill=kill)
    await pass_time(house, fleet, 40)
    assert fleet.answered == 0
    await house.views["two"].registry.resume_service("default", "shop")
    await pass_time(house, fleet, 10)
    ended = [(one.state, one.attempt_count) for job in jobs for one in house.finished(job)]
    assert ended == [(State.SUCCEEDED, 1)] * len(jobs)
    assert fleet.answered == len(jobs)
    await house.views["two"].view.stop()
    await house.close()


async def pass_time(house: FleetHouse, fleet: Fleet, seconds: int) -> None:
    """With heartbeats."""
    for _ in range(seconds * 2):
        await house.advance(500)
        await fleet.beat()
