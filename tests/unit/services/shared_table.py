"""A shared registry in dictionaries, and nodes that have their view of it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.registered_services import InstancePlace
from scheduler_service.domain.wire import Holder
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.shared_registry import (
    Changes,
    NodeReport,
    Old,
    ServiceNotice,
    SharedInstance,
    SharedRegistry,
)
from scheduler_service.services.instances import Instance, Instances
from scheduler_service.services.registry import Registry
from scheduler_service.services.shared_registry_view import SharedView
from tests.manual_clock import ManualClock
from tests.unit.services.tables import MemoryTable

TENANT, SHOP = "default", "shop"


class MemoryShared(SharedRegistry):
    """`ports.SharedRegistry`; `writes` counts what changes something.

    `is_down` makes every call fail, `fails_writes` those that write.
    The next writing of instances or notices waits at the `gate`, if there is one; later ones overtake it.
    """

    def __init__(self) -> None:
        self.number = self.writes = self.reports_written = 0
        self.is_down = self.fails_writes = False
        self.gate: asyncio.Event | None = None
        self._instances: dict[InstancePlace, tuple[int, SharedInstance]] = {}
        self._services: dict[tuple[str, str], tuple[int, ServiceNotice]] = {}
        self._reports: dict[str, tuple[int, NodeReport]] = {}

    async def put(
        self, instances: Sequence[SharedInstance] = (), services: Sequence[ServiceNotice] = ()
    ) -> int:
        await self._await_gate()
        self._write()
        self._keep(instances)
        self._services.update(((one.tenant, one.name), (self.number, one)) for one in services)
        return self.number

    async def change(self, instances: Sequence[SharedInstance]) -> None:
        await self._await_gate()
        self._write()
        written = {place: number for place, (number, _) in self._instances.items()}
        self._keep([one for one in instances if written.get(one.place) == one.number])

    async def report(self, report: NodeReport) -> None:
        self._write()
        self.reports_written += 1
        self._reports[report.node] = (self.number, report)

    async def after(self, number: int, node: str) -> Changes:
        self._check()
        return Changes(
            self.number,
            tuple(one for written, one in self._instances.values() if written > number),
            tuple(one for written, one in self._services.values() if written > number),
            tuple(one for written, one in self._reports.values() if written > number and one.node != node),
        )

    async def forget(self, old: Old) -> None:
        self._check()
        for place, (_, one) in list(self._instances.items()):
            silent_since = one.seen_at if place in old.silent else old.before
            if (silent_since if one.left_at is None else one.left_at) < old.before:
                del self._instances[place]
        for node, (_, report) in list(self._reports.items()):
            if report.at < old.before and node not in old.alive:
                del self._reports[node]
        for key, (number, notice) in list(self._services.items()):
            if number <= old.noticed and not notice.anew:
                del self._services[key]

    def _keep(self, instances: Sequence[SharedInstance]) -> None:
        for one in instances:
            self._instances[one.place] = (self.number, msgspec.structs.replace(one, number=self.number))

    async def _await_gate(self) -> None:
        gate, self.gate = self.gate, None
        if gate is not None:
            await gate.wait()

    def _check(self) -> None:
        if self.is_down:
            raise StoreUnavailable("the shared tables are down")

    def _write(self) -> None:
        self._check()
        if self.fails_writes:
            raise StoreUnavailable("the shared tables cannot be written")
        self.writes += 1
        self.number += 1


class ViewedNode:
    """A node with its registry and its view."""

    def __init__(self, cluster: "ViewedCluster", name: str, boot: int) -> None:
        self.clock = cluster.clock
        self.holder = Holder(name, str(boot))
        self.instances = Instances(offline_after=10 * SECOND)
        self.calls: dict[InstancePlace, int] = {}
        self.lines: list[str] = []
        self.errors: list[str] = []
        self.view = SharedView(
            shared=cluster.shared,
            instances=self.instances,
            clock=cluster.clock,
            node=name,
            others=lambda: frozenset(one.holder for one in cluster.nodes.values()) - {self.holder},
            log=self._write_log,
        )
        self.registry = Registry(
            table=cluster.table, instances=self.instances, clock=cluster.clock, sharing=self.view
        )
        self.view.bind(open_here=lambda: list(self.calls.items()), on_notices=self.registry.take_notices)

    async def register(self, name: str, **members: Any) -> None:
        """An instance of the shop registers here."""
        seen = self.clock.now().steady
        instance = Instance(SHOP, TENANT, name, f"http://{name}.test", seen=seen, **members)
        await self.registry.announce(instance, None)

    def beat(self, name: str, **members: Any) -> bool:
        """It sends a heartbeat here; False: it is not known."""
        now = self.clock.now().steady
        return self.instances.renew(TENANT, SHOP, name, now, **members) is not None

    def online(self) -> list[str]:
        """Who is there by what this node knows, without those that drain."""
        found = self.instances.online(TENANT, SHOP, self.clock.now().steady)
        return [one.instance_id for one in found if not one.draining]

    def _write_log(self, event: str, /, **keys: Any) -> None:
        self.lines.append(event)
        self.errors.append(str(keys.get("error", "")))


class ViewedCluster:
    """Nodes over one table and one clock that the test moves."""

    def __init__(self) -> None:
        self.clock = ManualClock(wall=1_000_000)
        self.shared = MemoryShared()
        self.table = MemoryTable()
        self.nodes: dict[str, ViewedNode] = {}
        self._boots = 0

    async def start(self, name: str) -> ViewedNode:
        """Another node, or a dead one again."""
        self._boots += 1
        node = self.nodes[name] = ViewedNode(self, name, self._boots)
        await node.registry.load()
        node.view.start()
        await self.settle()
        return node

    async def stop(self, name: str) -> None:
        """A node ends."""
        await self.nodes.pop(name).view.stop()

    async def go_on(self, pause: int) -> None:
        """Time goes by in small steps."""
        end = self.clock.now().steady + pause
        while self.clock.now().steady < end:
            self.clock.advance(min(100, end - self.clock.now().steady))
            await self.settle()

    async def settle(self) -> None:
        """Returns when nothing goes on any more without the clock."""
        for _ in range(30):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for name in list(self.nodes):
            await self.stop(name)
