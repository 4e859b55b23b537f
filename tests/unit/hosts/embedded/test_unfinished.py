"""After a start: what an earlier process left undone (SPEC section 8)."""

import asyncio
from collections.abc import Sequence

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.hosts.embedded.unfinished import (
    GROUP,
    GROUP_BYTES,
    PAGE,
    WAITING_AT_ONCE,
    Recovery,
    group_jobs,
)
from scheduler_service.hosts.host_dependencies import HostLimits
from scheduler_service.hosts.job_cache import LoadedJob
from scheduler_service.ports.errors import DeliveryUnreadable, StateUnreadable, StoreError, StoreUnavailable
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import OpenJob, StoredJob
from tests.unit.hosts.house import House, asynchronous, until
from tests.unit.hosts.memory_store import Disk, MemoryStore

pytestmark = pytest.mark.anyio
URL = "http://target.test/run"


async def test_a_read_after_a_crash_waits_until_lost_calls_are_looked_after(house: House) -> None:
    """Nobody is shown an execution as running that no process runs any more."""
    house.sender.hold(URL)
    await house.create()
    await house.trigger()
    await house.settle()
    await house.crash()
    house.store.hold()
    reads = [asyncio.create_task(house.host.read("job")) for _ in range(2)]
    await house.settle()
    assert not any(read.done() for read in reads)
    house.store.release()
    for job in await asyncio.gather(*reads):
        assert job is not None
        assert job.document is not None
        assert (job.document.contexts, job.document.head.opens) == ({}, ())


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


async def test_calls_in_flight_do_not_wait_for_jobs_that_wait(house: House) -> None:
    """What waits for a report, a check or a retry is looked after when firings have begun."""
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
    assert house.store.loads == 1, "nothing is loaded of a job that merely waits"
    await until(lambda: len(house.order("commit")) == 601)
    assert house.sender.urls() == [URL]


