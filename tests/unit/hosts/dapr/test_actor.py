"""The actor type, as the resiliency policy names it."""

import pytest
from dapr.actor import ActorRuntime

from scheduler_service.hosts.dapr.actor import JobActor
from tests.conformance.hosts.houses import DaprHouse

pytestmark = pytest.mark.anyio


async def test_the_type_has_the_name_of_the_resiliency_policy(cluster: DaprHouse) -> None:
    """The source binds its policies to `job_scheduler` (DAPR)."""
    assert JobActor.__name__ == "job_scheduler"
    assert list(ActorRuntime.get_registered_actor_types()) == ["job_scheduler"]
