"""Pull queues before they are bound to jobs; what they tell jobs, over failures and processes."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler_service.domain.effects import AcceptChanges
from scheduler_service.domain.registered_services import Kind
from scheduler_service.domain.replies import Reply, Taken, Unchanged
from scheduler_service.domain.step_parts import LeaseChange, PartEnd
from scheduler_service.domain.turn_events import Event, LeasesChanged, PartEnded
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.services.instances import Instances
from scheduler_service.services.pauses import Pauses
from scheduler_service.services.pull_queues import Completed, PullQueues
from scheduler_service.services.rate_windows import ClaimRate
from scheduler_service.services.registry import Registry
from scheduler_service.services.router import MemoryRouter, Terms
from tests.manual_clock import ManualClock
from tests.unit.persistence.queue_bench import Bench
from tests.unit.services.shared_table import ViewedCluster
from tests.unit.services.tables import MemoryTable, StandingClock, tell_nobody


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


class Job:
    """Takes what is delivered, or answers as it is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.came = asyncio.Event()
        self.reply: Reply | Exception = Taken()

    async def __call__(self, job_id: str, command: Command) -> Reply:
        self.events.append(command.event)
        self.came.set()
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


class Process:
    """The queues of one process over a store that outlives it."""

    def __init__(self, bench: Bench, effect_seconds: float = 5.0) -> None:
        self.job, self.clock = Job(), ManualClock()
        self.logged: list[tuple[str, object]] = []
        self.queues = PullQueues(
            table=bench.queues, clock=self.clock, log=self.log, effect_seconds=effect_seconds
        )

    def log(self, event: str, /, **keys: object) -> None:
        """Keeps what is logged."""
        self.logged.append((event, keys.get("error")))

    async def start(self) -> None:
        router = MemoryRouter(instances=Instances(), terms=lambda *_: Terms(), clock=self.clock)
        rate = ClaimRate(rate_of=router.rate_of, clock=self.clock)
        pauses = Pauses(table=MemoryTable(), clock=self.clock, tell=tell_nobody)
        await self.queues.start(self.job, lambda *_: None, rate, pauses)

    async def told(self, count: int) -> list[Event]:
        """What the job was told, once that is so much."""
        async with asyncio.timeout(20):
            while len(self.job.events) < count:
                self.job.came.clear()
                await self.job.came.wait()
        return self.job.events

    async def idle(self) -> None:
        """Returns when nothing is on its way to the job any more."""
        async with asyncio.timeout(20):
            while not self.queues.is_idle:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0)

    async def wait_for_line(self, event: str) -> None:
        """Returns when it is logged."""
        async with asyncio.timeout(20):
            while event not in [word for word, _ in self.logged]:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0)

    async def claim(self) -> str:
        (leased,) = await self.queues.claim("default", "work", "w", most=1, wait=0)
        return leased.lease


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    store = await SqliteStateStore.open(folder=None)
    yield Bench(store)
    await store.close()


async def test_a_claim_that_its_job_has_not_taken_is_told_by_the_next_process(bench: Bench) -> None:
    """The process ended between the commit of the claim and the turn of the job."""
    (name,) = await bench.publish()
    first = Process(bench)
    await first.start()
    first.job.reply = StoreUnavailable("away")
    await first.claim()
    (event,) = await first.told(1)
    assert isinstance(event, LeasesChanged)
    await first.queues.stop()
    second = Process(bench)
    await second.start()
    assert await second.told(1) == [event]
    await second.queues.stop()
    await bench.write(AcceptChanges(name, event.changes[-1].serial))
    assert await bench.queues.changed("", 9) == []
    third = Process(bench)
    await third.start()
    await third.idle()
    await third.queues.stop()
    assert third.job.events == []


async def test_an_end_that_its_job_no_longer_waits_for_is_stale(bench: Bench) -> None:
    """Between the write of the end and its turn the attempt was over: the instance is told."""
    await bench.publish()
    process = Process(bench)
    await process.start()
    lease = await process.claim()
    await process.told(1)
    process.job.reply = Unchanged()
    assert await process.queues.complete(lease, PartEnd(body=b"1")) is Completed.STALE
    assert await process.queues.complete(lease, PartEnd(body=b"1")) is Completed.LOST
    ended = process.job.events[-1]
    assert isinstance(ended, PartEnded)
    assert ended.changes == (LeaseChange(1, "w", process.clock.now().steady),)
    assert await bench.queues.ended("", 9) == []
    await process.queues.stop()