async def test_large_jobs_are_loaded_a_few_at_a_time() -> None:
    """In order, each of them, and one that is larger than all may be together alone."""
    jobs = [OpenJob(str(number), True, size) for number, size in enumerate((3, 3, 3, 20, 1, 1))]
    jobs = [OpenJob(one.job_id, True, one.size * GROUP_BYTES // 10) for one in jobs]
    assert list(group_jobs(jobs)) == [["0", "1", "2"], ["3"], ["4", "5"]]
    many = [OpenJob(str(number), True) for number in range(GROUP + 1)]
    assert [len(group) for group in group_jobs(many)] == [GROUP, 1]
    assert list(group_jobs([])) == []


async def test_answers_are_taken_when_all_calls_are_out(house: House) -> None:
    """Of two groups of calls the second one does not wait for the turns of the first one's answers."""
    house.sender.hold(URL)
    for number in range(2 * GROUP):
        await house.create(f"a{number}", qos=1)
        await house.trigger(f"a{number}")
    await house.settle()
    await house.crash()
    house.journal.clear()
    await house.start()
    await house.settle()
    assert len(house.sender.requests) == 2 * GROUP
    sends = [place for place, entry in enumerate(house.journal) if entry[0] == "send"]
    taken = [place for place, entry in enumerate(house.journal) if entry[0] == "commit"][2 * GROUP :]
    assert len(taken) == 2 * GROUP, "of each job its call's turn is written, then its answer's"
    assert sends[-1] < taken[0]


class OpenJobs(MemoryStore):
    """A store of so many open jobs, none of which has a call in flight; loading some fails with `faults`.

    Those seem to have calls, and those of `marked`.
    """

    def __init__(
        self, count: int, faults: dict[str, StoreError] | None = None, marked: Sequence[str] = ()
    ) -> None:
        super().__init__(Disk(), [])
        self.ids = [f"job{number:05}" for number in range(count)]
        self._faults = faults or {}
        self._marked = {*marked, *self._faults}

    async def open_jobs(self, after: str, limit: int, marks: Sequence[bytes]) -> list[OpenJob]:
        return [OpenJob(job_id, job_id in self._marked) for job_id in self.ids if job_id > after][:limit]

    async def load(self, job_id: str) -> StoredJob | None:
        if job_id in self._faults:
            raise self._faults[job_id]
        return None


class Woken:
    """What a recovery over `store` wakes, in order, and how many tasks there were then at most."""

    def __init__(self, store: OpenJobs) -> None:
        house = House()
        self.history = house.history
        self.ids: list[str] = []
        self.most_tasks = 0
        self.recovery = Recovery(
            store=store,
            history=house.history,
            notifications=house.host.notifications,
            wake=self._wake,
            clock=house.clock,
            log=lambda event, /, **keys: None,
        )

    async def _wake(self, job_id: str, loaded: LoadedJob | None) -> None:
        self.ids.append(job_id)
        self.most_tasks = max(self.most_tasks, len(asyncio.all_tasks()))
        await asyncio.sleep(0)


async def test_all_records_of_an_earlier_process_are_handed_over() -> None:
    """In their order, however many pages they are."""
    store = OpenJobs(0)
    left = [Batch("uid", "job", "default", number, 0, ()) for number in range(2 * PAGE + 1)]
    store.disk.unwritten.update({(one.uid, one.sequence): one for one in left})
    woken = Woken(store)
    await woken.recovery.run()
    assert woken.history.batches == [(one, True) for one in left]


async def test_jobs_that_wait_do_not_have_a_task_each() -> None:
    """Firings have begun by then: hundreds of thousands of tasks would hold the loop for seconds."""
    store = OpenJobs(2_000)
    woken = Woken(store)
    others = len(asyncio.all_tasks())
    await woken.recovery.run()
    assert woken.ids == []
    await woken.recovery.run_rest()
    assert woken.ids == store.ids
    assert woken.most_tasks <= others + WAITING_AT_ONCE


def sent_ids(house: House) -> list[str]:
    """The `webhook-id` of each notification that the present process has sent."""
    sent = [dict(one.headers).get("webhook-id") for one in house.sender.requests]
    return [one for one in sent if one is not None]


async def test_calls_in_flight_do_not_wait_for_notifications() -> None:
    """Hundreds of megabytes of these may be pending; new ones of their executions follow them."""
    told = "http://told.test/"
    house = await House().start()
    house.sender.hold(told)
    house.sender.answers(URL, 500)
    await house.create(qos=1, notification=[{"name": "all", "url": told}], retry=[{"errorEquals": "500"}])
    await house.trigger()
    await house.settle()
    assert sent_ids(house) == ["uid1-1-0-n"]
    house.sender.hold(URL)
    await house.advance(60_000)
    assert [one.url for one in house.sender.requests] == [URL, told, URL]
    await house.crash()
    house.store.deliveries_gate = asyncio.Semaphore(0)
    await house.host.start()
    assert house.host.is_ready
    await until(lambda: house.executions() == {1: State.SUCCEEDED})
    assert [one.url for one in house.sender.requests] == [URL]
    await house.create("other", notification=[{"name": "all", "url": told}])
    await house.trigger("other")
    for _ in range(9):
        house.store.deliveries_gate.release()
    await house.settle()
    sent = sent_ids(house)
    assert [one for one in sent if one.startswith("uid1-")] == [f"uid1-1-{number}-n" for number in range(3)]
    assert len(sent) == 5


async def test_notifications_are_read_again_where_the_store_was_away() -> None:
    """The service is up by then; what it could not read it reads a second later."""
    told = "http://told.test/"
    house = await House().start()
    house.sender.hold(told)
    await house.create(qos=1, notification=[{"name": "all", "url": told}])
    await house.trigger()
    await house.settle()
    await house.crash()
    house.store.deliveries_gate = asyncio.Semaphore(0)
    await house.host.start()
    house.store.is_down = True
    for _ in range(9):
        house.store.deliveries_gate.release()
    await house.settle()
    house.store.is_down = False
    assert "deliveries_not_read" in [event for event, _ in house.log]
    await house.advance(1_000)
    assert [one.url for one in house.sender.requests] == [told] * 2, house.sender.requests


async def test_a_damaged_notification_holds_nobody_back() -> None:
    """It is an error of the log; those before and behind it are sent."""
    told = "http://told.test/"
    house = await House().start()
    house.sender.hold(told)
    for number in range(2):
        await house.create(f"job-{number}", qos=1, notification=[{"name": "all", "url": told}])
        await house.trigger(f"job-{number}")
    await house.settle()
    names = sorted(house.disk.deliveries)
    await house.crash()
    house.store.damaged_deliveries = {names[0], names[2]}
    await house.start()
    damaged = [keys["delivery"] for event, keys in house.log if event == "delivery_damaged"]
    assert damaged == [names[0], names[2]]
    assert sent_ids(house) == [f"{name}-n" for name in names if name not in damaged]
    assert sorted(house.disk.deliveries) == [names[0], names[2]]
    assert await house.host.notifications.resend_outbox() == 0
    assert house.log.count(("delivery_damaged", house.log[-1][1])) == 2
    with pytest.raises(DeliveryUnreadable, match="db repair"):
        await house.host.notifications.resend(names[0])
    assert not await house.host.notifications.resend(names[1])


async def test_a_defect_in_reading_notifications_holds_nobody_back_for_ever() -> None:
    """New ones are sent, and jobs that wait are woken."""
    told = "http://told.test/"
    house = await House().start()
    await house.create("waits", qos=0)
    house.sender.hold(URL)
    await house.trigger("waits")
    await house.crash()
    house.store.deliveries_fault = ValueError("damaged by script")
    await house.start()
    assert [(event, keys["error"]) for event, keys in house.log] == [("deliveries_left", "damaged by script")]
    assert house.executions("waits") == {1: State.TERMINATED}
    await house.create(notification=[{"name": "all", "url": told, "stateEquals": "finalSucceed"}])
    await house.trigger()
    await house.settle()
    assert len(sent_ids(house)) == 1


async def test_a_stop_sends_what_was_held_back() -> None:
    """New ones without a guarantee are in memory alone; durable ones follow those before them, later."""
    told = "http://told.test/"
    house = House()
    house.store.deliveries_gate = asyncio.Semaphore(0)
    await house.host.start()
    await house.create(notification=[{"name": "all", "url": told, "stateEquals": "finalSucceed"}])
    await house.trigger()
    durable = {"name": "all", "url": told, "stateEquals": "finalSucceed", "guarantee": "outbox"}
    await house.create("durable", notification=[durable])
    await house.trigger("durable")
    await house.settle()
    assert sent_ids(house) == []
    stopping = asyncio.create_task(house.host.stop(30_000))
    await house.advance(1_000)
    assert sent_ids(house) == ["uid1-1-0-n"]
    await stopping
    house.open()
    await house.start()
    assert sent_ids(house) == ["uid2-1-0-n"]


async def test_what_is_dismissed_while_it_is_sent_stays_away() -> None:
    """Though it was not handed over yet, and its try fails."""
    told = "http://told.test/"
    house = await House().start()
    house.sender.hold(told)
    entry = {"name": "all", "url": told, "stateEquals": "finalSucceed"}
    await house.create(qos=1, notification=[entry])
    await house.trigger()
    await house.settle()
    await house.crash()
    house.store.deliveries_gate = asyncio.Semaphore(0)
    await house.host.start()
    house.sender.hold(told)
    house.sender.answers(told, 503)
    trying = asyncio.create_task(house.host.notifications.resend("uid1-1-0"))
    await house.settle()
    assert await house.host.notifications.dismiss("uid1-1-0")
    house.sender.release(told)
    await trying
    for _ in range(9):
        house.store.deliveries_gate.release()
    await house.advance(120_000)
    assert (sent_ids(house), house.disk.deliveries) == (["uid1-1-0-n"], {})


async def test_what_was_settled_by_its_id_is_not_sent_again() -> None:
    """Somebody resends or dismisses it after it was read, before all are handed over."""
    told = "http://told.test/"
    house = await House().start()
    house.sender.hold(told)
    for name in ("one", "two", "three"):
        entry = {"name": "all", "url": told, "stateEquals": "finalSucceed"}
        await house.create(name, qos=1, notification=[entry])
        await house.trigger(name)
    await house.settle()
    await house.crash()
    house.store.deliveries_gate = asyncio.Semaphore(0)
    await house.host.start()
    house.store.deliveries_gate.release()
    await house.settle()  # the first page is read
    assert await house.host.notifications.resend("uid1-1-0")
    assert await house.host.notifications.dismiss("uid2-1-0")
    house.store.deliveries_gate.release()
    await house.settle()
    assert sent_ids(house) == ["uid1-1-0-n", "uid3-1-0-n"]


async def test_a_mark_that_is_there_by_chance_wakes_nobody_early() -> None:
    """A body may have the bytes of a mark: the job is loaded early, and is one of those that wait."""
    store = OpenJobs(3, marked=["job00000"])
    woken = Woken(store)
    await woken.recovery.run()
    assert woken.ids == []
    await woken.recovery.run_rest()
    assert woken.ids == ["job00001", "job00002", "job00000"]


async def test_a_job_that_cannot_be_loaded_does_not_end_the_start() -> None:
    """It is woken with those in flight: that says what is wrong with it, and looks again later."""
    unreadable, away = StateUnreadable("damaged by script"), StoreUnavailable("busy by script")
    store = OpenJobs(4, {"job00001": unreadable, "job00002": away})
    woken = Woken(store)
    await woken.recovery.run()
    assert woken.ids == ["job00001", "job00002"]
    await woken.recovery.run_rest()
    assert woken.ids[2:] == ["job00000", "job00003"]


HOUR = 3_600_000


async def test_a_clock_that_was_set_back_before_the_start_lengthens_no_wait(house: House) -> None:
    """The same for a retry of an execution, and for that of a delivery."""
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
