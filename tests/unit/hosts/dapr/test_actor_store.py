"""What the actor store keeps of a job."""

import json

import pytest

from scheduler_service.domain.execution import JobState
from tests.conformance.hosts.houses import DaprHouse

pytestmark = pytest.mark.anyio


async def test_what_a_job_is_lies_in_one_document(cluster: DaprHouse) -> None:
    """One value per job, as the SDK's clients write it: JSON (DAPR, "State")."""
    await cluster.create()
    assert isinstance(json.loads(cluster.world.state["job"]), str)
    entry = await cluster.catalogue.get("job")
    assert entry is not None
    assert entry.state is JobState.ACTIVE
