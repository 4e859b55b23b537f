"""How many jobs a tenant may have, where several nodes let them in, and while others are under way."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from client_sdk.models import parse_definition
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.replies import ReachedLimit, Refusal, Reply, Taken, Unchanged
from scheduler_service.domain.turn_events import Backfilled, Created, Destroyed
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.tenant_job_limits import (
    AGAIN_MOST_MS,
    AGAIN_MS,
    COUNT_AGAIN_MS,
    COUNT_LEAST_MS,
    LimitedJobs,
)
from scheduler_service.ports.catalogue import JOBS, WAITS, JobCounts
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from tests.manual_clock import ManualClock
from tests.unit.engine.rig import definition

pytestmark = pytest.mark.anyio
LIMIT = 20


class Jobs:
    """Jobs that exist or not, for all nodes: a shard and a catalogue. A turn takes a round of the loop."""

    def __init__(self) -> None:
        self.living: set[str] = set()
        self.counted = self.waiting = 0
        self.is_away = False
        self.is_uncertain = False
        self.gate = asyncio.Event()
        self.gate.set()
        nothing = [None] * 7
        self.peek, self.read, self.flush, self.status, self.resend, self.dismiss, self.resend_outbox = nothing

    async def deliver(self, job_id: str, command: Command) -> Reply:
        await self.gate.wait()
        await asyncio.sleep(0)
        if isinstance(command.event, Destroyed):
            self.living.discard(job_id)
            return Taken()
        is_there = job_id in self.living
        self.living.add(job_id)
        if self.is_uncertain:
            raise StoreUncertain("perhaps")
        return Unchanged() if is_there else Taken()

    async def create_all(self, definitions: Sequence[Definition], owner: str) -> Sequence[Reply | StoreError]:
        return [await self.deliver(one.program.key, creation(one.program.key)) for one in definitions]

    async def counts(self, _now: object, *, tenant: str) -> JobCounts:
        if self.is_away:
            raise StoreUnavailable("away")
        self.counted += 1
        found = len(self.living)
        await asyncio.sleep(0)
        return JobCounts(0, self.waiting, 0, {JobState.ACTIVE: found})

    async def get(self, job_id: str) -> Any:
        return (await self.some([job_id])).get(job_id)

    async def some(self, job_ids: Sequence[str]) -> dict[str, Any]:
        return {one: SimpleNamespace(state=JobState.ACTIVE) for one in self.living & set(job_ids)}


class Nodes:
    """Nodes over the same jobs."""

    def __init__(self) -> None:
        self.clock = ManualClock(wall=1_000_000)
        self.jobs = Jobs()
        self.told: list[tuple[str, str, int]] = []

    def add(self) -> LimitedJobs:
        jobs = cast(Any, self.jobs)
        return LimitedJobs(
            jobs,
            catalogue=jobs,
            recall=nothing_known,
            clock=self.clock,
            limit_of=lambda *_: LIMIT,
            tell=lambda *told: self.told.append(told),
        )


async def nothing_known(*_: object) -> None:
    return None


def of(job_id: str) -> Definition:
    read = parse_definition(definition(jobId=job_id))
    return Definition(b"{}", compile_definition(read, Surroundings()).program)


def creation(job_id: str) -> Command:
    return Command(Created(uid="uid", key=b"key"), of(job_id))


async def create(node: LimitedJobs, job_id: str) -> bool:
    """Whether it was not refused; else by its limit."""
    reply = await node.deliver(job_id, creation(job_id))
    if isinstance(reply, Refusal):
        assert reply.limit is not None
        assert replace(reply.limit, retry_after=0) == ReachedLimit(JOBS, LIMIT, 0)
        assert AGAIN_MS[JOBS] <= reply.limit.retry_after <= AGAIN_MOST_MS
    return not isinstance(reply, Refusal)


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


async def test_a_node_sees_what_another_one_has_let_in_when_it_counts_anew(nodes: Nodes) -> None:
    """Within seconds, beside the limit within 250 ms: so long each may let in what it has room for."""
    one, two = nodes.add(), nodes.add()
    assert await create(one, "one-first")
    assert await create(two, "two-first")
    assert [await create(one, f"one-{number}") for number in range(12)] == [True] * 12
    nodes.clock.advance(COUNT_AGAIN_MS)
    assert [await create(two, f"two-{number}") for number in range(12)] == [True] * 6 + [False] * 6
    assert len(nodes.jobs.living) == LIMIT
    await one.deliver("one-0", Command(Destroyed()))
    assert not await create(two, "another"), "it has counted just before"
    nodes.clock.advance(COUNT_LEAST_MS)
    taken = await asyncio.gather(*(create(node, f"{node is one}") for node in (one, two)))
    assert sum(taken) == len(nodes.jobs.living) - LIMIT + 1
    assert len(nodes.jobs.living) <= LIMIT + 1


async def test_what_is_under_way_is_waited_for_before_one_is_refused(nodes: Nodes) -> None:
    """It may be nothing new: one that exists already, or is refused for another reason."""
    node, living = nodes.add(), nodes.jobs.living
    living.update(f"job-{number}" for number in range(LIMIT - 1))
    nodes.jobs.gate.clear()
    again = [asyncio.create_task(create(node, f"job-{number}")) for number in range(5)]
    new = [asyncio.create_task(create(node, f"new-{number}")) for number in range(5)]
    array = asyncio.create_task(node.create_all([of(f"job-{one}") for one in range(5)] + [of("last")], ""))
    for _ in range(20):
        await asyncio.sleep(0)
    nodes.jobs.gate.set()
    assert await asyncio.gather(*again) == [True] * 5
    refused = [*await asyncio.gather(*new), not isinstance((await array)[-1], Refusal)]
    assert sum(refused) == 1
    assert len(living) == LIMIT
    assert {name for name, _, _ in nodes.told} == {JOBS}


async def test_what_may_have_come_to_be_counts(nodes: Nodes) -> None:
    """A creation whose caller has left, or of which the store has not said what became of it."""
    node, living = nodes.add(), nodes.jobs.living
    living.update(f"job-{number}" for number in range(LIMIT - 12))
    assert await create(node, "first"), "what there is has been counted now"
    nodes.jobs.is_uncertain = True
    for number in range(10):
        with pytest.raises(StoreUncertain):
            await create(node, f"uncertain-{number}")
    nodes.jobs.is_uncertain = False
    nodes.jobs.gate.clear()
    left = asyncio.create_task(create(node, "left"))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    living.add("left")  # its turn went on
    nodes.jobs.gate.set()
    assert not await create(node, "another")
    assert len(living) == LIMIT


async def test_at_the_limit_no_more_is_counted_than_is_needed(nodes: Nodes) -> None:
    """Who asks again and again costs a count each 250 ms; where there is much room, one each five seconds."""
    node = nodes.add()
    for number in range(10):
        assert await create(node, f"job-{number}")
    assert nodes.jobs.counted == 1
    nodes.jobs.living.update(f"more-{number}" for number in range(10))
    nodes.clock.advance(COUNT_AGAIN_MS)
    assert [await create(node, f"other-{number}") for number in range(100)] == [False] * 100
    assert nodes.jobs.counted == 2
    nodes.clock.advance(SECOND)
    nodes.jobs.is_away = True
    with pytest.raises(StoreUnavailable):
        await create(node, "another")
    replies = await node.create_all([of("another")], "")
    assert isinstance(replies[0], StoreUnavailable)


async def test_who_is_refused_is_to_ask_again_after_as_long_as_there_was_no_room(nodes: Nodes) -> None:
    """Not sooner than it can be of use, nor later than in ten minutes; once there was room it begins anew."""
    node = nodes.add()
    nodes.jobs.living.update(f"job-{number}" for number in range(LIMIT))

    async def ask() -> int:
        reply = await node.deliver("one-more", creation("one-more"))
        assert isinstance(reply, Refusal)
        assert reply.limit is not None
        nodes.clock.advance(reply.limit.retry_after)
        return reply.limit.retry_after // MINUTE

    assert [await ask() for _ in range(6)] == [1, 1, 2, 4, 8, 10]
    nodes.jobs.living.remove("job-0")
    assert await create(node, "job-0")
    assert await ask() == 1


async def test_what_is_more_than_fits_is_told_by_its_number(nodes: Nodes) -> None:
    """A backfill of more than the limit is never to be asked for again."""
    node = nodes.add()
    for number, again in ((LIMIT + 1, 0), (LIMIT, AGAIN_MS[WAITS])):
        nodes.jobs.waiting = 1
        reply = await node.deliver("one", Command(Backfilled(tuple(range(number)))))
        assert isinstance(reply, Refusal)
        assert reply.limit == ReachedLimit(WAITS, LIMIT, again)
        assert (
            f"has 1 executions that wait, and limits.tenant_waiting allows {LIMIT}; of these" in reply.message
        )
