"""What the Redis store promises beyond the port: its lease, its fence, and what it asks of the server."""

import asyncio
import os
import signal
from pathlib import Path

import msgspec
import pytest

from scheduler_service.persistence.redis.address import Address, read_address
from scheduler_service.persistence.redis.connection import ServerConnection
from scheduler_service.persistence.redis.errors import LeaseLost, ServerUnfit
from scheduler_service.persistence.redis.lease import (
    Claimant,
    LeaseKeeper,
    is_dead,
    take_lease,
    this_process,
)
from scheduler_service.persistence.redis.server import Server, check
from scheduler_service.persistence.redis.store import RedisStateStore
from scheduler_service.ports.errors import StoreLocked, StoreTooNew, StoreUnavailable
from tests.redis_server import RedisServer
from tests.unit.persistence.crashing import start
from tests.unit.persistence.redis.opening import Ear, open_at, until
from tests.unit.persistence.samples import commit

pytestmark = pytest.mark.anyio
FAR = Claimant(77, "elsewhere", "another machine", "pid:[1]", "5")


def key(name: str) -> str:
    return f"punctual:{name}"


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


async def test_an_emptied_server_is_no_store_any_more(redis: RedisServer) -> None:
    """What memory knows of the jobs must not be written into nothing."""
    ear = Ear()
    store = await open_at(redis, hooks=ear.hooks)
    await store.commit(commit())
    with redis.client as client:
        client.flushall()
    with pytest.raises(LeaseLost, match="emptied"):
        await store.commit(commit(expected=1))
    assert len(ear.lost) == 1
    await store.close()
    with redis.client as client:
        assert client.dbsize() == 0


async def test_starts_are_counted_and_the_name_is_kept(redis: RedisServer) -> None:
    """`boot` grows with each opening; the node keeps its name unless it is given another one."""
    names = []
    for boot in (1, 2, 3):
        store = await open_at(redis, node_id="given" if boot == 3 else "")
        assert store.boot == boot
        names.append(store.node_id)
        await store.close()
    assert names[0] == names[1] != names[2] == "given"
    store = await open_at(redis)
    assert (store.boot, store.node_id) == (4, "given")
    await store.close()


async def test_a_newer_format_is_refused(redis: RedisServer) -> None:
    """A store of a newer program is left alone."""
    with redis.client as client:
        client.hset(key("meta"), "format", 9)
    with pytest.raises(StoreTooNew, match="format 9"):
        await open_at(redis)
    with redis.client as client:
        assert client.hgetall(key("meta")) == {b"format": b"9"}


async def test_databases_of_one_server_are_stores_of_their_own(redis: RedisServer) -> None:
    """Two services may share a server, never a database."""
    first = await open_at(redis)
    other = msgspec.structs.replace(redis.address, database=1)
    second = await RedisStateStore.open(address=other, durability="process")
    await first.commit(commit())
    assert await second.load("job") is None
    await first.close()
    await second.close()


async def test_a_group_may_be_of_any_size(redis: RedisServer) -> None:
    """Large definitions and many writes are cut into groups that do not hold the server up."""
    store = await open_at(redis, size=7)
    text = b"x" * 900_000
    verdicts = await store.commit_all([commit(f"job-{n}", definition=text) for n in range(30)])
    assert verdicts == [None] * 30
    assert await store.definition("uid-job-29", 1) == text
    assert len(await store.due_wall(10, 10)) == 0
    await store.close()


async def test_a_waiter_that_gives_up_leaves_its_write(redis: RedisServer) -> None:
    """Cancelling one waiter for a commit, or for a load, does not affect the others."""
    store = await open_at(redis)
    first, second = store.commit(commit("a")), store.commit(commit("b"))
    asyncio.ensure_future(first).cancel()
    loads = [asyncio.ensure_future(store.load("a")) for _ in range(2)]
    await asyncio.sleep(0)
    loads[0].cancel()
    await second
    await loads[1]
    assert await store.load("a") is not None
    await store.close()


FIT = Server(
    "7.0.15", "master", is_cluster=False, is_loading=False, appends=True, evicts="noeviction", syncs="always"
)


