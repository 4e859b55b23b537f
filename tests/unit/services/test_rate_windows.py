"""Claims from a queue count for the rate limit of the service with its name (SPEC section 13)."""

from scheduler_service.domain.leases import Leased
from scheduler_service.domain.registered_services import RateLimit
from scheduler_service.services.instances import Instances
from scheduler_service.services.rate_windows import ClaimRate
from scheduler_service.services.router import MemoryRouter, Terms
from tests.manual_clock import ManualClock
from tests.present import present

LIMIT = RateLimit(2, 1_000)


async def test_a_claim_may_take_longer_than_the_limit_counts() -> None:
    """Meanwhile a push call of the service has removed what counts no more: nothing is left to give back."""
    clock = ManualClock()
    router = MemoryRouter(instances=Instances(), terms=lambda *_: Terms(rate=LIMIT), clock=clock)

    async def take(allowed: int) -> tuple[Leased, ...]:
        assert allowed == LIMIT.count
        clock.advance(LIMIT.per)
        rate = present(router.rate_of("default", "work"))
        limit, window = rate
        assert window.wait(limit, clock.now().steady) == 0
        window.take(clock.now().steady)
        return ()

    claims = ClaimRate(rate_of=router.rate_of, clock=clock)
    assert await claims.claim("default", "work", 2, take) == ((), None)
    rate = present(router.rate_of("default", "work"))
    rate[1].take(clock.now().steady)
    assert rate[1].wait(LIMIT, clock.now().steady) == LIMIT.per
