"""Records of deliveries that the history may not have yet (SPEC section 7)."""

import pytest

from scheduler_service.domain.execution import DeliveryState
from scheduler_service.domain.records import DeliveryRecord
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Settlement
from tests.unit.persistence.samples import ONE, TWO, delivery
from tests.unit.persistence.sql_cluster.cluster_store import ClusterStore

pytestmark = pytest.mark.anyio


async def test_what_a_dead_node_did_not_tell_the_history_is_told(store: ClusterStore) -> None:
    """It is written with the settlement, once, and goes when the history has it (SPEC section 7)."""
    record = DeliveryRecord("d1", 1, 1, "succeed", "http://t", DeliveryState.DELIVERED)
    batch = Batch("uid", "job", "default", -257, 5, (record,))
    for _ in range(2):
        await store.shared.settle([Settlement(delivery(1), done=True, batch=batch)], 5, ONE)
    await store.shared.settle([Settlement(delivery(2), done=False)], 5, ONE)
    assert await store.shared.pending_history.adopt([ONE, TWO], TWO, 10) == []
    assert await store.shared.pending_history.adopt([TWO], TWO, 10) == [batch]
    assert await store.shared.pending_history.adopt([TWO], TWO, 10) == []
    await store.shared.pending_history.forget([("uid", -257), ("uid", -513)])
    assert await store.shared.pending_history.adopt([ONE], ONE, 10) == []
