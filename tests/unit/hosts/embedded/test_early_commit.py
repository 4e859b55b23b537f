"""A firing may be made durable just ahead of its moment; what it does waits (docs/decisions/0017)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.execution import FiringOutcome, JobState
from scheduler_service.domain.records import AttemptEnded, AttemptStarted, ExecutionRecord, FiringRecord
from scheduler_service.domain.turn_events import Paused
from scheduler_service.hosts.background_tasks import LightTasks
from scheduler_service.hosts.clock import BATCH_SIZE, SHARED_BATCH_SIZE, TimedRelease
from scheduler_service.hosts.embedded.early_commit import SHARED_LEAD_MS, TURN_MICROSECONDS, EarlyCommit
from scheduler_service.hosts.host_dependencies import HostLimits
from tests.unit.hosts.house import START, House
from tests.unit.hosts.memory_store import Fate

pytestmark = pytest.mark.anyio
HEADWAY = 20
URL = "http://target.test/run"
ONCE: dict[str, Any] = {"dueTime": "1s", "period": "0s"}


async def nearly(**members: Any) -> House:
    """A house whose one job is due in 10 ms."""
    house = await House(limits=HostLimits(early_commit=HEADWAY)).start()
    await house.create(timer=ONCE, **members)
    await house.advance(990)
    return house


async def number_of_latest(house: House) -> int:
    """The number of the job's newest execution, as whoever asks sees it."""
    job = await house.host.read("job")
    assert job is not None
    assert job.document is not None
    return job.document.head.execute_number


@pytest.fixture
async def house() -> House:
    """A house whose turns come up to `HEADWAY` ms ahead."""
    return await House(limits=HostLimits(early_commit=HEADWAY)).start()


@pytest.mark.parametrize("qos", [0, 1])
async def test_the_commit_comes_ahead_and_the_call_in_time(qos: int) -> None:
    """At its moment nothing is left but to send; what is recorded says the moment (SPEC section 3)."""
    house = await nearly(qos=qos)
    assert house.disk.jobs["job"].entry.execute_number == 1
    assert house.sender.requests == []
    await house.advance(9)
    assert house.sender.requests == []
    await house.advance(1)
    assert len(house.sender.requests) == 1
    assert house.executions() == {1: State.SUCCEEDED}
    record = next(one for one in house.records() if isinstance(one, ExecutionRecord))
    assert (record.planned_at, record.created_at, record.started_at) == (START + 1_000,) * 3


async def test_nobody_sees_the_turn_ahead_of_its_moment() -> None:
    """Who asks meanwhile sees the job as it was; who changes it comes after the firing under way."""
    house = await nearly()
    paused = asyncio.create_task(house.deliver(Paused()))
    await house.settle()
    assert await number_of_latest(house) == 0
    assert not paused.done()
    await house.advance(10)
    assert await number_of_latest(house) == 1
    await paused
    assert len(house.sender.requests) == 1
    # Whoever claims sees parts as soon as they are in the store: they come no earlier (SPEC section 13)
    house = await nearly(request=[{"url": "queue://work"}], leadSeconds=0)
    assert house.disk.jobs["job"].entry.execute_number == 0
    assert not any(commit.queued for commit in house.disk.commits)
    await house.advance(10)
    assert any(commit.queued for commit in house.disk.commits)


async def test_what_ends_before_the_moment_does_not_overlap(house: House) -> None:
    """A job with executions is looked at in its moment: what they do until then decides (SPEC section 3)."""
    await house.create(timer={"dueTime": "1s", "period": "1s"})
    house.sender.hold(URL)
    await house.advance(1_990)
    house.sender.release(URL)
    await house.advance(10)
    assert house.executions() == {1: State.SUCCEEDED, 2: State.SUCCEEDED}


async def test_an_earlier_change_comes_first(house: House) -> None:
    """What the job heard before its headway began holds the firing back."""
    await house.create(timer=ONCE)
    await house.advance(1_000 - HEADWAY - 1)
    await house.deliver(Paused())
    await house.advance(1_000)
    assert house.sender.requests == []
    assert house.disk.jobs["job"].entry.state is JobState.PAUSED


