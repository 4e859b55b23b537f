"""Executions a minute of each tenant (SPEC section 14)."""

import asyncio
from itertools import pairwise

import pytest

from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.replies import ReachedLimit
from scheduler_service.ports.shared_registry import SharedRates
from scheduler_service.services.rate_sharing import (
    ASK_AGAIN_MS,
    BUCKETS,
    SKEW_MS,
    MemoryRates,
    RateSharing,
)
from scheduler_service.services.tenant_execution_rates import LONGEST_PAUSE_MS, ExecutionRates
from tests.manual_clock import ManualClock
from tests.unit.hosts.house import SKEW, START
from tests.unit.services.shared_rates import MemoryRates as SharedBook

pytestmark = pytest.mark.anyio

NAME = "tenant_executions_per_minute"


class Rates:
    """The rates of one process, and what was told."""

    def __init__(self, clock: ManualClock, shared: SharedRates | None = None, holder: str = "one") -> None:
        self.clock = clock
        self.told: list[tuple[str, int]] = []
        self.begun = 0
        sharing = shared and RateSharing(shared=shared, clock=clock, holder=holder, log=lambda *_, **__: None)
        windows = {} if sharing is None else {"window_of": sharing.window}
        self.rates = ExecutionRates(
            limits={"acme": 160, "free": 0},
            usual=3,
            clock=clock,
            tell=lambda *told: self.told.append(told),
            **windows,
        )

    async def ask(self, job_key: str) -> int:
        """What a caller is told who would be refused (ms); 0: it may begin one."""
        asking = asyncio.create_task(self.rates.ask(job_key))
        await _settle()
        while not asking.done():
            self.clock.advance(50)
            await _settle()
        reached = self.rates.hold(job_key)
        return 0 if reached is None or reached.left else reached.retry_after

    def begin(self, job_key: str) -> bool:
        """Begins an execution, if it may."""
        reached = self.rates.hold(job_key)
        if reached is not None and not reached.left:
            self.rates.line_up(job_key)
            return False
        self.rates.count(job_key, 1)
        self.begun += 1
        return True


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_tenant_begins_so_many_within_any_minute() -> None:
    """Whoever comes after is told the limit and when to ask again; other tenants are not held."""
    one = Rates(ManualClock(wall=START, skew=SKEW))
    assert [one.begin("job") for _ in range(4)] == [True, True, True, False]
    assert one.told == [("default", 3)]
    one.clock.advance(20 * SECOND)
    assert one.rates.hold("other") == ReachedLimit(NAME, 3, 40 * SECOND)
    assert all(one.begin("acme|job") for _ in range(160))
    assert all(one.begin("free|job") for _ in range(1_000))
    one.clock.advance(40 * SECOND)
    assert [one.begin("job") for _ in range(4)] == [True, True, True, False]


async def test_who_is_held_back_gets_moments_in_the_order_of_asking() -> None:
    """As far apart as the limit has it, so that thousands do not look again together."""
    one = Rates(ManualClock(wall=START, skew=SKEW))
    while one.begin("acme|job"):
        one.clock.advance(350)
    pauses = list[int]()
    for _ in range(5):
        pauses.append(one.rates.line_up("acme|job"))
        one.rates.refuse("acme|job")  # a caller who asks without a pause takes nobody's moment
    apart = [later - earlier for earlier, later in pairwise(pauses)]
    assert apart == [MINUTE // 160] * 4
    for _ in range(200):
        assert one.rates.line_up("acme|job") <= LONGEST_PAUSE_MS


async def test_who_begins_many_at_once_is_told_how_many_are_left() -> None:
    """Also by a process that begins some before it has heard of the others."""
    clock, shared = ManualClock(wall=START, skew=SKEW), MemoryRates()
    one, of_two = Rates(clock), Rates(clock, shared, "one")
    assert [rates.rates.hold("acme|job") for rates in (one, of_two)] == [
        ReachedLimit(NAME, 160, MINUTE // 160, left=160),
        ReachedLimit(NAME, 160, MINUTE // 160, left=10),
    ]
    one.rates.count("acme|job", 150)
    assert one.rates.hold("acme|other") == ReachedLimit(NAME, 160, MINUTE // 160, left=10)
    of_two.rates.count("acme|job", 10)
    assert of_two.rates.hold("acme|job") == ReachedLimit(NAME, 160, ASK_AGAIN_MS, left=0)
    assert one.rates.hold("free|job") is None
    assert one.told == of_two.told == [], "nothing was held back"


async def test_processes_share_one_limit() -> None:
    """What one that was idle begins before it has heard of the others comes on top, once in a minute."""
    clock, shared = ManualClock(wall=START, skew=SKEW), MemoryRates()
    processes = [Rates(clock, shared, name) for name in ("one", "two")]
    assert all(process.begin("acme|job") for process in processes), "nobody waits for the others at first"
    for _ in range(60 * 4 - 1):
        for process in processes:
            for _ in range(20):
                process.begin("acme|job")
        clock.advance(250)
        await _settle()
    total = sum(process.begun for process in processes)
    assert 150 <= total <= 160 + 2 * 10
    assert min(process.begun for process in processes) > 40


async def test_callers_get_what_other_processes_do_not_use() -> None:
    """As many as the limit, whichever process they ask; then each is told when a permit is free."""
    clock, shared = ManualClock(wall=START, skew=SKEW), SharedBook()
    processes = [Rates(clock, shared, name) for name in ("one", "two", "three")]
    first = clock.now().steady
    for number in range(160):
        process = processes[number % 3 if number < 60 else number // 40 % 3]
        assert not (await process.ask("acme|job"))
        process.begin("acme|job")
        clock.advance(20)
    free_at = set[int]()
    for process in processes:
        await process.ask("acme|job")
        reads, wait = shared.reads, await process.ask("acme|job")
        assert shared.reads == reads, "it is known"
        free_at.add(clock.now().steady + wait)
    assert max(free_at) <= first + MINUTE + MINUTE // BUCKETS + 2 * SKEW_MS
    assert min(free_at) >= first + MINUTE
    while clock.now().steady < max(free_at):
        clock.advance(min(250, max(free_at) - clock.now().steady))
        await _settle()
    assert not await processes[0].ask("acme|job")


async def test_callers_who_ask_together_share_a_query() -> None:
    """Where the book cannot be read none waits."""
    clock, shared = ManualClock(wall=START, skew=SKEW), SharedBook()
    one = Rates(clock, shared)

    async def trigger() -> bool:
        await one.rates.ask("acme|job")
        return one.begin("acme|job")

    begun = await asyncio.gather(*(trigger() for _ in range(200)))
    assert (sum(begun), shared.reads) == (160, 3), "few, more, and that there are none"
    shared.is_down = True
    two = Rates(clock, shared, "two")
    assert not await two.ask("acme|job"), "what it may borrow"
