"""An operation on the nodes of a cluster, one of which dies amid it (SPEC section 10)."""

import asyncio

import pytest

from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.replies import Refusal
from scheduler_service.domain.turn_events import Triggered
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.operations.operation_run import Operation, Outcome
from scheduler_service.hosts.operations.operations import SILENCE_MS, Operations
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.state import Remembered
from tests.conformance.hosts.houses import DaprHouse, DaprNode

pytestmark = pytest.mark.anyio
IDS = [f"j{number}" for number in range(40)]
LAST = 15
TENANT = "default"


def operations_of(cluster: DaprHouse, node: DaprNode, *, save_seconds: float = 0.001) -> Operations:
    """Those of a node."""
    return Operations(
        store=node.host.store,
        clock=cluster.clock,
        holder=Holder(node.name, "1"),
        log=lambda event, /, **keys: None,
        save_seconds=save_seconds,
    )


def operation_of(cluster: DaprHouse) -> Operation:
    """One on all jobs."""
    now = rfc3339(cluster.clock.now().wall)
    return Operation(
        operation_id="all",
        kind="jobs",
        action="trigger",
        total=len(IDS),
        created_by="a",
        started_at=now,
        updated_at=now,
        tenant=TENANT,
    )


async def test_an_operation_of_a_dead_node_goes_on_at_another(cluster: DaprHouse) -> None:
    """Any node shows it and names the one that had it; sent again, each job is triggered once."""
    for job_id in IDS:
        await cluster.create(job_id)
    one, two = cluster.nodes["one"], await cluster.add("two")
    first, second = operations_of(cluster, one, save_seconds=3_600), operations_of(cluster, two)
    done = asyncio.Event()

    async def trigger(node: DaprNode, job_id: str) -> Outcome:
        """As the API gives it under an Idempotency-Key."""
        remembered = Remembered(f"jobs/{job_id}", "k", b"", b"", cluster.clock.now().wall)
        command = Command(Triggered(), remembered=remembered, answer=lambda _: b"{}")
        assert not isinstance(await node.host(job_id, command), Refusal)
        return Outcome()

    async def until_it_dies(job_id: str) -> Outcome:
        if int(job_id[1:]) > LAST:
            done.set()
            await asyncio.get_running_loop().create_future()
        return await trigger(one, job_id)

    await first.start(operation_of(cluster), IDS, until_it_dies)
    await done.wait()
    await cluster.settle()
    seen = await second.find(TENANT, "all")
    assert seen is not None
    assert (seen.state, seen.node) == ("running", "one")
    assert 0 < len(cluster.sender.requests) < len(IDS)
    await cluster.crash("one")
    await cluster.advance(SILENCE_MS + 1_000)
    left = await second.find(TENANT, "all")
    assert left is not None
    assert left.state == "interrupted"
    again = operation_of(cluster)
    again.kept_at = left.kept_at
    await second.start(again, IDS, lambda job_id: trigger(two, job_id))
    while (found := await second.find(TENANT, "all")) is None or found.state == "running":
        await cluster.settle()
    assert (found.state, found.succeeded) == ("done", len(IDS))
    await cluster.settle()
    for job_id in IDS:
        entry = await cluster.catalogue.get(job_id)
        assert entry is not None
        assert entry.execute_number == 1
    await first.stop(0)
