"""The room of services as one process puts it together."""

import asyncio
from collections.abc import Iterable
from typing import Any, cast

from scheduler_service.app.service_registry import ServiceRegistry
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.registered_services import RateLimit
from scheduler_service.services.rate_sharing import RateSharing
from scheduler_service.settings import Settings
from tests.manual_clock import ManualClock
from tests.unit.services.shared_rates import SHOP, TENANT, MemoryRates


class Queues:
    """The queues of a process, of which it is noted which are looked at anew."""

    def __init__(self) -> None:
        self.woken: list[tuple[str, str]] = []

    def wake(self, keys: Iterable[tuple[str, str]]) -> None:
        """Waiting claims of these retry."""
        self.woken += keys


async def test_calls_and_claims_go_on_when_the_shared_limit_allows_more() -> None:
    """Both: they share it, and neither may wait until it happens to look again."""
    clock, queues = ManualClock(wall=1_000_000), Queues()
    rates = RateSharing(shared=MemoryRates(), clock=clock, holder="one", log=lambda event, /, **keys: None)
    services = ServiceRegistry(
        database=cast(Any, None),
        settings=Settings(),
        clock=clock,
        log=lambda event, /, **keys: None,
        queues=cast(Any, queues),
        rates=rates,
    )
    called: list[tuple[str, str]] = []
    services.router.retry = lambda *key: called.append(key)  # type: ignore[method-assign]
    now = clock.now().steady
    assert rates.window(TENANT, SHOP).wait(RateLimit(8, SECOND), now) > 0
    rates.window(TENANT, SHOP).want(1, now)
    for _ in range(12):
        await asyncio.sleep(0)
    assert rates.window(TENANT, SHOP).wait(RateLimit(8, SECOND), now) == 0
    assert called == queues.woken == [(TENANT, SHOP)]
    await rates.stop()