@pytest.mark.parametrize("qos", [0, 1])
async def test_what_begins_late_says_so_and_has_all_of_its_time(qos: int) -> None:
    """A crowd takes a while to start: lateness is told as it is, and no timeout is shortened by it."""
    house = await nearly(qos=qos, timeoutSeconds=1)
    house.sender.hold(URL)
    house.clock.stall(10 + 300)
    await house.settle()
    assert len(house.sender.requests) == 1
    record = next(one for one in house.records() if isinstance(one, ExecutionRecord))
    assert (record.planned_at, record.started_at) == (START + 1_000, START + 1_300)
    await house.advance(999)
    assert house.executions() == {1: State.PROCESSING}
    await house.advance(1)
    assert house.executions() == {1: State.TERMINATED}
    last = [one for one in house.records() if isinstance(one, ExecutionRecord)][-1]
    assert (last.started_at, last.ended_at) == (START + 1_300, START + 2_300)


async def test_a_firing_that_begins_a_second_late_is_late() -> None:
    """The ledger calls it what it is, however early it was decided (SPEC section 3)."""
    house = await nearly()
    house.clock.stall(10 + 1_001)
    await house.settle()
    assert [one.outcome for one in house.records() if isinstance(one, FiringRecord)] == [FiringOutcome.LATE]
    # The wait is measured on the line that no step of the wall clock moves
    house = await nearly()
    house.clock.step_wall(-3_600_000)
    await house.advance(10)
    assert len(house.sender.requests) == 1


async def test_killed_ahead_of_the_moment_with_qos_0() -> None:
    """Nothing of it was sent: it begins now, under its numbers, and is late (SPEC section 8)."""
    house = await nearly(qos=0)
    await house.crash()
    house.clock.advance(2_000)
    await house.start()
    await house.advance(10)
    (request,) = house.sender.requests
    assert ("X-Scheduling-Request-Counts", "1") in request.headers
    assert house.executions() == {1: State.SUCCEEDED}
    last = [one for one in house.records() if isinstance(one, ExecutionRecord)][-1]
    assert (last.planned_at, last.started_at, last.attempt_count) == (START + 1_000, START + 2_990, 1)
    outcomes = [one.outcome for one in house.records() if isinstance(one, FiringRecord)]
    assert outcomes == [FiringOutcome.FIRED, FiringOutcome.LATE], "the ledger takes the later one"


async def test_what_cannot_be_known_is_lost_at_qos_0() -> None:
    """Also ahead of its moment, where the mark of the process has not outlived it."""
    house = await nearly(qos=0)
    house.keeps_mark = False
    await house.crash()
    await ends_as_lost(house)
    # An execution that was sent is not sent again, though its moment comes once more
    house = await nearly(qos=0)
    house.sender.hold(URL)
    await house.advance(10)
    await house.crash()
    house.clock.step_wall(-500)
    await ends_as_lost(house)


@pytest.mark.parametrize("late", [0, 300])
async def test_what_was_sent_is_lost_at_qos_0(late: int) -> None:
    """From the moment on it may have left; one that began late is durable with its moment alone."""
    house = await nearly(qos=0)
    house.sender.hold(URL)
    house.clock.stall(10 + late)
    await house.settle()
    assert len(house.sender.requests) == 1
    await house.crash()
    await ends_as_lost(house)


async def test_who_wants_nothing_late_gets_nothing_late(house: House) -> None:
    """`skip` beyond its grace: an execution that did not begin does not begin after hours."""
    await house.create(timer=ONCE | {"misfire": {"policy": "skip", "graceSeconds": 60}})
    await house.advance(990)
    await house.crash()
    house.clock.advance(60_000 + 20)
    await ends_as_lost(house)


