"""What the Redis store promises when processes die, servers stop and answers are lost (SPEC section 8)."""

import asyncio
import signal
import subprocess
from typing import Any

import pytest
import uvloop

from scheduler_service.persistence.redis.connection import ServerConnection
from scheduler_service.persistence.redis.errors import LeaseLost, Unanswered
from scheduler_service.ports.catalogue import JobQuery
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from tests.redis_server import RedisServer
from tests.unit.persistence.crashing import answered, start
from tests.unit.persistence.redis.opening import Ear, open_at, until
from tests.unit.persistence.samples import commit

pytestmark = pytest.mark.anyio


async def check_whole(server: RedisServer, least: int, most: int) -> None:
    """The store holds `least` to `most` turns, each with all of its parts and nothing of a further one."""
    store = await open_at(server)
    stored = await store.load("job")
    turns = stored.sequence if stored is not None else 0
    assert least <= turns <= most
    assert [item.sequence for item in await store.unwritten(("", 0), 20_000)] == list(range(1, turns + 1))
    assert len(await store.deliveries("", 20_000)) == turns
    assert len(await store.catalogue.revisions("uid-job", limit=20_000)) == turns
    assert await store.due_wall(100_000, 10) == ([(turns - 1, "job")] if turns else [])
    await store.close()


def last_words(child: "subprocess.Popen[str]") -> list[str]:
    """The rest of what a process that dies has said: `communicate` would miss what was read ahead."""
    assert child.stdout is not None
    lines = child.stdout.read().splitlines()
    child.stdout.close()
    child.wait()
    return lines


@pytest.mark.parametrize("passage", range(7, 13))
async def test_a_kill_at_each_point_leaves_whole_turns(redis: RedisServer, passage: int) -> None:
    """Killed before or after each point of the second turn, whole turns are left to the next start."""
    child = start("turns", redis.url, passage, 5)
    lines = child.communicate()[0].splitlines()
    assert child.returncode == -signal.SIGKILL
    assert answered(lines) == 1
    is_committed = passage == 12
    await check_whole(redis, least=1 + is_committed, most=1 + is_committed)


async def test_a_killed_process_loses_nothing_that_was_answered(redis: RedisServer) -> None:
    """After kill -9 at any moment every answered turn is there, whole."""
    child = start("turns", redis.url, 0, 10_000)
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(50)]
    child.kill()
    lines += last_words(child)
    await check_whole(redis, least=answered(lines), most=answered(lines) + 1)


async def test_a_killed_server_loses_nothing_that_was_answered(server: RedisServer) -> None:
    """With `appendfsync always`: a turn is in the log before its answer is sent."""
    child = start("turns", server.url, 0, 100_000)
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(50)]
    server.kill()
    lines += last_words(child)
    assert lines[-1].startswith(("StoreUncertain", "StoreUnavailable"))
    server.start()
    await check_whole(server, least=answered(lines), most=answered(lines) + 1)


async def test_a_server_that_comes_back_is_gone_on_with(server: RedisServer) -> None:
    """While it is away writes and reads say so; then they go on, by the same process, over the same lease."""
    ear = Ear()
    store = await open_at(server, hooks=ear.hooks)
    await store.commit(commit())
    server.kill()
    with pytest.raises(StoreUncertain):
        await store.commit(commit("lost"))
    with pytest.raises(StoreUnavailable):
        await store.commit(commit("lost"))
    with pytest.raises(StoreUnavailable):
        await store.load("job")
    with pytest.raises(StoreUnavailable):
        await store.catalogue.get("job")
    server.start()
    stored = await store.load("job")
    assert stored is not None
    assert stored.sequence == 1
    await store.commit(commit(expected=1))
    await store.close()
    assert not ear.lost


async def test_who_gives_up_leaves_no_connection_behind(redis: RedisServer) -> None:
    """Cancelled while the connection is made, or while an answer is awaited."""
    connection = ServerConnection(address=redis.address)
    for command in ("PING", "ECHO"):
        redis.freeze()
        calling = asyncio.create_task(connection.call(command, "hello"))
        await asyncio.wait({calling}, timeout=0.1)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        redis.wake()
        assert await connection.call("ECHO", "an answer of its own") == b"an answer of its own"
    with redis.client as client:
        await until(lambda: client.info("clients")["connected_clients"] == 2)
    await connection.close()


