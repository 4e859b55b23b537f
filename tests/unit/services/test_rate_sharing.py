"""One rate limit over all nodes of a cluster (SPEC section 13)."""

import random

import pytest

from scheduler_service.domain.leases import Leased
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.registered_services import RateLimit
from scheduler_service.services.instances import Instances
from scheduler_service.services.rate_sharing import IDLE_MS, LOAN_MS, SKEW_MS
from scheduler_service.services.rate_windows import ClaimRate
from scheduler_service.services.router import MemoryRouter, Terms
from tests.manual_clock import ManualClock
from tests.present import present
from tests.unit.services.shared_rates import LimitedCluster

FAULTS = ("", "", "", "", "lost", "unsure, written", "unsure, unwritten")


async def test_two_nodes_share_one_limit() -> None:
    """Never more than the limit in any second, and not much less where there is enough to do."""
    cluster = LimitedCluster(RateLimit(100, SECOND))
    one, two = cluster.start("one"), cluster.start("two")
    one.waiting = two.waiting = 10_000
    await cluster.go_on(10 * SECOND)
    assert cluster.most_within(SECOND) <= 100
    assert len(cluster.calls) > 950
    assert min(len(one.calls), len(two.calls)) > 350


async def test_a_call_costs_no_statement() -> None:
    """A busy node looks at the book four times a second and renews its loan; an idle one asks nothing."""
    cluster = LimitedCluster(RateLimit(500, SECOND))
    node = cluster.start("one")
    for _ in range(1_000):
        node.waiting += 4
        await cluster.go_on(10)
    assert len(cluster.calls) >= 3_900
    assert cluster.rates.reads <= 50
    assert cluster.rates.writes <= 20
    await cluster.go_on(IDLE_MS + 2 * SECOND)
    assert node.window.held == 0
    reads = cluster.rates.reads
    await cluster.go_on(60 * SECOND, step=SECOND)
    assert cluster.rates.reads == reads


async def test_what_one_node_does_not_need_the_other_gets() -> None:
    """Within about a second of its asking."""
    cluster = LimitedCluster(RateLimit(50, SECOND))
    one, two = cluster.start("one"), cluster.start("two")
    one.waiting = 200
    await cluster.go_on(4 * SECOND)
    assert one.window.held == 50
    two.waiting = 1_000
    await cluster.go_on(2 * SECOND)
    before = len(two.calls)
    await cluster.go_on(4 * SECOND)
    assert len(two.calls) - before >= 180
    assert cluster.most_within(SECOND) <= 50


async def test_a_dead_node_loses_its_part_until_its_loan_and_the_window_end() -> None:
    """No longer."""
    cluster = LimitedCluster(RateLimit(20, SECOND))
    cluster.start("one").waiting = 1_000
    await cluster.go_on(3 * SECOND)
    cluster.kill("one")
    two = cluster.start("two")
    two.waiting = 1_000
    await cluster.go_on(LOAN_MS + SKEW_MS + SECOND + SECOND)
    before = len(two.calls)
    await cluster.go_on(3 * SECOND)
    assert len(two.calls) - before >= 55
    assert cluster.most_within(SECOND) <= 20


async def test_a_node_that_stops_gives_back_at_once() -> None:
    """A rolling restart costs nothing."""
    cluster = LimitedCluster(RateLimit(20, SECOND))
    cluster.start("one").waiting = 20
    await cluster.go_on(SECOND // 2)
    await cluster.stop("one")
    two = cluster.start("two")
    two.waiting = 1_000
    await cluster.go_on(2 * SECOND)
    assert len(two.calls) >= 18
    assert cluster.most_within(SECOND) <= 20


async def test_without_the_database_calls_wait() -> None:
    """When the loan has ended; it is told once, and they go on when the database is back."""
    cluster = LimitedCluster(RateLimit(10, SECOND))
    node = cluster.start("one")
    node.waiting = 1_000
    await cluster.go_on(2 * SECOND)
    cluster.rates.is_down = True
    await cluster.go_on(LOAN_MS)
    before = len(node.calls)
    await cluster.go_on(5 * SECOND)
    assert len(node.calls) == before
    assert node.lines == ["rates_not_shared"]
    cluster.rates.is_down = False
    await cluster.go_on(3 * SECOND)
    assert len(node.calls) >= before + 18
    assert node.lines == ["rates_not_shared", "rates_shared_again"]
    assert cluster.most_within(SECOND) <= 10


async def test_a_lower_limit_holds_at_all_nodes() -> None:
    """A few seconds after it is known to them; a higher one, too."""
    cluster = LimitedCluster(RateLimit(100, SECOND))
    one, two = cluster.start("one"), cluster.start("two")
    one.waiting = two.waiting = 100_000
    await cluster.go_on(5 * SECOND)
    for count in (10, 60):
        one.limit = two.limit = RateLimit(count, SECOND)
        await cluster.go_on(5 * SECOND)
        since = cluster.clock.now().steady
        await cluster.go_on(5 * SECOND)
        calls = [at for at in cluster.calls if at > since]
        assert count * 4 < len(calls) <= count * 5 + count
        assert max(sum(at <= other < at + SECOND for other in calls) for at in calls) <= count


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 80))]
)
async def test_no_stretch_has_more_than_the_limit(seed: int) -> None:
    """Whatever dies, fails or is unsure, with clocks that differ: each stretch of `perSeconds`."""
    chance = random.Random(seed)
    limit = RateLimit(chance.choice((1, 2, 5, 40)), chance.choice((100, SECOND, 5 * SECOND)))
    cluster = LimitedCluster(limit)
    cluster.rates.fault = lambda: chance.choice(FAULTS)
    for name in ("one", "two", "three"):
        cluster.start(name, chance.randint(-SKEW_MS // 2, SKEW_MS // 2))
    for _ in range(150):
        name, what = chance.choice(("one", "two", "three")), chance.random()
        if name not in cluster.nodes:
            cluster.start(name, chance.randint(-SKEW_MS // 2, SKEW_MS // 2))
        elif what < 0.05:
            cluster.kill(name)
        elif what < 0.1:
            await cluster.stop(name)
        elif what < 0.6:
            cluster.nodes[name].waiting += chance.randint(1, 2 * limit.count)
        await cluster.go_on(chance.randint(1, 400), step=chance.choice((7, 50)))
    cluster.rates.fault = str
    for name in ("one", "two", "three"):
        (cluster.nodes.get(name) or cluster.start(name)).waiting += 1
    await cluster.go_on(LOAN_MS + 2 * limit.per, step=50)
    assert cluster.most_within(limit.per) <= limit.count
    assert cluster.calls


async def test_a_lowered_limit_counts_at_once() -> None:
    """Also where the node still has more permits than the limit is now."""
    cluster = LimitedCluster(RateLimit(4, SECOND))
    node = cluster.start("one")
    for count in (4, 2):
        node.waiting = count
        await cluster.go_on(SECOND + 100 if count == 4 else 20)
    now = cluster.clock.now().steady
    assert node.window.held == 4
    assert node.window.wait(RateLimit(4, SECOND), now) == 0
    assert node.window.wait(RateLimit(2, SECOND), now) > 0


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
