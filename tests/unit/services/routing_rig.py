"""A router over instances in memory, with a clock that is set by hand."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from scheduler_service.domain.effects import CallPart, ResolveInstances
from scheduler_service.domain.wire import CallKind, OutboundRequest, Token
from scheduler_service.services.instances import Instance, Instances
from scheduler_service.services.router import MemoryRouter, Terms
from tests.manual_clock import ManualClock


class Scene:
    """A router over instances that the test names."""

    def __init__(self) -> None:
        self.clock = ManualClock(wall=1_000_000)
        self.instances = Instances()
        self.terms = Terms()
        self.is_paused = False
        self.router = MemoryRouter(
            instances=self.instances,
            terms=lambda _, __: self.terms,
            clock=self.clock,
            is_paused=lambda _, __: self.is_paused,
        )
        self.serial = 0
        self.tasks: list[asyncio.Task[Any]] = []

    def announce(self, name: str, **members: Any) -> None:
        """It has just been heard of."""
        seen = self.clock.now().steady
        self.instances.register(
            Instance("shop", "default", name, f"http://{name}.test", seen=seen, **members)
        )

    def search(self, **members: Any) -> ResolveInstances:
        """What a new execution asks."""
        self.serial += 1
        token = Token("uid", self.serial, self.serial, CallKind.RESOLVE, 0)
        given = {"key": "job", "seed": str(self.serial), "route": "failover"} | members
        return ResolveInstances(token, "default", "shop", **given)

    def call(self, search: ResolveInstances, instance: str) -> CallPart:
        """The call to which a search led."""
        one = search.token
        token = Token(one.uid, one.execute_number, one.request_counts, CallKind.PART, ord(instance[0]))
        return CallPart(token, "default", "shop", instance, OutboundRequest("POST", "service://shop/", ()))

    async def find(self, **members: Any) -> list[str]:
        """Who gets the step, at once."""
        chosen, *_ = await asyncio.wait_for(self.router.resolve(self.search(**members)), 1)
        return [one.instance for one in chosen]

    async def pause(self, *, is_paused: bool = True) -> None:
        """The service is paused, or goes on."""
        self.is_paused = is_paused
        self.router.follow_pause("default", "shop")
        await self.settle()

    async def begin(self, work: Awaitable[Any]) -> "asyncio.Task[Any]":
        """Starts what may have to wait."""
        task = asyncio.ensure_future(work)
        self.tasks.append(task)
        await self.settle()
        return task

    async def settle(self) -> None:
        """Returns when nothing goes on any more without the clock."""
        for _ in range(20):
            await asyncio.sleep(0)
