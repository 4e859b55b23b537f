"""What `system://clean` removes, also where one part of it fails."""

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler_service.hosts.cleanup import Cleanup
from scheduler_service.hosts.trials import Trials
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StateUnreadable
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio


class Store:
    """Its one trial cannot be read."""

    @property
    def catalogue(self) -> Any:
        return self

    async def children(self, parent_job: str, execution: int | None, **page: Any) -> Sequence[CatalogueEntry]:
        raise StateUnreadable("the state of this job is damaged")

    async def forget(self, job_id: str) -> bool:
        return False

    async def deliver(self, job_id: str, command: Command) -> Any:
        return None


class Retention:
    """Counts its rounds."""

    executions = notifications = 0

    def __init__(self) -> None:
        self.rounds = 0

    async def run(self, now: int) -> "Retention":
        self.rounds += 1
        return self

    async def clean(self, **given: Any) -> dict[str, int]:
        return {}

    async def lives(self, tenant: str, job_ids: Any) -> list[str]:
        return []


async def test_a_damaged_trial_keeps_no_history() -> None:
    """Retention removes what it should before the damage is told."""
    store, retention, clock = Store(), Retention(), ManualClock()
    trials = Trials(store=store, deliver=store.deliver, clock=clock)
    cleanup = Cleanup(store=store, retention=retention, trials=trials, clock=clock, tenant="default")
    with pytest.raises(StateUnreadable):
        await cleanup.sweep()
    assert retention.rounds == 1
