"""Contexts in Redis: servers that die, stand still, refuse, or say too much; and what they are warned of."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from scheduler_service.persistence.contexts.redis import (
    RedisContexts,
    RedisReport,
    find_doubts,
    find_fault,
    key_of,
)
from scheduler_service.persistence.contexts.redis_address import Address, read_address
from scheduler_service.ports.errors import StoreRefused, StoreUnavailable
from tests.redis_server import APPENDING, SYNCING, RedisServer

pytestmark = pytest.mark.anyio


class Valve:
    """Passes connections on to a port. Each `hold` is about those that are open; later ones pass."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._pipes: list[Pipe] = []

    async def open(self) -> Address:
        """The address under which the server is reached through it."""
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        return Address("127.0.0.1", self._server.sockets[0].getsockname()[1], 0, is_encrypted=False)

    def hold_requests(self) -> None:
        """What is sent over the open connections waits."""
        for pipe in self._pipes:
            pipe.forth.clear()

    def hold_answers(self) -> None:
        """What the server answers over the open connections waits."""
        for pipe in self._pipes:
            pipe.back.clear()

    def release(self) -> None:
        """What waited goes on, however late."""
        for pipe in self._pipes:
            pipe.forth.set()
            pipe.back.set()

    def add(self, data: bytes) -> None:
        """Sends `data` over the open connections as if the server had; what waits comes after it."""
        for pipe in self._pipes:
            if not pipe.is_over:
                pipe.client.write(data)

    def answers(self) -> list[bytes]:
        """What the server sent last over each connection, also if it was not delivered."""
        return [pipe.last for pipe in self._pipes]

    async def close(self) -> None:
        """Ends everything."""
        self._server.close()
        self.release()
        for pipe in self._pipes:
            pipe.end()
        await self._server.wait_closed()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection("127.0.0.1", self._target)
        pipe = Pipe(writer, here)
        self._pipes.append(pipe)
        await asyncio.gather(pipe.pass_on(reader, here, pipe.forth), pipe.pass_on(there, writer, pipe.back))
        pipe.end()