async def ends_as_lost(house: House) -> None:
    """The next process sends nothing of the one execution, and closes it (SPEC section 8)."""
    await house.start()
    await house.advance(1_000)
    assert house.sender.requests == []
    last = [one for one in house.records() if isinstance(one, ExecutionRecord)][-1]
    assert (last.state, last.error) == (State.TERMINATED, "lost")


async def test_a_stop_lets_the_moment_come() -> None:
    """A drain waits for a turn that waits for its moment, and for its call (SPEC section 14)."""
    house = await nearly(qos=1)
    stopped = asyncio.create_task(house.host.stop(60_000))
    await house.advance(1_000)
    await stopped
    assert house.executions() == {1: State.SUCCEEDED}


@pytest.mark.parametrize("is_live", [True, False])
async def test_a_clock_set_back_before_the_turn_holds_nobody(is_live: bool, house: House) -> None:
    """A ring that still waited its turn finds its moment an hour away: it looks, and waits for nothing."""
    await house.create(timer={"dueTime": "1s", "period": "1h"})
    if is_live:
        house.sender.hold(URL)
        await house.trigger()
        await house.settle()
    sent = len(house.sender.requests)
    ring = asyncio.create_task(house.host._turns.ring("job", START + 3_600_000))
    await house.settle()
    assert ring.done()
    assert len(house.sender.requests) == sent


async def test_moments_are_never_reached_early() -> None:
    """A timer may come a little before its time: the rest is waited for too."""
    house = House()
    moments = TimedRelease(clock=house.clock)
    now = house.clock.now().steady
    both = [asyncio.create_task(moments.wait_until(now + 10)) for _ in range(2)]
    await house.settle()
    assert house.clock.next_call() == 10
    house.clock.advance(9)
    await house.settle()
    assert not any(one.done() for one in both)
    house.clock.advance(1)
    await asyncio.gather(*both)
    await moments.wait_until(now)


async def test_an_uncertain_commit_is_not_sent_ahead(house: House) -> None:
    """Who finds out that the store has it waits for its moment as well, and one who is late says so."""
    await house.create(timer=ONCE, qos=1)
    await house.advance(970)
    house.store.fates.append(Fate.SILENT)
    await house.advance(12)
    asked = asyncio.create_task(house.host.read("job"))
    await house.settle()
    assert house.disk.jobs["job"].entry.execute_number == 1
    assert house.sender.requests == []
    await house.advance(18)
    await asked
    assert len(house.sender.requests) == 1


async def test_a_job_with_executions_hears_all_else_until_its_moment() -> None:
    """A limit that ends while a crowd is taken ahead ends at its time (SPEC section 5)."""
    house = await House(limits=HostLimits(early_commit=HEADWAY, burst_lead=500)).start()
    for number in range(1_500):
        await house.create(f"job-{number}", timer={"dueTime": "3s", "period": "0s"})
    await house.create("live", timer={"dueTime": "2990ms", "period": "0s"}, timeoutSeconds=1)
    house.sender.hold(URL)
    await house.advance(1_900)
    await house.trigger("live")
    await house.advance(980)
    assert house.disk.jobs["job-0"].entry.execute_number == 1
    assert house.executions("live") == {1: State.PROCESSING}
    await house.advance(20)
    assert house.executions("live")[1] is State.TERMINATED
    assert len(house.sender.requests) == 1
    await house.advance(90)
    assert len(house.sender.requests) == 2


async def test_a_trigger_that_is_first_is_answered_before_the_firing(house: House) -> None:
    """An execution that began while the ring waited for the lock may end until the moment."""
    await house.create(timer=ONCE)
    house.sender.hold(URL)
    await house.advance(979)
    house.store.hold()
    triggered = asyncio.create_task(house.trigger())
    await house.settle()
    await house.advance(1)
    house.store.release()
    await house.settle()
    house.sender.release(URL)
    await house.advance(20)
    await triggered
    assert house.executions() == {1: State.SUCCEEDED, 2: State.SUCCEEDED}


