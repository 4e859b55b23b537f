"""After a start: what an earlier process left undone (SPEC section 8)."""

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.records import ExecutionRecord, FiringRecord
from scheduler_service.hosts.host_parts import HostLimits
from tests.unit.hosts.house import House, asynchronous, until

pytestmark = pytest.mark.anyio


URL = "http://target.test/run"


async def test_at_qos_1_a_crash_sends_the_step_in_flight_again_as_it_was() -> None:
    """Byte by byte, with the same Idempotency-Key; what was recorded is not sent again (SPEC section 8)."""
    house = await House().start()
    await house.create(qos=1, request=[{"url": "http://a.test/1"}, {"url": "http://a.test/2"}])
    house.sender.hold("http://a.test/2")
    await house.trigger()
    await house.settle()
    before = house.sender.requests[-1]
    await house.crash()
    await house.start()
    assert house.sender.requests == [before]
    assert house.executions() == {1: State.SUCCEEDED}


async def test_at_qos_0_a_crash_closes_the_execution_whether_or_not_it_is_touched() -> None:
    """Processing, failed, terminated, error `lost`; the timer goes on (SPEC section 8)."""
    house = await House().start()
    await house.create(timer={"dueTime": "10s", "period": "10s"})
    house.sender.hold(URL)
    await house.trigger()
    await house.settle()
    await house.crash()
    await house.start()
    assert house.executions() == {1: State.TERMINATED}
    assert house.sender.requests == []
    await house.advance(10_000)
    assert house.executions() == {1: State.TERMINATED, 2: State.SUCCEEDED}


async def test_an_accepted_trigger_survives_a_crash_in_the_queue() -> None:
    """While it is enqueued it goes on at qos 0 too (SPEC section 8)."""
    house = await House().start()
    await house.create(overlapPolicy="queue")
    house.sender.hold(URL)
    await house.trigger()
    await house.trigger()
    await house.crash()
    await house.start()
    assert house.executions() == {1: State.TERMINATED, 2: State.SUCCEEDED}


async def test_thousands_of_open_jobs_are_taken_up_at_the_start() -> None:
    """Calls in flight before the host is ready, and every other job with open executions soon after."""
    house = await House(limits=HostLimits(hot=3_000)).start()
    house.sender.hold(URL)
    for number in range(1_500):
        await house.create(f"job{number}", qos=number % 2)
        await house.trigger(f"job{number}")
    await house.crash()
    await house.host.start()
    assert house.host.is_ready
    await until(lambda: len(house.sender.requests) == 750)

    def are_lost() -> bool:
        return sum(b"terminated" in job.entry.latest for job in house.disk.jobs.values()) == 750

    await until(are_lost)


async def test_calls_in_flight_do_not_wait_for_jobs_that_wait() -> None:
    """What waits for a report, a check or a retry is looked after when firings have begun."""
    house = await House().start()
    for number in range(600):
        await house.create(f"a{number}", qos=1, request=[{"url": "http://target.test/a"}], **asynchronous())
        await house.trigger(f"a{number}")
    await house.settle()
    await house.create("z", qos=1)
    house.sender.hold(URL)
    await house.trigger("z")
    await house.settle()
    await house.crash()
    house.sender.hold(URL)
    house.journal.clear()
    await house.host.start()
    assert house.order("commit") == [("commit", "z")]
    await until(lambda: len(house.order("commit")) == 601)
    assert house.sender.urls() == [URL]


async def test_batches_without_confirmation_reach_the_history_after_a_crash() -> None:
    """What became of every execution reaches the history even if the process dies before the writing."""
    house = await House().start()
    await house.create()
    await house.trigger()
    await house.settle()
    await house.crash()
    await house.start()
    assert {one.state for one in house.history.records() if isinstance(one, ExecutionRecord)} == {
        State.PROCESSING,
        State.SUCCEEDED,
    }
    assert all(durable for _, durable in house.history.batches)
    await house.history.flush()
    assert house.disk.unwritten == {}


async def test_a_job_that_slept_through_the_downtime_fires_late_and_once() -> None:
    """Alarms lie on disk; the missed firings become one (SPEC section 3)."""
    house = await House().start()
    await house.create(timer={"dueTime": "10s", "period": "10s"})
    await house.crash()
    house.clock.advance(95_000)
    await house.start()
    await house.advance(500)
    firings = [one for one in house.history.records() if isinstance(one, FiringRecord)]
    assert len(firings) >= 2
    assert house.executions()[1] is State.SUCCEEDED


HOUR = 3_600_000


async def test_a_clock_that_was_set_back_before_the_start_lengthens_no_limit() -> None:
    """The job rings when its whole limit is over, though its alarm was stored for an hour later."""
    house = await House().start()
    await house.create(qos=1, timeoutSeconds=30)
    house.sender.hold(URL)
    await house.trigger()
    await house.crash()
    house.clock.set_back(HOUR)
    house.sender.hold(URL)
    await house.start()
    await house.advance(29_999)
    assert house.executions() == {1: State.PROCESSING}
    await house.advance(1)
    assert house.executions() == {1: State.TERMINATED}


async def test_a_clock_that_was_set_back_before_the_start_lengthens_no_wait() -> None:
    """The same for a retry of an execution, and for that of a delivery."""
    house = await House().start()
    retry, note = [{"errorEquals": "*", "intervalSeconds": 5}], {"url": "http://caller.test/"}
    kept = {**note, "stateEquals": ["500"], "guarantee": "outbox"}
    await house.create(qos=1, retry=retry, notification=[kept])
    house.sender.answers(URL, 500)
    house.sender.answers("http://caller.test/", 503)
    await house.trigger()
    await house.settle()
    await house.crash()
    house.clock.set_back(HOUR)
    await house.start()
    assert house.sender.requests == []
    await house.advance(20_000)
    assert {one.url for one in house.sender.requests} == {URL, "http://caller.test/"}
