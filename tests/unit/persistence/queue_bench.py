"""Parts of steps in the queues of a store, published and claimed in one line."""

from typing import Any

import msgspec

from scheduler_service.domain.effects import PublishParts, QueueWrite
from scheduler_service.domain.leases import Claim, Leased
from scheduler_service.domain.step_parts import PartEnd, PartName, QueuedPart, QueueOptions
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.ports.queues import Queues
from scheduler_service.ports.state import OpenStore
from tests.unit.persistence.samples import commit

REQUEST = OutboundRequest("POST", "queue://work", ())
DONE = PartEnd(body=b"1")


class Bench:
    """A queue `work` of an open store, and moments that only rise."""

    def __init__(self, store: OpenStore) -> None:
        self.store = store
        self.queues: Queues = store.queues
        self.turns = 0
        self.leases = 0
        self.executions = 0

    async def write(self, *writes: QueueWrite) -> None:
        """What a turn's commit brings."""
        self.turns += 1
        await self.store.commit(commit(f"turn-{self.turns}", queued=writes))

    async def publish(self, total: int = 1, body: bytes | None = None, **options: Any) -> list[PartName]:
        """One step with as many parts, of an execution of its own."""
        self.executions += 1
        request = REQUEST if body is None else msgspec.structs.replace(REQUEST, body=body)
        names = [PartName("uid", self.executions, self.executions, 0, index) for index in range(total)]
        parts = [
            QueuedPart(
                name, "work", total, request, QueueOptions(parallelism=total, **options), 0,
                self.executions, f"job-{self.executions}", "default",
            )
            for name in names
        ]  # fmt: skip
        await self.write(PublishParts(tuple(parts)))
        return names

    async def claim(
        self, instance: str = "a", most: int = 1, now: int = 0, capacity: int | None = None
    ) -> tuple[Leased, ...]:
        """What the instance is given."""
        leases = tuple(f"lease-{self.leases + place}" for place in range(most))
        self.leases += most
        return await self.queues.claim(Claim("default", "work", instance, leases, now, capacity))

    async def executions_of(self, *args: Any, **given: Any) -> list[int]:
        """The executions of what is claimed."""
        return [one.part.name.execute_number for one in await self.claim(*args, **given)]