async def test_a_fault_in_a_delivery_is_logged_and_tried_again(bench: Bench) -> None:
    """The end is durable, so it is accepted; the job gets it when the fault is over."""
    await bench.publish()
    process = Process(bench)
    await process.start()
    lease = await process.claim()
    await process.told(1)
    process.job.reply = RuntimeError("a fault")
    completing = asyncio.ensure_future(process.queues.complete(lease, PartEnd(body=b"1")))
    await process.told(2)
    process.job.reply = Taken()
    while not completing.done():
        process.clock.advance(1_000)
        await asyncio.sleep(0)
    assert completing.result() is Completed.ACCEPTED
    assert ("part_not_delivered", "RuntimeError: a fault") in process.logged
    assert [type(event) for event in process.job.events[1:]] == [PartEnded, PartEnded]
    await process.queues.stop()


async def test_a_claim_that_cannot_be_handed_back_is_logged(bench: Bench) -> None:
    """By a word of its own: nothing tries it again, and it is free when its lease ends."""
    await bench.publish()
    process = Process(bench)
    await process.start()
    found = await process.queues.claim("default", "work", "w", most=1, wait=0)
    await process.told(1)
    await bench.store.close()
    process.queues.hand_back(found)
    await process.wait_for_line("claim_not_returned")
    await process.queues.stop()


async def test_a_completion_stays_accepted_whatever_its_job_replies_later(bench: Bench) -> None:
    """The answer does not wait for a job that is away; a repetition is answered like the first time."""
    await bench.publish()
    process = Process(bench, effect_seconds=0.01)
    await process.start()
    lease = await process.claim()
    await process.told(1)
    process.job.reply = StoreUnavailable("away")
    assert await process.queues.complete(lease, PartEnd(body=b"1")) is Completed.ACCEPTED
    process.job.reply = Unchanged()
    process.clock.advance(60_000)
    await process.idle()
    assert await bench.queues.ended("", 9) == []
    assert await process.queues.complete(lease, PartEnd(body=b"1")) is Completed.ACCEPTED
    await process.queues.stop()


async def test_a_completion_stays_accepted_over_a_crash(bench: Bench) -> None:
    """The process that answered is gone when the job no longer waits for the part."""
    await bench.publish()
    first = Process(bench, effect_seconds=0.01)
    await first.start()
    lease = await first.claim()
    await first.told(1)
    first.job.reply = StoreUnavailable("away")
    assert await first.queues.complete(lease, PartEnd(body=b"1")) is Completed.ACCEPTED
    await first.queues.stop()
    second = Process(bench)
    second.job.reply = Unchanged()
    await second.start()
    await second.idle()
    assert await bench.queues.ended("", 9) == []
    assert await second.queues.complete(lease, PartEnd(body=b"1")) is Completed.ACCEPTED
    assert await second.queues.complete(lease, PartEnd(body=b"2")) is Completed.LOST
    await second.queues.stop()


WORK = (Kind.QUEUE, "default", "work")
SHOP = (Kind.SERVICE, "default", "work")


async def test_a_pause_stands_since_it_began(
    registry: Registry, clock: StandingClock, table: MemoryTable
) -> None:
    """Of one kind, tenant and name; who subscribes hears once of its begin, and once of its end."""
    heard: list[tuple[Kind, str, str]] = []
    registry.pauses.subscribe(lambda *place: heard.append(place))
    clock.steady = 5
    for _ in "ab":
        await registry.pause_queue(*WORK[1:])
        clock.steady += 1
    assert registry.pauses.since(*WORK) == 5
    assert registry.pauses.since(*SHOP) is None
    assert registry.pauses.since(Kind.QUEUE, "other", "work") is None
    for _ in "ab":
        await registry.pauses.resume(*WORK)
    assert heard == [WORK, WORK]
    # Neither a pause nor its end; the call may be repeated
    table.is_down = True
    with pytest.raises(StoreUnavailable):
        await registry.pause_queue(*WORK[1:])
    assert registry.pauses.since(*WORK) is None
    table.is_down = False
    await registry.pause_queue(*WORK[1:])
    table.is_down = True
    with pytest.raises(StoreUnavailable):
        await registry.pauses.resume(*WORK)
    assert registry.pauses.since(*WORK) is not None


async def test_what_one_node_pauses_is_paused_at_the_others() -> None:
    """Within a second, and for a node that starts; so is its end. Jobs declared anew stay so."""
    cluster = ViewedCluster()
    one, two = [await cluster.start(name) for name in ("one", "two")]
    await one.register("a")
    await cluster.go_on(1_000)
    await one.registry.pause_queue(*WORK[1:])
    await cluster.go_on(1_000)
    assert two.registry.pauses.since(*WORK) is not None
    one.registry.note_anew("default", "work")
    await one.registry.pauses.resume(*WORK)
    await one.registry.pause_queue(*WORK[1:])
    await cluster.go_on(1_000)
    three = await cluster.start("three")
    assert two.registry.pauses.since(*WORK) == three.registry.pauses.since(*WORK) is not None
    assert two.registry.take_anew("default", "work")
    await two.registry.pauses.resume(*WORK)
    await cluster.go_on(1_000)
    assert one.registry.pauses.since(*WORK) is None
    await cluster.close()
