"""Jobs between two turns: locked in order, bounded in memory."""

import asyncio

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.replies import Started
from scheduler_service.domain.turn_events import CancelRequested, Destroyed, Event, Paused, Triggered, Updated
from scheduler_service.engine.program import weigh
from scheduler_service.hosts.host_parts import HostLimits
from scheduler_service.hosts.job_cache import LockedJob
from scheduler_service.ports.delivery import Command
from tests.unit.hosts.house import START, House, describe

pytestmark = pytest.mark.anyio


URL = "http://target.test/run"


async def test_events_of_one_job_are_taken_in_the_order_of_their_arrival() -> None:
    """A FIFO lock per job, commands before the others; other jobs do not wait for it."""
    house = await House().start()
    await house.create(maxConcurrency=100)
    house.sender.hold(URL)
    replies = await asyncio.gather(*(house.trigger() for _ in range(20)))
    assert [reply.execute_number for reply in replies if isinstance(reply, Started)] == list(range(1, 21))


async def test_who_stops_waiting_stops_nothing() -> None:
    """A caller that goes away leaves no turn half taken."""
    house = await House().start()
    await house.create()
    house.store.hold()
    turn = asyncio.create_task(house.trigger())
    await house.settle()
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    house.store.release()
    await house.settle()
    assert house.executions() == {1: State.SUCCEEDED}


async def test_a_lock_that_was_handed_to_somebody_who_left_goes_on() -> None:
    """No wake-up is lost when who was woken is cancelled in the same moment."""
    actor = LockedJob("job")
    await actor.acquire()
    second, third = asyncio.create_task(actor.acquire()), asyncio.create_task(actor.acquire())
    await asyncio.sleep(0)
    actor.release()
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    await asyncio.wait_for(third, 30)
    assert actor.is_busy
    actor.release()
    assert not actor.is_busy


async def test_who_leaves_the_line_is_passed_over() -> None:
    """Cancelled while it waits, it holds up nobody behind it."""
    actor = LockedJob("job")
    await actor.acquire()
    second, third = asyncio.create_task(actor.acquire()), asyncio.create_task(actor.acquire())
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    actor.release()
    await asyncio.wait_for(third, 30)


async def test_commands_go_first_in_their_order() -> None:
    """Before all that waits; one that leaves is passed over as well."""
    actor, order = LockedJob("job"), list[str]()
    await actor.acquire()

    async def ask(name: str, is_command: bool) -> None:
        await actor.acquire(is_command=is_command)
        order.append(name)
        actor.release()

    asked = [("a", False), ("B", True), ("c", False), ("D", True), ("E", True)]
    tasks = [asyncio.create_task(ask(name, is_command)) for name, is_command in asked]
    await asyncio.sleep(0)
    tasks[3].cancel()
    actor.release()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["B", "E", "a", "c"]
    assert not actor.is_busy


@pytest.mark.parametrize("event", [Paused(), Destroyed(), CancelRequested(1)])
async def test_a_command_does_not_wait_for_what_is_in_line(event: Event) -> None:
    """A job with thousands of answers in line was paused after 18 s."""
    house = await House().start()
    await house.create(overlapPolicy="queue")
    house.store.hold()
    turns = [asyncio.create_task(house.trigger()) for _ in range(5)]
    await house.settle()
    command = asyncio.create_task(house.deliver(event))
    await house.settle()
    for _ in range(2):
        house.store.release()
        house.store.hold()
        await house.settle()
    assert command.done()
    assert sum(turn.done() and isinstance(turn.result(), Started) for turn in turns) <= 2
    house.store.release()
    await asyncio.gather(*turns)


async def test_the_cache_of_hot_jobs_is_bounded() -> None:
    """Idle jobs leave memory; those whose executions run stay, and all go on working."""
    house = await House(limits=HostLimits(hot=5)).start()
    house.sender.hold("http://slow.test/")
    await house.create("live", request=[{"url": "http://slow.test/"}])
    await house.trigger("live")
    for number in range(20):
        await house.create(f"job{number}")
    assert house.host.jobs_held <= 6
    assert house.host.running == 1
    house.sender.release("http://slow.test/")
    await house.settle()
    assert house.executions("live") == {1: State.SUCCEEDED}
    await house.trigger("job0")
    await house.settle()
    assert house.executions("job0") == {1: State.SUCCEEDED}


DEAR = {f"label-{number}": "x" for number in range(300)}


async def test_the_cache_of_hot_jobs_is_bounded_by_what_they_weigh() -> None:
    """However few they are; one that weighs more than all may, is worked on nevertheless."""
    house = await House(limits=HostLimits(hot_bytes=3 * weigh(describe(labels=DEAR).text))).start()
    house.sender.hold("http://slow.test/")
    await house.create("live", request=[{"url": "http://slow.test/"}], labels=DEAR)
    await house.trigger("live")
    for number in range(10):
        await house.create(f"job{number}", labels=DEAR)
    assert house.host.jobs_held <= 4
    for number in range(10):
        await house.trigger(f"job{number}")
        await house.settle()
        assert house.executions(f"job{number}") == {1: State.SUCCEEDED}
        assert house.host.jobs_held <= 4
    for number in range(10):
        await house.create(f"small{number}")
    assert house.host.jobs_held >= 11
    assert house.host.running == 1


async def test_a_job_weighs_what_its_definitions_do() -> None:
    """Replaced by a small one, or destroyed, it makes room for others."""
    house = await House(limits=HostLimits(hot_bytes=2 * weigh(describe(labels=DEAR).text) + 100)).start()
    for number in range(4):
        await house.create(f"job{number}", labels=DEAR)
        small = describe(jobId=f"job{number}")
        await house.host(f"job{number}", Command(Updated(0), definition=small))
    assert house.host.jobs_held == 4
    await house.create("first", labels=DEAR)
    await house.create("second", labels=DEAR)
    await house.deliver(Destroyed(), "first")
    await house.create("third", labels=DEAR)
    assert house.host.jobs_held == 6


async def test_a_job_weighs_what_its_open_executions_do() -> None:
    """Loaded from the store as well; once they have ended, the job weighs nothing any more."""
    house = await House(limits=HostLimits(hot_bytes=60_000)).start()
    params = b'{"text": "%b"}' % (b"x" * 20_000)
    for number in range(10):
        await house.create(f"job{number}")
        await house.deliver(Triggered(params=params, planned_at=START + 1_000 * (number + 1)), f"job{number}")
        assert house.host.jobs_held <= 3
    for number in range(10):
        assert await house.host.read(f"job{number}") is not None
        assert house.host.jobs_held <= 3
    await house.advance(11_000)
    assert [house.executions(f"job{number}")[1] for number in range(10)] == [State.SUCCEEDED] * 10
    for number in range(10):
        assert await house.host.read(f"job{number}") is not None
    assert house.host.jobs_held == 10


@pytest.mark.parametrize("qos", [0, 1])
async def test_what_must_stay_pushes_no_other_job_out(qos: int) -> None:
    """Executions that run, however large: the others are still there when they fire."""
    house = await House(limits=HostLimits(hot_bytes=60_000)).start()
    house.sender.hold(URL)
    params = b'{"text": "%b"}' % (b"x" * 20_000)
    for number in range(5):
        await house.create(f"live{number}", qos=qos)
        await house.deliver(Triggered(params=params), f"live{number}")
    for number in range(100):
        await house.create(f"job{number}")
    assert (house.host.running, house.host.jobs_held) == (5, 105)