async def test_what_fails_as_it_begins_late_ends_no_earlier_than_it_began() -> None:
    """All moments of the turn move together; so does the wait for a retry."""
    house = await nearly(
        request=[{"url": "http://target.test/${params.who}"}],
        retry=[{"errorEquals": "States.ALL", "intervalSeconds": 1, "maxAttempts": 1}],
    )
    house.clock.stall(10 + 300)
    await house.settle()
    began = START + 1_300
    assert {one.at for one in house.records() if isinstance(one, AttemptStarted | AttemptEnded)} == {began}
    first = next(one for one in house.records() if isinstance(one, ExecutionRecord))
    assert first.started_at == began
    await house.advance(5_000)
    runs = [one for one in house.records() if isinstance(one, ExecutionRecord)]
    assert all(one.ended_at is None or one.ended_at >= began for one in runs)


async def test_who_leads_is_not_late_before_the_plan(house: House) -> None:
    """With `leadSeconds` a firing may begin long after its own moment, and still before the planned one."""
    await house.create(timer={"dueTime": "6s", "period": "0s"}, leadSeconds=5)
    await house.advance(990)
    house.clock.advance(10 + 1_100)
    await house.settle()
    assert [one.outcome for one in house.records() if isinstance(one, FiringRecord)] == [FiringOutcome.FIRED]


async def test_restarted_ahead_of_the_moment() -> None:
    """The next process sends what was durable, and no earlier than the last one would have."""
    house = await nearly(qos=1)
    await house.crash()
    started = asyncio.create_task(house.start())
    await house.settle()
    assert house.sender.requests == []
    await house.advance(10)
    await started
    assert len(house.sender.requests) == 1


async def test_a_crowd_is_seen_in_time() -> None:
    """Though it was created after the alarms had looked, and something else woke them in between."""
    house = await House(limits=HostLimits(early_commit=HEADWAY, burst_lead=500)).start()
    await house.create("other", timer={"dueTime": "1990ms", "period": "0s"})
    await house.advance(1_300)
    for number in range(500):
        await house.create(f"job-{number}", timer={"dueTime": "1800ms", "period": "0s"})
    await house.advance(1_800 - 50 - 1)
    assert house.disk.jobs["job-0"].entry.execute_number == 0
    await house.advance(2)
    assert house.disk.jobs["job-0"].entry.execute_number == 1


@pytest.mark.parametrize("size", [BATCH_SIZE, SHARED_BATCH_SIZE])
async def test_a_crowd_goes_on_in_bunches(size: int) -> None:
    """At their moment the loop gets round to others in between, and every one of them goes on."""
    house = House()
    moments = TimedRelease(clock=house.clock)
    moments.is_shared = size == SHARED_BATCH_SIZE
    now = house.clock.now().steady
    gone: list[int] = []

    async def wait(number: int) -> None:
        await moments.wait_until(now + 10)
        gone.append(number)

    waiting = [asyncio.create_task(wait(number)) for number in range(3 * size + 1)]
    await house.settle()
    assert len(moments) == len(waiting)
    house.clock.advance(10)
    rounds = 0
    while len(gone) < len(waiting):
        before = len(gone)
        await asyncio.sleep(0)
        assert len(gone) - before <= size
        rounds += 1
    assert rounds >= 4
    assert gone == sorted(gone)
    assert len(moments) == 0


async def test_a_firing_goes_on_before_what_the_loop_has_in_line() -> None:
    """Its moment has come: the answers of a burst, which are in line by then, do not come first."""
    house = House()
    moments = TimedRelease(clock=house.clock)
    now = house.clock.now().steady
    order: list[str] = []

    async def wait(name: str) -> None:
        await moments.wait_until(now + 10)
        order.append(name)

    waiting = LightTasks()
    waiting.start(wait("first"))
    waiting.start(wait("second"))
    asyncio.get_running_loop().call_soon(order.append, "in line")
    house.clock.advance(10)
    assert order == ["first", "second"]
    waiting.start(wait("late"))
    assert order == ["first", "second", "late"]
    assert len(waiting) == len(moments) == 0


