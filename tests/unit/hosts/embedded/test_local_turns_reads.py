"""Reads of the store that last while turns of the job are taken (SPEC section 10)."""

import asyncio
from typing import cast

import pytest

from scheduler_service.domain.turn_events import Destroyed, Paused, Triggered
from scheduler_service.engine.decision import Job
from scheduler_service.engine.document_bytes import decode
from scheduler_service.hosts.embedded.alarms import EmbeddedAlarms
from scheduler_service.hosts.embedded.local_turns import EmbeddedTurns
from scheduler_service.hosts.host_dependencies import HostLimits
from scheduler_service.hosts.job_cache import JobCache, LoadedJob
from scheduler_service.hosts.work_thread import ANY_BYTES, ROOM_BYTES
from scheduler_service.language.json_values import LARGE_BYTES
from scheduler_service.ports.delivery import Command
from tests.unit.hosts.house import House
from tests.unit.hosts.turn_rig import Bench, JournalAlarms

pytestmark = pytest.mark.anyio
TRIGGERED, DESTROYED = Command(Triggered()), Command(Destroyed())
LARGE = Command(Triggered(params=b'"%s"' % (b"x" * LARGE_BYTES)))
MANY = [f"job-{number}" for number in range(3 * ROOM_BYTES // ANY_BYTES)]


class Race:
    """A read of the job `job` and a turn, both of which read the store at first."""

    def __init__(self, house: House) -> None:
        self.house = house
        self._for_turn, self._for_reader = asyncio.Event(), asyncio.Event()

    async def begin(self, *commands: Command) -> None:
        """The first turn and the reader have read the store, and have not heard what it has."""
        house = self.house
        house.store.load_gates += [self._for_turn, self._for_reader]
        self.turns = [asyncio.create_task(house.host("job", command)) for command in commands]
        await house.settle()
        self.asked = asyncio.create_task(house.host.read("job"))
        await house.settle()
        assert not house.store.load_gates

    async def go_on(self) -> None:
        """The turn hears it."""
        self._for_turn.set()
        await self.house.settle()

    async def end(self) -> Job | None:
        """The reader hears it; what it says."""
        self._for_reader.set()
        await self.house.settle()
        assert self.asked.done(), "it waits for no turn"
        return await self.asked


async def open_race(*others: str, **limits: int) -> Race:
    """A job whose executions wait for each other, and `others`, after a start: none is in memory."""
    house = await House(limits=HostLimits(**limits)).start()
    for name in ("job", *others):
        await house.create(name, overlapPolicy="queue", qos=1)
    await house.crash()
    return Race(await house.start())


async def test_what_was_answered_meanwhile_is_shown() -> None:
    """What memory has then is newer than what the store gave; the turns in line are not waited for."""
    race = await open_race()
    await race.begin(TRIGGERED, TRIGGERED)
    store = race.house.store
    store.hold()
    await race.go_on()
    store.release()
    store.hold()
    await race.turns[0]
    found = await race.end()
    assert found is not None
    assert found.document is not None
    assert found.document.head.execute_number == 1
    store.release()
    await asyncio.gather(*race.turns)


@pytest.mark.parametrize("is_back", [False, True])
async def test_a_job_that_was_destroyed_meanwhile_is_not_shown(is_back: bool) -> None:
    """Though memory has nothing of it then, as before; one that was created since is read in memory."""
    race = await open_race()
    await race.begin(DESTROYED)
    await race.go_on()
    await race.turns[0]
    if is_back:
        await race.house.create()
    loads = race.house.store.loads
    found = await race.end()
    assert (found is not None) == is_back
    assert race.house.store.loads == loads + (not is_back)


async def test_a_job_that_was_destroyed_while_many_wait_in_line_is_not_shown() -> None:
    """Though its next turn is one of them, and has nothing of it in memory either."""
    race = await open_race(*MANY)
    house = race.house
    house.store.hold()
    crowd = [asyncio.create_task(house.host(name, LARGE)) for name in MANY]
    await house.settle()
    await race.begin(DESTROYED, LARGE)
    await race.go_on()
    house.store.release()
    house.store.hold()
    await race.turns[0]
    assert await race.end() is None
    assert not race.turns[1].done()
    house.store.release()
    await asyncio.gather(*race.turns, *crowd)
    while house.host.running:
        await house.settle()


async def test_a_job_that_left_memory_and_was_destroyed_meanwhile_is_not_shown() -> None:
    """What memory had of it when it left is older than its end."""
    race = await open_race(hot=1)
    await race.begin(Command(Paused()))
    await race.go_on()
    await race.turns[0]
    await race.house.create("other")
    assert race.house.host.peek("job") is None, "it has left memory"
    await race.house.host("job", DESTROYED)
    assert await race.end() is None


async def test_a_job_that_was_created_meanwhile_is_shown() -> None:
    """Where the store had nothing of it when it was asked."""
    house = await House().start()
    race = Race(house)
    await race.begin(Command(Paused()))
    await race.go_on()
    await house.create()
    assert await race.end() is not None


async def test_what_was_loaded_before_does_not_come_back() -> None:
    """A caller's copy of the job is older than what was answered while the store was asked."""
    before = Bench()
    await before.create()
    stored = before.disk.jobs["job"]
    loaded = LoadedJob(stored, decode(stored.document or b""))
    bench = Bench(before.disk, boot=2)
    turns = EmbeddedTurns(
        jobs=JobCache(most=10, most_bytes=1 << 20, open_bytes=bench.open_bytes),
        turn=bench.turn,
        alarms=cast(EmbeddedAlarms, JournalAlarms(bench.journal)),
        history=bench.history,
        clock=bench.clock,
        log=lambda event, /, **keys: None,
    )
    gates = [asyncio.Event(), asyncio.Event()]
    bench.store.load_gates += gates
    turn = asyncio.create_task(turns.take("job", DESTROYED))
    await asyncio.sleep(0)
    asked = asyncio.create_task(turns.read("job", loaded))
    await asyncio.sleep(0)
    gates[0].set()
    await turn
    gates[1].set()
    assert await asked is None
    assert await turns.read("job") is None
