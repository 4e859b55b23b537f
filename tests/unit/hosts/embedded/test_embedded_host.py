"""The embedded host as a whole: turns, calls, crashes, drain."""

import asyncio
import json
from typing import Any

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.moments import Due
from scheduler_service.domain.records import FiringRecord
from scheduler_service.domain.turn_events import Created, Destroyed, Triggered
from scheduler_service.domain.wire import Answer
from scheduler_service.hosts.embedded.local_turns import BEHIND_PAUSE_MS, MANY_OPENS, OPENS_A_MS
from scheduler_service.hosts.work_thread import ANY_BYTES, ROOM_BYTES
from scheduler_service.language.json_values import LARGE_BYTES
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreStopping, StoreUncertain
from tests.unit.hosts.house import House, asynchronous, describe
from tests.unit.hosts.memory_store import Fate

pytestmark = pytest.mark.anyio
URL = "http://target.test/run"
SECONDLY = {"dueTime": "1s", "period": "1s"}


async def test_a_firing_that_could_not_be_written_is_looked_at_in_a_second(house: House) -> None:
    """A ring whose commit fails is rung again; the firing happens once."""
    await house.create(timer={"dueTime": "1s", "period": "0s"})
    house.store.fates.extend([Fate.REFUSED, Fate.VANISHED, Fate.SILENT])
    await house.advance(6_000)
    assert house.executions() == {1: State.SUCCEEDED}
    assert house.sender.urls() == [URL]


async def test_failures_of_many_jobs_are_counted_in_one_line(house: House) -> None:
    """On a full disk each due job fails each second: the first is named at once, the others at the stop."""
    for number in range(20):
        await house.create(f"job-{number}", timer={"dueTime": "1s", "period": "0s"})
    house.store.fates.extend([Fate.REFUSED] * 60)
    await house.advance(2_500)

    def lines() -> list[dict[str, object]]:
        return [keys for event, keys in house.log if event == "alarm_not_taken"]

    assert [line["times"] for line in lines()] == [1]
    await house.advance(5_000)
    await house.host.stop(0)
    assert [line["times"] for line in lines()] == [1, 59]
    assert all(line["jobId"] for line in lines())


async def number_of_latest(house: House, job_id: str = "job") -> int:
    """The number of the job's newest execution, as whoever asks sees it."""
    job = await house.host.read(job_id)
    assert job is not None
    assert job.document is not None
    return job.document.head.execute_number


async def test_a_read_waits_for_no_turn(house: House) -> None:
    """However many are in line; one whose reply has been given is seen (SPEC section 10)."""
    await house.create(overlapPolicy="queue")
    house.store.hold()
    triggers = [asyncio.create_task(house.trigger()) for _ in range(3)]
    await house.settle()
    asked = asyncio.create_task(number_of_latest(house))
    await house.settle()
    assert asked.done()
    assert await asked == 0
    assert not any(trigger.done() for trigger in triggers)
    house.store.release()
    await triggers[0]
    assert await number_of_latest(house) >= 1
    await asyncio.gather(*triggers)
    assert await number_of_latest(house) == 3


