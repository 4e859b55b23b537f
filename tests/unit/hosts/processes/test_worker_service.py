"""What a worker process answers to the service."""

import pytest

from scheduler_service.domain.leases import Claim
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from tests.unit.hosts.processes.fleet import FleetShard
from tests.unit.persistence.queue_bench import Bench

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_lease_counts_from_when_the_claim_is_taken() -> None:
    """The process may have stood still while the claim waited for it."""
    shard = FleetShard(await SqliteStateStore.open(folder=None))
    await Bench(shard.store).publish(lease=1_000)
    asked = shard.clock.now().steady
    shard.clock.advance(4_000)
    packed = rpc_methods.CLAIM.write_argument(Claim("default", "work", "a", ("x.1",), asked))
    (leased,) = rpc_methods.CLAIM.read_result(await shard.serve(rpc_methods.CLAIM.name, packed))
    assert leased.until == asked + 5_000
    await shard.host.stop(0)
