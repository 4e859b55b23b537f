"""Many creations at once: each a turn of its own, one group of writes (SPEC section 10)."""

import asyncio
import threading
import time
from collections import Counter
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.moments import Now
from scheduler_service.domain.replies import Refusal, Reply, Taken, Unchanged
from scheduler_service.domain.turn_events import Created, Destroyed, Event, Paused
from scheduler_service.engine.decide import decide
from scheduler_service.engine.decision import Decision, Job
from scheduler_service.hosts.creation import GROUP_BYTES
from scheduler_service.language.json_values import LARGE_BYTES
from scheduler_service.pacing.slices import SLICE_ITEMS, SLICE_SECONDS
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from tests.unit.hosts.house import CORE, House, describe, until
from tests.unit.hosts.memory_store import Fate

pytestmark = pytest.mark.anyio


def definitions(*job_ids: str, **members: Any) -> list[Definition]:
    """One each."""
    return [describe(jobId=job_id, **members) for job_id in job_ids]


async def create(house: House, *job_ids: str, **members: Any) -> list[Reply | StoreError]:
    """Creates them at once."""
    return list(await house.host.create_all(definitions(*job_ids, **members), ""))


async def test_large_jobs_are_written_in_several_groups(house: House) -> None:
    """Firings that are due meanwhile are written between two; usual jobs are one group, however many."""
    half = "x" * (GROUP_BYTES * 2 // 5)
    assert await create(house, "a", "b", "c", "d", "e", jobDescription=half) == [Taken()] * 5
    assert (house.store.groups, house.store.loads) == ([2, 2, 1], 0)
    assert sorted(house.disk.jobs) == ["a", "b", "c", "d", "e"]
    assert await create(house, *map(str, range(1_000))) == [Taken()] * 1_000
    assert house.store.groups == [2, 2, 1, 1_000]
    usual = [house.disk.jobs[str(number)] for number in range(1_000)]
    assert sum([len(job.document or b"") for job in usual]) > GROUP_BYTES


async def test_no_text_is_weighed_once_all_are_written(house: House) -> None:
    """The answers of a group come at one moment: what takes long has to be over by then."""
    written: list[int] = []

    class Text(bytes):
        def translate(self, *found: Any) -> bytes:
            written.append(len(house.store.groups))
            return super().translate(*found)

    declared = [msgspec.structs.replace(one, text=Text(one.text)) for one in definitions("a", "b", "c")]
    assert await house.host.create_all(declared, "") == [Taken()] * 3
    assert house.store.groups == [3]
    assert written
    assert set(written) == {0}


async def test_a_group_that_fails_fails_alone(house: House) -> None:
    """What was written before it stays, and is answered so; what comes after it is tried."""
    house.store.fates += [Fate.WRITTEN, Fate.REFUSED, Fate.WRITTEN]
    found = await create(house, "a", "b", "c", jobDescription="x" * GROUP_BYTES)
    assert house.store.groups == [1, 1, 1]
    assert [found[0], found[2]] == [Taken(), Taken()]
    assert isinstance(found[1], StoreUnavailable)
    assert sorted(house.disk.jobs) == ["a", "c"]


async def test_a_crash_between_two_groups_keeps_the_first(house: House) -> None:
    """The array, sent again, finds what was written, and creates the rest: at least once, and none twice."""
    house.store.hold()
    large = "x" * GROUP_BYTES
    creating = asyncio.create_task(create(house, "a", "b", "c", jobDescription=large))
    await house.settle()
    house.store.release()
    house.store.hold()
    await house.settle()
    assert house.store.groups == [1, 1]
    assert not creating.done()
    creating.cancel()
    await house.crash()
    assert sorted(house.disk.jobs) == ["a"]
    uid = house.disk.jobs["a"].entry.uid
    await house.start()
    again = await create(house, "a", "b", "c", jobDescription=large)
    assert again == [Unchanged(), Taken(), Taken()]
    assert house.disk.jobs["a"].entry.uid == uid


async def test_an_array_of_a_service_has_its_owner(house: House) -> None:
    """Those that are new, and one that is in memory already as the remains of an earlier life."""
    await create(house, "a")
    await house.deliver(Destroyed(), "a")
    declared = definitions("a", "b", request=[{"url": "service:/run"}])
    assert await house.host.create_all(declared, "billing") == [Taken(), Taken()]
    assert [await owner_of(house, job_id) for job_id in ("a", "b")] == ["billing"] * 2


async def owner_of(house: House, job_id: str) -> str:
    """Which service the job belongs to."""
    job = await house.host.read(job_id)
    assert job is not None
    assert job.document is not None
    return job.document.head.owner


async def test_what_takes_long_to_render_is_decided_beside_the_loop() -> None:
    """A job that fires as soon as it is created: its large body is no reason for others to be late."""
    deciding: dict[str, set[int]] = {}

    def note(job: Job, event: Event, now: Now) -> Decision:
        decision = decide(job, event, now)
        if isinstance(event, Created):
            (program,) = job.programs.values()
            deciding.setdefault(program.job_id, set()).add(threading.get_ident())
        return decision

    house = await House(core=msgspec.structs.replace(CORE, decide=note)).start()
    body = ["${jobId}", *range(LARGE_BYTES // 2)]
    large = definitions("large", timer={"dueTime": "0s"}, request=[{"url": "http://t.test/", "body": body}])
    replies = await house.host.create_all([*large, *definitions("small")], "")
    assert list(replies) == [Taken(), Taken()]
    await until(lambda: house.executions("large") == {1: ExecutionState.SUCCEEDED})
    assert deciding["small"] == {threading.get_ident()}
    assert threading.get_ident() not in deciding["large"]


async def test_the_same_twice_is_taken_once(house: House) -> None:
    """A repetition within the array comes after the first, as two requests would."""
    again = [*definitions("a", "b"), *definitions("a"), *definitions("b", maxRetries=9)]
    replies = await house.host.create_all(again, "")
    assert replies[:3] == [Taken(), Taken(), Unchanged()]
    assert isinstance(replies[3], Refusal)


async def test_one_that_fails_fails_alone(house: House) -> None:
    """What the store says of one job is that job's answer; nothing of it was done."""
    house.store.fates.extend([Fate.WRITTEN, Fate.REFUSED, Fate.WRITTEN])
    first, second, third = await create(house, "a", "b", "c")
    assert (first, third) == (Taken(), Taken())
    assert isinstance(second, StoreUnavailable)
    assert sorted(house.disk.jobs) == ["a", "c"]
    assert await create(house, "b") == [Taken()]


async def test_in_doubt_the_store_is_asked(house: House) -> None:
    """Where it is not known whether a job was written, the next turn finds out."""
    house.store.fates.extend([Fate.SILENT, Fate.VANISHED])
    replies = await create(house, "a", "b")
    assert all(isinstance(reply, StoreUncertain) for reply in replies)
    assert await create(house, "a", "b") == [Unchanged(), Taken()]


async def test_an_event_waits_for_the_creation(house: House) -> None:
    """The job is locked until its commit has a result. A creation that has begun is taken to its end."""
    house.store.hold()
    creating = asyncio.create_task(create(house, "a"))
    await house.settle()
    asking = asyncio.create_task(house.create("a"))
    await house.settle()
    assert not asking.done()
    house.store.release()
    assert await creating == [Taken()]
    assert await asking == Unchanged()
    house.store.hold()
    creating = asyncio.create_task(create(house, "a"))
    await house.settle()
    creating.cancel()
    house.store.release()
    await house.settle()
    assert "a" in house.disk.jobs


async def test_a_node_that_stops_creates_nothing(house: House) -> None:
    """On SIGTERM nothing is started any more (SPEC section 14)."""
    await house.host.stop(0)
    assert all(isinstance(reply, StoreUnavailable) for reply in await create(house, "a"))


async def test_a_job_is_free_when_its_own_turn_is_settled() -> None:
    """Two hundred that are paused meanwhile are not all paused in one round of the loop."""
    job_ids = [f"job-{number}" for number in range(200)]
    rounds: Counter[int] = Counter()
    now_round = 0

    def note(job: Job, event: Event, now: Now) -> Decision:
        if isinstance(event, Paused):
            rounds[now_round] += 1
        return decide(job, event, now)

    house = await House(core=msgspec.structs.replace(CORE, decide=note)).start()
    house.store.hold()
    creating = asyncio.ensure_future(create(house, *job_ids))
    await until(lambda: len(house.journal) >= 200)
    pausing = asyncio.gather(*(house.deliver(Paused(), job_id) for job_id in job_ids))
    await asyncio.sleep(0)
    house.store.release()
    while not pausing.done():
        await asyncio.sleep(0)
        now_round += 1
    assert len(await creating) == rounds.total() == 200
    assert max(rounds.values()) <= SLICE_ITEMS


async def test_creations_one_by_one_do_not_wait_for_each_other(house: House) -> None:
    """The store takes longer than a slice may: that is no time of the loop, and all end in a few rounds."""
    house.store.hold()
    born = Created(uid="", key=b"")
    creating = [
        asyncio.ensure_future(house.host(name, Command(born, definition=describe(jobId=name))))
        for name in (f"job-{number}" for number in range(40))
    ]
    await until(lambda: len(house.order("commit")) == len(creating))
    asked = time.perf_counter()
    while time.perf_counter() - asked <= SLICE_SECONDS:
        pass
    house.store.release()
    rounds = 0
    while not all(one.done() for one in creating):
        await asyncio.sleep(0)
        rounds += 1
    assert rounds < len(creating) / 2