async def test_a_change_within_a_rush_comes_after_the_firing() -> None:
    """As within the usual headway: it waits, and nobody is told what did not happen."""
    house = await House(limits=HostLimits(early_commit=HEADWAY, burst_lead=500)).start()
    count = 400
    for number in range(count):
        await house.create(f"job-{number}", timer={"dueTime": "3s", "period": "0s"})
    await house.advance(3_000 - count * TURN_MICROSECONDS // 1_000 + 1)
    assert house.disk.jobs["job-0"].entry.execute_number == 1
    paused = asyncio.create_task(house.deliver(Paused(), job_id="job-0"))
    await house.settle()
    assert not paused.done()
    assert house.sender.requests == []
    await house.advance(count * TURN_MICROSECONDS // 1_000)
    await paused
    assert len(house.sender.requests) == count


def is_late(moments: list[int], begin: Callable[[int], int]) -> bool:
    """Whether one server that takes each from `begin` on, in order, ends some turn after its moment."""
    free = 0
    for moment in moments:
        free = max(free, begin(moment) * 1_000) + TURN_MICROSECONDS
        if free > moment * 1_000:
            return True
    return False


@given(
    st.lists(st.integers(1_000, 1_200), max_size=40),
    st.lists(st.integers(0, 600), min_size=1, max_size=4),
)
def test_a_rush_begins_where_the_usual_headway_is_too_short(some: list[int], crowds: list[int]) -> None:
    """Early enough for the last of the first crowd, and for a crowd alone."""
    moments = sorted(some + [2_000 + 150 * place for place, size in enumerate(crowds) for _ in range(size)])
    early_commit = EarlyCommit(usual=HEADWAY, longest=500)
    early_commit.survey(moments)

    def begin(moment: int) -> int:
        return next(now for now in range(moment - 500, moment) if early_commit.reach(now) >= moment)

    burst_lead = [now for now in range(500, 3_000) if early_commit.reach(now) > now + HEADWAY]
    assert bool(burst_lead) == is_late(moments, lambda moment: moment - HEADWAY)
    end = burst_lead[-1] + 1 if burst_lead else 3_000
    assert not is_late([moment for moment in moments if moment <= end], begin)
    for moment in set(moments):
        for now in range(moment - 501, moment):
            pause = early_commit.pause(now, moment)
            assert (pause == 0) == (early_commit.reach(now) >= moment)
            assert early_commit.reach(now + pause - 1) < moment or pause == 0


def test_firings_wait_for_others_within_the_usual_headway() -> None:
    """The first rings when half of it is over, and takes along what is due as far as it reaches."""
    early_commit = EarlyCommit(usual=20, longest=20, batch_window=10)
    assert [early_commit.pause(now, 1_000) for now in (900, 980, 989, 990, 1_100)] == [90, 10, 1, 0, 0]
    assert early_commit.reach(990) == 1_010
    # It ends late, by what is left of it at its moment
    early_commit = EarlyCommit(usual=HEADWAY, longest=500)
    early_commit.survey([10_000] * 20_000)
    assert early_commit.reach(9_499) == 9_499 + HEADWAY
    assert early_commit.reach(9_500) == 10_000
    assert early_commit.pause(9_400, 10_000) == 100
    early_commit.survey([])
    assert early_commit.reach(9_500) == 9_500 + HEADWAY


def test_beside_a_neighbours_burst_firings_begin_earlier() -> None:
    """Their commits wait for some of its own. It ends with the burst, and is no longer than any lead."""
    early_commit = EarlyCommit(usual=20, longest=500, batch_window=10)
    early_commit.share(is_shared=True)
    assert early_commit.reach(1_000) == 1_000 + SHARED_LEAD_MS
    assert early_commit.pause(1_000, 2_000) == 1_000 - SHARED_LEAD_MS
    early_commit.share(is_shared=False)
    assert (early_commit.reach(1_000), early_commit.pause(1_000, 2_000)) == (1_020, 990)
    short = EarlyCommit(usual=0, longest=0)
    short.share(is_shared=True)
    assert short.reach(1_000) == 1_000