@pytest.mark.parametrize(
    ("changes", "durability", "said"),
    [
        ({"version": "6.2.14"}, "process", "7.0 or later"),
        ({"role": "slave"}, "process", "name the master"),
        ({"is_cluster": True}, "process", "Redis Cluster"),
        ({"is_loading": True}, "process", "loading"),
        ({"evicts": "allkeys-lru"}, "process", "set noeviction"),
        ({"appends": False}, "process", "set appendonly yes"),
        ({"appends": False}, "full", "set appendonly yes"),
        ({"syncs": "everysec"}, "full", 'appendfsync always, or store.durability = "process"'),
        ({"syncs": "no"}, "full", "appendfsync no"),
    ],
)
def test_a_server_that_would_lose_jobs_is_refused(
    changes: dict[str, object], durability: str, said: str
) -> None:
    """With what to set; `full` promises what `appendfsync always` alone keeps (SPEC section 8)."""
    with pytest.raises(ServerUnfit, match=said):
        check(msgspec.structs.replace(FIT, **changes), place="redis://h:1/0", durability=durability)


@pytest.mark.parametrize(
    ("syncs", "durability", "said"),
    [
        ("always", "full", None),
        ("always", "process", None),
        ("no", "process", None),
        ("everysec", "process", "two seconds"),
        (None, "process", None),
        (None, "full", "does not say"),
    ],
)
def test_a_server_that_keeps_what_was_asked_is_taken(
    syncs: str | None, durability: str, said: str | None
) -> None:
    """What it may lose all the same, or does not say, is a warning."""
    doubt = check(msgspec.structs.replace(FIT, syncs=syncs), place="redis://h:1/0", durability=durability)
    assert (doubt is None) if said is None else said in str(doubt)


async def test_real_servers_are_asked(tmp_path: Path) -> None:
    """One that keeps nothing, one that may lose a second, one that syncs, and one that evicts."""
    server = RedisServer(tmp_path)
    try:
        server.start("--appendonly", "no")
        with pytest.raises(ServerUnfit, match="appendonly no"):
            await open_at(server)
        server.kill()
        server.start("--appendonly", "yes", "--appendfsync", "everysec")
        with pytest.raises(ServerUnfit, match="appendfsync everysec"):
            await RedisStateStore.open(address=server.address)
        with server.client as client:
            client.config_set("appendfsync", "always")
            store = await RedisStateStore.open(address=server.address)
            await store.commit(commit())
            await store.close()
            client.config_set("maxmemory-policy", "allkeys-lru")
            client.config_set("maxmemory", "100mb")
        with pytest.raises(ServerUnfit, match="allkeys-lru"):
            await RedisStateStore.open(address=server.address)
    finally:
        server.kill()


async def test_a_server_without_config_is_doubted(tmp_path: Path) -> None:
    """Hosted servers often refuse CONFIG: what is unknown is a warning."""
    server = RedisServer(tmp_path).start("--appendonly", "yes", "--rename-command", "CONFIG", "")
    ear = Ear()
    try:
        store = await RedisStateStore.open(address=server.address, hooks=ear.hooks)
        await store.close()
    finally:
        server.kill()
    assert len(ear.doubts) == 1


async def test_the_password_is_used_and_never_told(tmp_path: Path) -> None:
    """A wrong one is refused without being shown."""
    server = RedisServer(tmp_path).start("--appendonly", "yes")
    try:
        with server.client as client:
            client.config_set("requirepass", "right/word")
        place = f"127.0.0.1:{server.port}/0"
        with pytest.raises(StoreUnavailable) as refused:
            await RedisStateStore.open(address=read_address(f"redis://:secret@{place}"), durability="process")
        assert "secret" not in str(refused.value)
        with pytest.raises(StoreUnavailable, match="Authentication required"):
            await RedisStateStore.open(address=read_address(f"redis://{place}"), durability="process")
        right = read_address(f"redis://default:right%2Fword@{place}")
        await (await RedisStateStore.open(address=right, durability="process")).close()
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://h", Address("h", 6379, 0, is_encrypted=False)),
        ("rediss://h:1/3", Address("h", 1, 3, is_encrypted=True)),
        ("redis://:p%40@[::1]:2", Address("::1", 2, 0, is_encrypted=False, password="p@")),
        ("redis://u:p@h/1", Address("h", 6379, 1, is_encrypted=False, user="u", password="p")),
    ],
)
def test_addresses_are_read(url: str, address: Address) -> None:
    """Host, port, database, user and password; shown without the last two."""
    assert read_address(url) == address
    assert "p@" not in str(address)
    assert "u:" not in repr(address)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "redis://",
        "http://h",
        "redis://h/x",
        "redis://h:0",
        "redis://h:x",
        "redis://:secret@h?db=1",
        "redis://h#f",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    """With how it is written, and without what was written: it may hold a password."""
    with pytest.raises(ValueError, match=r"redis://\[USER:PASSWORD@\]HOST") as refused:
        read_address(url)
    assert "secret" not in str(refused.value)