class Pipe:
    """One connection."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._ends = (client, server)
        self.client = client
        self.is_over = False
        self.forth, self.back = asyncio.Event(), asyncio.Event()
        self.last = b""
        self.forth.set()
        self.back.set()

    async def pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event
    ) -> None:
        """Until one end closes; what was read before is passed on all the same."""
        with suppress(OSError):
            while data := await reader.read(65_536):
                if gate is self.back:
                    self.last = data
                await gate.wait()
                writer.write(data)
            await gate.wait()
            self.is_over = True
            writer.write_eof()

    def end(self) -> None:
        """Closes both ends."""
        self.is_over = True
        for end in self._ends:
            end.close()


FIT = RedisReport(role="master", is_cluster=False, appends=True, evicts="", syncs="always")


class Listener:
    """Collects what contexts report."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.troubles: list[str | None] = []

    def use(self, address: Address, *, timeout: float = 20) -> RedisContexts:
        """Contexts that are not asked how fit their server is."""
        return RedisContexts(address=address, on_trouble=self.troubles.append, timeout=timeout)

    async def open(self, address: Address, *, owner: str = "node") -> tuple[RedisContexts, bool]:
        """Contexts as a start opens them."""
        return await RedisContexts.open(
            address=address, owner=owner, warn=self.warnings.append, on_trouble=self.troubles.append
        )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that the test may kill."""
    server = RedisServer(tmp_path / "redis", *SYNCING).start()
    yield server
    server.kill()


@pytest.fixture
async def valve(redis: RedisServer) -> AsyncIterator[Valve]:
    """A way to the shared server."""
    valve = Valve(redis.port)
    yield valve
    await valve.close()


async def test_what_was_put_outlives_the_server(server: RedisServer) -> None:
    """Killed (-9) and started again: a restart that nobody noticed costs no call."""
    contexts = Listener().use(server.address)
    await contexts.put("job", 1, b"one", ())
    server.kill()
    server.start()
    assert await contexts.get("job", 1) == b"one"
    await contexts.close()


async def test_a_server_that_is_away_is_told_once_it_is_asked(server: RedisServer) -> None:
    """Each call is refused, and works again as soon as the server does; no text has a secret."""
    listener = Listener()
    contexts = listener.use(msgspec.structs.replace(server.address, password="secret"))
    with pytest.raises(StoreUnavailable) as refused:
        await contexts.get("job", 1)  # the server knows no password
    contexts = listener.use(server.address)
    await contexts.put("job", 1, b"one", ())
    server.kill()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{server.port}/0 does not answer"):
            await contexts.get("job", 1)
    server.start()
    assert await contexts.get("job", 1) == b"one"
    assert [text is None for text in listener.troubles][-3:] == [False, False, True]
    assert "secret" not in f"{refused.value}{listener.troubles}"
    await contexts.close()


async def test_who_waits_for_a_server_that_stands_still_waits_with_the_others(server: RedisServer) -> None:
    """Not one after the other; what came late is as harmless as what never came."""
    contexts = Listener().use(server.address, timeout=0.3)
    await contexts.put("job", 1, b"one", ())
    server.freeze()
    try:
        async with asyncio.timeout(10):  # one after the other they take 17 s
            first = asyncio.create_task(contexts.put("job", 2, b"two", ()))
            await asyncio.sleep(0)
            more = (contexts.put("job", number, b"x", ()) for number in range(3, 60))
            found = await asyncio.gather(first, *more, return_exceptions=True)
    finally:
        server.wake()
    assert {type(one) for one in found} == {StoreUnavailable}
    assert await contexts.get("job", 1) == b"one"
    await contexts.close()


async def test_an_answer_that_nobody_asked_for_is_nobody_s_context(valve: Valve) -> None:
    """The connection ends, and the calls are made over another one."""
    contexts = Listener().use(await valve.open())
    await contexts.put("job", 1, b"one", ())
    await contexts.put("other", 1, b"other", ())
    valve.add(b"$5\r\nwrong\r\n")
    found = await asyncio.gather(contexts.get("job", 1), contexts.get("other", 1))
    assert found == [b"one", b"other"]
    await contexts.close()


async def test_what_is_asked_at_one_moment_is_one_answer(redis: RedisServer, valve: Valve) -> None:
    """So the server writes its file once for all of them."""
    contexts = Listener().use(await valve.open())
    await contexts.get("job", 1)
    with redis.client as client:
        before = client.info("stats")["total_reads_processed"]
        await asyncio.gather(*(contexts.put(f"job-{number}", 1, b"x", ()) for number in range(100)))
        reads = client.info("stats")["total_reads_processed"] - before
    assert reads <= 1 + 3  # the test asks too
    await contexts.close()


async def test_a_full_server_refuses_what_it_has_no_room_for(redis: RedisServer, valve: Valve) -> None:
    """The other calls of the moment are carried out."""
    contexts = Listener().use(redis.address)
    await contexts.put("job", 1, b"one", ())
    with redis.client as client:
        client.config_set("maxmemory", 1)
        try:
            calls = (contexts.put("job", 2, b"two", ()), contexts.get("job", 1))
            refused, found = await asyncio.gather(*calls, return_exceptions=True)
        finally:
            client.config_set("maxmemory", 0)
    assert isinstance(refused, StoreUnavailable)
    assert "OOM" in str(refused) or "memory" in str(refused)
    assert found == b"one"
    await contexts.put("job", 2, b"two", ())
    await contexts.close()
    # Another one is the master by now: the next call connects anew
    contexts = Listener().use(await valve.open())
    await contexts.put("job", 1, b"one", ())
    with redis.client as client:
        client.replicaof("127.0.0.1", 1)
        try:
            with pytest.raises(StoreUnavailable, match="read only replica"):
                await contexts.put("job", 2, b"two", ())
            connected = len(valve.answers())
        finally:
            client.replicaof("NO", "ONE")
    await contexts.put("job", 2, b"two", ())
    assert len(valve.answers()) == connected + 1
    await contexts.close()


async def test_after_the_end_nothing_is_asked(server: RedisServer) -> None:
    """What waits for a server that stands still is refused at once."""
    contexts = Listener().use(server.address)
    await contexts.put("job", 1, b"one", ())
    server.freeze()
    waiting = asyncio.create_task(contexts.get("job", 1))
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await contexts.close()
        with pytest.raises(StoreUnavailable, match="this process ends"):
            await waiting
        with pytest.raises(StoreUnavailable, match="this process ends"):
            await contexts.get("job", 1)
    server.wake()


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"role": "slave"}, "name the master"), ({"is_cluster": True}, "Redis Cluster")],
)
def test_a_server_that_cannot_be_written_to_is_refused(changes: dict[str, object], said: str) -> None:
    """With what to name instead."""
    assert find_fault(FIT) is None
    assert said in str(find_fault(msgspec.structs.replace(FIT, **changes)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"evicts": "allkeys-lru"}, "noeviction"),
        ({"appends": False}, "set appendonly yes"),
        ({"syncs": "everysec"}, "appendfsync is everysec; set always"),
        ({"syncs": None}, "appendfsync is not known"),
    ],
)
def test_a_server_that_may_lose_contexts_is_warned_of(changes: dict[str, object], said: str) -> None:
    """With what to set."""
    assert find_doubts(FIT) == []
    (doubt,) = find_doubts(msgspec.structs.replace(FIT, **changes))
    assert said in doubt


async def test_real_servers_are_asked(tmp_path: Path, server: RedisServer) -> None:
    """One that syncs, one that may lose a second and drops keys, a replica, and one that is away."""
    listener = Listener()
    contexts, is_own = await listener.open(server.address)
    await contexts.close()
    assert (is_own, listener.warnings) == (True, [])
    server.kill()
    server.start(*APPENDING, "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru")
    contexts, _ = await listener.open(server.address)
    await contexts.close()
    assert [("noeviction" in one, "everysec" in one) for one in listener.warnings] == [
        (True, False),
        (False, True),
    ]
    with server.client as client:
        client.replicaof("127.0.0.1", 1)
    with pytest.raises(StoreRefused, match="name the master"):
        await listener.open(server.address)
    server.kill()
    with pytest.raises(StoreUnavailable):
        await listener.open(server.address)


async def test_a_database_of_another_node_is_told_apart(redis: RedisServer) -> None:
    """Its contexts are left alone: only the first one may look for what is unused."""
    listener = Listener()
    for owner, own in (("one", True), ("two", False), ("one", True)):
        contexts, is_own = await listener.open(redis.address, owner=owner)
        await contexts.close()
        assert is_own == own
    assert sum("node one has its contexts" in warning for warning in listener.warnings) == 1


async def test_the_keys_are_named_for_the_product(redis: RedisServer) -> None:
    """A hash for each job, gone with its last version."""
    contexts = Listener().use(redis.address)
    await contexts.put("job", 1, b"one", ())
    with redis.client as client:
        assert client.keys() == [key_of("job")] == [b"punctual:contexts:job"]
        await contexts.drop("job", (1,))
        assert client.keys() == []
    await contexts.close()


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