def test_a_connection_that_uvloop_has_closed_is_a_lost_one(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service runs on uvloop, whose closed transports raise errors of their own."""
    opened: list[asyncio.StreamWriter] = []
    connect = asyncio.open_connection

    async def open_connection(*args: Any, **options: Any) -> Any:
        streams = await connect(*args, **options)
        opened.append(streams[1])
        return streams

    monkeypatch.setattr(asyncio, "open_connection", open_connection)

    async def lose_a_connection() -> bytes:
        connection = ServerConnection(address=redis.address)
        await connection.call("PING")
        opened[0].transport.abort()
        await asyncio.sleep(0.05)
        with pytest.raises(Unanswered):
            await connection.call("PING")
        answer: bytes = await connection.call("PING")
        await connection.close()
        return answer

    assert uvloop.run(lose_a_connection()) == b"PONG"


async def test_a_server_that_lost_what_it_confirmed_ends_the_process(redis: RedisServer) -> None:
    """An older copy of its files: what memory knows of the jobs is not written over it."""
    ear = Ear()
    store = await open_at(redis, hooks=ear.hooks)
    for number in range(3):
        await store.commit(commit(expected=number))
    with redis.client as client:
        client.hincrby("punctual:meta", "writes", -2)
        client.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(StoreError):
        await store.commit(commit(expected=3))
    with pytest.raises(LeaseLost, match="without the last 2 of the groups"):
        await store.commit(commit(expected=3))
    assert len(ear.lost) == 1
    await store.close()


async def test_a_server_that_is_a_replica_for_a_while_is_asked_what_it_has(redis: RedisServer) -> None:
    """Nothing is written to it; a master again, it may have lost what it had confirmed."""
    store = await open_at(redis)
    await store.commit(commit())
    with redis.client as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        try:
            with pytest.raises(StoreUnavailable, match="read only"):
                await store.commit(commit(expected=1))
        finally:
            client.execute_command("REPLICAOF", "NO", "ONE")
        await store.commit(commit(expected=1))
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(StoreUnavailable, match="read only"):
            await store.commit(commit(expected=2))
        client.execute_command("REPLICAOF", "NO", "ONE")
        client.hincrby("punctual:meta", "writes", -1)
    with pytest.raises(LeaseLost, match="without the last 1 of the groups"):
        await store.commit(commit(expected=2))
    await store.close()


async def test_a_full_server_refuses_the_group_and_goes_on_with_room(redis: RedisServer) -> None:
    """Without memory nothing is written, and each write says so; with room it goes on."""
    store = await open_at(redis)
    await store.commit(commit())
    with redis.client as client:
        client.config_set("maxmemory", 1)
        try:
            for answer in [store.commit(commit("a")), store.commit(commit(expected=1))]:
                with pytest.raises(StoreUnavailable, match="maxmemory"):
                    await answer
        finally:
            client.config_set("maxmemory", 0)
        assert client.hget("punctual:meta", "writes") == b"1"
    assert await store.load("a") is None
    await store.commit(commit("a"))
    await store.close()


async def test_scripts_that_were_flushed_are_sent_again(redis: RedisServer) -> None:
    """Whoever flushes them costs nothing."""
    store = await open_at(redis)
    await store.commit(commit())
    with redis.client as client:
        client.script_flush()
    await store.commit(commit(expected=1))
    with redis.client as client:
        client.script_flush()
    assert len((await store.catalogue.list(JobQuery())).items) == 1
    assert await store.deliveries("", 10) == []
    await store.close()


async def test_a_server_that_stands_still_is_left(redis: RedisServer) -> None:
    """What waits for it ends, the end of the store too, however long an answer may take."""
    store = await open_at(redis, timeout=3600.0)
    await store.commit(commit())
    redis.freeze()
    try:
        work = [asyncio.ensure_future(one) for one in (store.commit(commit(expected=1)), store.load("job"))]
        work.append(asyncio.ensure_future(store.catalogue.list(JobQuery())))
        await asyncio.wait(work, timeout=0.1)
        store.leave()
        store.leave()  # a second time has nothing to do
        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(*work, return_exceptions=True)
            await store.close()
    finally:
        redis.wake()
    assert [type(outcome) for outcome in outcomes] == [StoreUncertain, StoreUnavailable, StoreUnavailable]
