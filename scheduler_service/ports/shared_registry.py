"""What the nodes of a cluster keep in common of instances and rates. Everything here raises StoreError."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from scheduler_service.domain.registered_services import InstancePlace


class SharedInstance(msgspec.Struct, frozen=True):
    """An instance as it registered. Moments are steady ms; `left_at` None: it has not deregistered.

    `content` is its registration as the nodes wrote it; `seen_at` is as of the latest writing, and
    `NodeReport` has what was heard of it since. `number` is that of the writing that was read; 0: none was.
    """

    tenant: str
    service: str
    instance_id: str
    content: bytes
    seen_at: int
    left_at: int | None = None
    number: int = 0

    @property
    def place(self) -> InstancePlace:
        """What identifies it."""
        return self.tenant, self.service, self.instance_id


class ServiceNotice(msgspec.Struct, frozen=True):
    """The table of services has something new of this one; `anew`: its jobs were declared anew."""

    tenant: str
    name: str
    anew: bool = False


class Sighting(msgspec.Struct, frozen=True, array_like=True):
    """The latest sign of life of an instance (steady ms), with the load that it reported."""

    tenant: str
    service: str
    instance_id: str
    seen: int
    load: float


class OpenCalls(msgspec.Struct, frozen=True, array_like=True):
    """How many calls from one node an instance has to answer."""

    tenant: str
    service: str
    instance_id: str
    count: int


class NodeReport(msgspec.Struct, frozen=True):
    """What one node has heard lately, and what it has under way, all of it each time. `at` is steady ms."""

    node: str
    at: int
    seen: tuple[Sighting, ...] = ()
    calls: tuple[OpenCalls, ...] = ()


class Unread(msgspec.Struct, frozen=True):
    """The report of a node that this program cannot read, and why."""

    node: str
    reason: str


class Changes(msgspec.Struct, frozen=True):
    """What was written after a number, in its latest state, and the number of the latest writing."""

    number: int
    instances: tuple[SharedInstance, ...] = ()
    services: tuple[ServiceNotice, ...] = ()
    reports: tuple[NodeReport, ...] = ()
    unread: tuple[Unread, ...] = ()


class Old(msgspec.Struct, frozen=True):
    """What nobody needs any more. Of what was written last before the moment `before` (steady ms) these:

    an instance that has left, or that is `silent` to all nodes; the report of a node that is not `alive`; a
    notice up to the number `noticed` without jobs declared anew (notices have no moment).
    """

    before: int
    silent: tuple[InstancePlace, ...] = ()
    alive: frozenset[str] = frozenset()
    noticed: int = 0


class SharedRegistry(Protocol):
    """Instances, notices of services, reports of nodes; each writing has a number above all before it."""

    async def put(
        self, instances: Sequence[SharedInstance] = (), services: Sequence[ServiceNotice] = ()
    ) -> int:
        """Writes these in place of what was there. Returns the number of this writing."""

    async def change(self, instances: Sequence[SharedInstance]) -> None:
        """Writes each in place of the one that was read under its `number`; what was written since stays."""

    async def report(self, report: NodeReport) -> None:
        """Writes the report of a node in place of its earlier one."""

    async def after(self, number: int, node: str) -> Changes:
        """What was written after `number`, without the report of `node`; all of it after 0."""

    async def forget(self, old: Old) -> None:
        """Removes it; the other nodes know by their own clocks that it is old."""


class RatePage(msgspec.Struct, frozen=True):
    """What was written last of one limit; `number` is that of the writing, 0: nothing was written yet."""

    content: bytes = b""
    number: int = 0


class SharedRates(Protocol):
    """One page for each service (tenant, name) whose limit was asked for."""

    async def read(self, tenant: str, service: str) -> RatePage:
        """The latest page. Raises StoreUnavailable."""

    async def write(self, tenant: str, service: str, page: RatePage) -> bool:
        """Writes `page.content` over the page with `page.number`; False: another one was written meanwhile.

        Raises StoreUnavailable, and StoreUncertain where it may have been written.
        """
