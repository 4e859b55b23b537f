"""The lease on a store: taken, kept, lost and given back."""

import asyncio
import os
import signal
from typing import Any

import msgspec
import pytest

from scheduler_service.persistence.redis.connection import ServerConnection
from scheduler_service.persistence.redis.errors import LeaseLost
from scheduler_service.persistence.redis.lease import Claimant, LeaseKeeper, is_dead, take_lease, this_process
from scheduler_service.ports.errors import StoreLocked
from tests.redis_server import RedisServer
from tests.unit.persistence.crashing import start
from tests.unit.persistence.redis.opening import Ear, key, open_at, until
from tests.unit.persistence.samples import commit

pytestmark = pytest.mark.anyio
FAR = Claimant(77, "elsewhere", "another machine", "pid:[1]", "5")


async def test_a_second_process_is_refused(redis: RedisServer) -> None:
    """It names the store and the process that has it; the first one goes on."""
    child = start("turns", redis.url, 0, 100_000)
    assert child.stdout is not None
    child.stdout.readline()
    with pytest.raises(StoreLocked) as refused:
        await open_at(redis)
    assert f"process {child.pid} on" in str(refused.value)
    assert redis.url in str(refused.value)
    assert "Stop that service first" in str(refused.value)
    child.kill()
    child.communicate()
    store = await open_at(redis)  # a holder that is dead for certain is not waited for
    with pytest.raises(StoreLocked, match=f"process {os.getpid()} "):
        await open_at(redis)
    await store.close()
    await (await open_at(redis)).close()


async def test_a_frozen_holder_writes_nothing_when_it_wakes(redis: RedisServer) -> None:
    """Its lease ends, another one takes the store; awake again it is refused by the fence, and says so."""
    child = start("turns", redis.url, 0, 100_000)
    assert child.stdout is not None
    while child.stdout.readline().strip() != "20":
        pass
    child.send_signal(signal.SIGSTOP)
    with redis.client as client:
        await until(lambda: not client.exists(key("lease")))
    store = await open_at(redis)
    before = await store.load("job")
    child.send_signal(signal.SIGCONT)
    *_, last = child.communicate(timeout=20)[0].splitlines()
    assert last.startswith("LeaseLost: ")
    assert f"process {os.getpid()} on" in last
    assert await store.load("job") == before
    await store.commit(commit("mine"))
    await store.close()


async def test_a_holder_that_is_out_of_sight_is_waited_for(redis: RedisServer) -> None:
    """Where this machine cannot see whether it is dead, its lease must expire first; then the store opens."""
    with redis.client as client:
        client.set(key("lease"), msgspec.json.encode(FAR), px=700)
    began = asyncio.get_running_loop().time()
    store = await open_at(redis)
    assert asyncio.get_running_loop().time() - began > 0.5
    await store.close()


async def test_a_holder_that_is_out_of_sight_and_alive_refuses(redis: RedisServer) -> None:
    """A lease that is renewed while a start waits for it belongs to a living process."""

    async def renew() -> None:
        with redis.client as client:
            for beat in range(1_000):
                lease = msgspec.json.encode(msgspec.structs.replace(FAR, beat=beat))
                client.set(key("lease"), lease, px=4_000)
                await asyncio.sleep(0.1)

    renewing = asyncio.create_task(renew())
    with pytest.raises(StoreLocked, match="process 77 on elsewhere"):
        await open_at(redis)
    renewing.cancel()


def test_a_process_is_known_by_more_than_its_number() -> None:
    """Another process of the same number is not the holder; one elsewhere cannot be judged."""
    me = this_process()
    assert not is_dead(me)
    assert is_dead(msgspec.structs.replace(me, began="1"))
    assert is_dead(msgspec.structs.replace(me, pid=2**22 + 1))
    assert not is_dead(msgspec.structs.replace(me, machine="other", pid=2**22 + 1))
    assert not is_dead(msgspec.structs.replace(me, space="pid:[1]", pid=2**22 + 1))


async def test_who_lost_the_store_says_so_once(redis: RedisServer) -> None:
    """The renewal finds it out where nothing is written; every write is refused from then on."""
    ear = Ear()
    store = await open_at(redis, hooks=ear.hooks)
    with redis.client as client:
        client.hincrby(key("meta"), "boot", 1)
        client.set(key("lease"), msgspec.json.encode(FAR))
    await ear.hears(ear.lost)
    for _ in range(2):
        with pytest.raises(LeaseLost, match="process 77 on elsewhere"):
            await store.commit(commit())
    assert len(ear.lost) == 1
    with redis.client as client:
        assert not client.exists(key("jobs"))
        await store.close()
        assert client.exists(key("lease"))


class BrokenConnection(ServerConnection):
    """Has a defect in the first renewal."""

    asked = 0

    async def run(self, name: str, *given: Any) -> Any:
        """Divides by zero once."""
        self.asked += 1
        if self.asked == 1:
            raise ZeroDivisionError("a defect")
        return await super().run(name, *given)


async def test_a_defect_ends_no_lease(redis: RedisServer) -> None:
    """It is told as the trouble of a server is, and the next renewal is as any other."""
    wire = ServerConnection(address=redis.address)
    taken = await take_lease(wire, place="here", node_id="")
    await wire.close()
    told: list[str | None] = []
    well = asyncio.Event()

    def tell(trouble: str | None) -> None:
        told.append(trouble)
        if trouble is None:
            well.set()

    keeper = LeaseKeeper(
        connection=BrokenConnection(address=redis.address),
        boot=taken.boot,
        on_lost=print,
        on_trouble=tell,
        pause=0,
    )
    async with asyncio.timeout(10):
        await well.wait()
        await keeper.give_back()
    assert told == ["ZeroDivisionError: a defect", None]


async def test_a_lease_is_given_back_at_any_moment(redis: RedisServer) -> None:
    """In the midst of a renewal too; it ends, and another process may have the store at once."""
    wire = ServerConnection(address=redis.address)
    taken = await take_lease(wire, place="here", node_id="")
    await wire.close()
    for moment in range(60):
        keeper = LeaseKeeper(
            connection=ServerConnection(address=redis.address),
            boot=taken.boot,
            on_lost=print,
            on_trouble=print,
            pause=0,
        )
        for _ in range(moment):
            await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await keeper.give_back()
        with redis.client as client:
            assert not client.exists(key("lease"))
