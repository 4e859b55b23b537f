"""Pull queues before they are bound to jobs."""

import pytest

from scheduler_service.domain.parts import PartEnd
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.services.pull_queues import PullQueues
from tests.manual_clock import ManualClock


async def test_who_claims_before_the_start_is_told_to_ask_again() -> None:
    """An instance polls through a restart of the scheduler; that is no fault of anybody (SPEC section 13)."""
    store = await SqliteStateStore.open(folder=None)
    queues = PullQueues(table=store.queues, clock=ManualClock(), log=lambda event, /, **keys: None)
    with pytest.raises(StoreUnavailable, match="ask again"):
        await queues.claim("default", "work", "one", most=1, wait=0)
    with pytest.raises(StoreUnavailable, match="ask again"):
        await queues.renew("lease", progress="1/2")
    with pytest.raises(StoreUnavailable, match="ask again"):
        await queues.complete("lease", PartEnd())
    with pytest.raises(StoreUnavailable, match="ask again"):
        await queues.free("default", "work", "part")
    queues.recover()
    await queues.stop()
    await store.close()