MANY = [f"job-{number}" for number in range(3 * ROOM_BYTES // ANY_BYTES)]
LARGE = Command(Triggered(params=b'"%s"' % (b"x" * LARGE_BYTES)))


async def work_off(house: House) -> None:
    """Returns when no execution runs any more; a thread decides what is large."""
    while house.host.running:
        await house.settle()


@pytest.mark.parametrize("is_cold", [False, True])
async def test_a_read_waits_for_no_turn_on_much(is_cold: bool, house: House) -> None:
    """Those in line have left their states to the store, and are read there (SPEC section 10)."""
    for name in MANY:
        await house.create(name, qos=1)
    if is_cold:
        await house.crash()
        await house.start()
    house.store.hold()
    turns = [asyncio.create_task(house.host(name, LARGE)) for name in MANY]
    async with asyncio.timeout(30):
        numbers = await asyncio.gather(*(number_of_latest(house, name) for name in MANY))
        await house.settle()
        assert numbers == [await number_of_latest(house, name) for name in MANY] == [0] * len(MANY)
    assert not any(turn.done() for turn in turns)
    house.store.release()
    await asyncio.gather(*turns)
    assert [await number_of_latest(house, name) for name in MANY] == [1] * len(MANY)
    await work_off(house)


async def test_a_read_of_a_job_in_line_shows_no_call_of_a_dead_process(house: House) -> None:
    """What an earlier process had begun is looked after first, however long the line is."""
    for name in MANY:
        await house.create(name, qos=0)
    house.sender.hold(URL)
    for name in MANY:
        await house.host(name, LARGE)
    await house.crash()
    house.store.hold()
    await house.start()
    house.sender.hold(URL)
    reads = [asyncio.create_task(house.host.read(name)) for name in MANY]
    await house.settle()
    house.store.release()
    for job in await asyncio.gather(*reads):
        assert job is not None
        assert job.document is not None
        assert [
            run for run in job.document.head.opens if run.execute_number not in job.document.contexts
        ] == []
    house.sender.release(URL)
    await work_off(house)


@pytest.mark.parametrize(("fate", "number"), [(Fate.SILENT, 1), (Fate.VANISHED, 0)])
async def test_a_read_finds_an_unknown_outcome_out(fate: Fate, number: int, house: House) -> None:
    """Who was told that it is not known asks again, and is told what the store has."""
    await house.create()
    house.store.fates.append(fate)
    with pytest.raises(StoreUncertain):
        await house.trigger()
    assert await number_of_latest(house) == number


@pytest.mark.parametrize("qos", [0, 1])
async def test_only_an_end_that_nothing_follows_is_patient(qos: int, house: House) -> None:
    """The writer may let it wait for others; what somebody waits for goes at once."""
    await house.create(overlapPolicy="queue", qos=qos)
    house.sender.hold(URL)
    await house.trigger()
    await house.trigger()
    await house.settle()
    assert not any(commit.may_wait for commit in house.disk.commits)
    house.sender.release(URL)
    await house.settle()
    *before, last = house.disk.commits
    assert house.executions() == {1: State.SUCCEEDED, 2: State.SUCCEEDED}
    assert not any(commit.may_wait for commit in before)
    assert last.may_wait


async def test_a_destroyed_job_leaves_memory_and_rings_no_more(house: House) -> None:
    """Timers, state and live executions end (SPEC section 10)."""
    await house.create(timer=SECONDLY)
    await house.advance(1_000)
    await house.deliver(Destroyed())
    assert house.host.jobs_held == 0
    await house.advance(5_000)
    assert len(house.sender.requests) == 1
    assert house.disk.jobs["job"].due == Due()
    assert await house.host.read("job") is None


async def test_draining_lets_what_runs_end_and_starts_nothing(house: House) -> None:
    """On SIGTERM: no firing any more, what runs may end, then history and store are closed in this order."""
    await house.create(timer=SECONDLY)
    await house.create("running")
    house.sender.hold(URL)
    await house.trigger("running")
    stop = asyncio.create_task(house.host.stop(10_000))
    await house.settle()
    assert not house.host.is_ready
    with pytest.raises(StoreStopping):
        await house.trigger()
    with pytest.raises(StoreStopping):
        await house.host("new", Command(Created("", b""), definition=describe(jobId="new")))
    await house.advance(3_000)
    assert not stop.done()
    house.sender.release(URL)
    await house.advance(100)
    await stop
    assert house.executions("running") == {1: State.SUCCEEDED}
    assert house.executions() == {}
    assert [entry[0] for entry in house.journal[-2:]] == ["history closed", "store closed"]
    assert house.disk.unwritten == {}


async def test_a_firing_whose_turn_is_being_committed_may_end_too(house: House) -> None:
    """It is sent once, within the drain, and not cut off to be sent again (SPEC section 14)."""
    await house.create(timer=SECONDLY, qos=1)
    house.store.hold()
    house.sender.hold(URL)
    await house.advance(1_000)
    stop = asyncio.create_task(house.host.stop(10_000))
    await house.settle()
    house.store.release()
    await house.advance(1_000)
    house.sender.release(URL)
    await house.advance(1_000)
    await asyncio.wait_for(stop, 30)
    assert house.executions() == {1: State.SUCCEEDED}
    assert house.sender.urls() == [URL]


async def test_at_the_deadline_what_still_runs_is_left_to_the_next_start(house: House) -> None:
    """With qos 1 it goes on there; with qos 0 it ends as lost (SPEC section 14)."""
    house.sender.hold(URL)
    for qos in (0, 1):
        await house.create(f"job{qos}", qos=qos)
        await house.trigger(f"job{qos}")
    stop = asyncio.create_task(house.host.stop(2_000))
    await house.advance(2_100)
    await asyncio.wait_for(stop, 30)
    house.open()
    await house.start()
    assert house.executions("job0") == {1: State.TERMINATED}
    assert house.executions("job1") == {1: State.SUCCEEDED}


async def test_what_waits_when_it_drains_begins_after_the_next_start(house: House) -> None:
    """In order, at qos 0 too, and nothing before; the drain does not wait for it (SPEC sections 8, 14)."""
    await house.create(overlapPolicy="queue")
    house.sender.hold(URL)
    for _ in range(3):
        await house.trigger()
    stop = asyncio.create_task(house.host.stop(20_000))
    await house.settle()
    house.sender.release(URL)
    await house.advance(1_000)
    assert stop.done()
    assert house.sender.urls() == [URL]
    assert house.executions() == {1: State.SUCCEEDED, 2: State.ENQUEUED, 3: State.ENQUEUED}
    house.open()
    await house.start()
    await house.advance(100)
    assert house.executions() == {2: State.SUCCEEDED, 3: State.SUCCEEDED}


async def test_a_check_still_runs_while_the_node_drains(house: House) -> None:
    """Limits, checks and retries of what runs are no firings."""
    check = {"method": "GET", "url": "http://a.test/check"}
    await house.create(**asynchronous(checkUrl=check, checkRateSeconds=1))
    done = Answer(200, body=json.dumps({"status": "succeed"}).encode())
    house.sender.answers("http://a.test/check", Answer(200, body=b'{"status": ""}'), done)
    await house.trigger()
    await house.settle()
    stop = asyncio.create_task(house.host.stop(10_000))
    await house.advance(3_000)
    await asyncio.wait_for(stop, 30)
    assert house.executions() == {1: State.SUCCEEDED}


async def test_a_job_that_cannot_be_read_does_not_stop_the_others(house: House) -> None:
    """A damaged document is logged and looked at again much later."""
    await house.create("bad", timer=SECONDLY)
    await house.create("good", timer=SECONDLY)
    await house.crash()
    house.disk.jobs["bad"] = type(house.disk.jobs["bad"])(
        house.disk.jobs["bad"].entry, 5, b"\xc1", house.disk.jobs["bad"].due
    )
    await house.start()
    await house.advance(3_000)
    assert len(house.executions("good")) >= 2
    assert ("turn_failed", "bad") in {(event, keys.get("jobId")) for event, keys in house.log}
    assert sum(event == "turn_failed" for event, _ in house.log) == 1


async def test_a_job_is_in_memory_when_its_moment_comes(house: House) -> None:
    """Loads do not miss on the moment; two seconds ahead it is brought in, and not before."""
    await house.create(timer={"dueTime": "30s", "period": "0s"})
    await house.crash()
    await house.start()
    await house.advance(26_000)
    assert house.store.loads == 0
    await house.advance(3_500)
    assert house.store.loads == 1
    await house.advance(1_000)
    assert house.executions() == {1: "succeeded"}
    assert house.store.loads == 1


async def test_a_store_that_cannot_be_read_ahead_is_read_at_the_moment(house: House) -> None:
    """Looking ahead has no authority: what it could not load rings as ever."""
    await house.create(timer={"dueTime": "30s", "period": "0s"})
    await house.crash()
    await house.start()
    await house.advance(25_000)
    house.store.is_down = True
    await house.advance(4_000)
    assert house.executions() == {}
    house.store.is_down = False
    await house.advance(2_000)
    assert house.executions() == {1: "succeeded"}


EACH_MS = {"dueTime": "1ms", "period": "1ms"}


async def behind(house: House, seconds: int, **members: Any) -> House:
    """A job that fires each millisecond, after a downtime of so long; its calls have no end."""
    house.sender.hold(URL)
    await house.create(timer=EACH_MS, **members)
    await house.crash()
    house.clock.advance(seconds * 1_000)
    house.sender.hold(URL)
    return house


def planned(house: House) -> int:
    """How many firings the ledger has."""
    return sum(isinstance(record, FiringRecord) for record in house.history.records())


async def test_a_job_that_is_behind_waits_for_a_history_that_is_too() -> None:
    """Beside it nobody would: records of 30,000 skipped firings, times as many jobs, took a gigabyte."""
    house = await behind(House(), 30)
    house.history.has_much = True
    await house.start()
    await house.settle()
    first = planned(house)
    assert 0 < first <= 200
    await house.advance(BEHIND_PAUSE_MS)
    assert first < planned(house) <= 2 * first
    house.history.has_much = False
    await house.advance(BEHIND_PAUSE_MS)
    for _ in range(20):
        await house.settle()
    assert planned(house) > 29_000, "it goes on at once"


async def test_a_punctual_job_does_not_wait_for_the_history(house: House) -> None:
    """Nor one that is a little late."""
    await house.create(timer=EACH_MS)
    house.history.has_much = True
    await house.advance(100)
    assert planned(house) == 100


async def test_a_job_with_many_open_executions_lets_others_go_first() -> None:
    """Its turns take long; it looks for what is due after twenty times as long."""
    house = await behind(House(), 1, overlapPolicy="queue", queueLimit=10_000)
    await house.start()
    await house.settle()
    before, turns = planned_numbers(house), len(house.disk.commits)
    assert before >= MANY_OPENS
    await house.advance(3 * before // OPENS_A_MS)
    assert 2 <= len(house.disk.commits) - turns <= 6
    assert planned_numbers(house) > before


def planned_numbers(house: House) -> int:
    """The number of the newest execution."""
    return max(house.executions())
