"""Operations on the nodes of a cluster, one of which dies amid one (SPEC section 10)."""

import asyncio
from collections.abc import Callable

import pytest

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.replies import Refusal
from scheduler_service.domain.turn_events import Destroyed, Event, Paused, Triggered
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.operations.operation import Operation, Outcome
from scheduler_service.hosts.operations.operations import SILENCE_MS, Operations
from scheduler_service.hosts.operations.run import Work
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.state import Remembered
from tests.conformance.hosts.houses import DaprHouse, DaprNode

pytestmark = pytest.mark.anyio
IDS = [f"j{number}" for number in range(300)]
TENANT = "default"


def operations_of(cluster: DaprHouse, node: DaprNode, *, save_seconds: float = 0.001) -> Operations:
    """Those of a node."""
    holder = Holder(node.name, "1")
    return Operations(
        store=node.host.store,
        clock=cluster.clock,
        holder=holder,
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


def work_of(cluster: DaprHouse, node: DaprNode, event: Callable[[], Event], key: str) -> Work:
    """A command for each job by the node, as the API gives it under an Idempotency-Key."""

    async def work(job_id: str) -> Outcome:
        remembered = Remembered(f"jobs/{job_id}", key, b"", b"", cluster.clock.now().wall)
        try:
            reply = await node.host(job_id, Command(event(), remembered=remembered, answer=lambda _: b"{}"))
        except StoreError as error:
            return Outcome(problem={"detail": str(error)}, is_passing=True)
        assert not isinstance(reply, Refusal)
        return Outcome()

    return work


async def finished(cluster: DaprHouse, operations: Operations) -> Operation:
    """The operation at its end."""
    while True:
        found = await operations.find(TENANT, "all")
        assert found is not None
        if found.state != "running":
            return found
        await cluster.settle()
        await asyncio.sleep(0)


async def test_an_operation_of_a_dead_node_goes_on_at_another(cluster: DaprHouse) -> None:
    """Any node shows it and names the one that had it; sent again, each job is triggered once."""
    for job_id in IDS:
        await cluster.create(job_id)
    one, two = cluster.nodes["one"], await cluster.add("two")
    first, second = operations_of(cluster, one, save_seconds=3_600), operations_of(cluster, two)
    command, done = work_of(cluster, one, Triggered, "k"), asyncio.Event()

    async def until_it_dies(job_id: str) -> Outcome:
        if job_id == "j100":
            done.set()
        if int(job_id[1:]) >= 100:
            await asyncio.get_running_loop().create_future()
        return await command(job_id)

    await first.start(operation_of(cluster), IDS, until_it_dies)
    await done.wait()
    seen = await second.find(TENANT, "all")
    assert seen is not None
    assert (seen.state, seen.node) == ("running", "one")
    await cluster.crash("one")
    await cluster.advance(SILENCE_MS + 1_000)
    left = await second.find(TENANT, "all")
    assert left is not None
    assert left.state == "interrupted"
    again = operation_of(cluster)
    again.kept_at = left.kept_at
    await second.start(again, IDS, work_of(cluster, two, Triggered, "k"))
    assert (await finished(cluster, second)).succeeded == len(IDS)
    await cluster.settle()
    for job_id in IDS:
        entry = await cluster.catalogue.get(job_id)
        assert entry is not None
        assert entry.execute_number == 1
    await first.stop(0)


async def test_a_command_reaches_all_jobs_of_a_cluster(cluster: DaprHouse) -> None:
    """Whichever node has them."""
    for job_id in IDS:
        await cluster.create(job_id)
    two = await cluster.add("two")
    operations = operations_of(cluster, two)
    for event, state in ((Paused, JobState.PAUSED), (Destroyed, JobState.DESTROYED)):
        operation, known = operation_of(cluster), await operations.find(TENANT, "all")
        operation.kept_at = known and known.kept_at
        await operations.start(operation, IDS, work_of(cluster, two, event, state))
        assert (await finished(cluster, operations)).succeeded == len(IDS)
        for job_id in IDS:
            entry = await cluster.catalogue.get(job_id)
            assert entry is not None
            assert entry.state is state
