"""Contexts in a Redis database: a hash for each job, whose fields are the versions.

What is asked at one moment is one pipeline, and one answer of the server. No caller waits longer than
`TIMEOUT_SECONDS` for a server that stands still: what waited with others is refused with them.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Self

import msgspec
from redis import exceptions
from redis.asyncio.connection import Connection, SSLConnection

from scheduler_service.persistence.contexts.redis_address import Address
from scheduler_service.ports.errors import StoreRefused, StoreUnavailable

PREFIX = b"punctual:contexts:"
OWNER = b"punctual:contexts"
"""Which service's contexts these are, by the name of its node."""
TIMEOUT_SECONDS = 2.0
"""For a connection, and for the answers to a pipeline."""
MOST_ASKED = 1_000
PIPELINE_BYTES = 4 << 20
PAGE = 500
LEFT = "this process ends, and asks no longer"
UNASKED = "the server sent an answer that nobody asked for"
# RuntimeError: uvloop raises it for a connection that has just been closed, and the library passes it on.
_LOST = (exceptions.RedisError, OSError, RuntimeError, TimeoutError)
# Errors that the server returned, some of which the library counts as errors of the connection.
_ANSWERS = (
    exceptions.ResponseError,
    exceptions.BusyLoadingError,
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
)
Part = bytes | int
OnTrouble = Callable[[str | None], None]
"""Is told why the server cannot be asked, and None when it can again."""


class RedisReport(msgspec.Struct, frozen=True):
    """What a server says of itself. `syncs` None: it does not say."""

    role: str
    is_cluster: bool
    appends: bool
    evicts: str
    syncs: str | None


class Asked(msgspec.Struct, frozen=True, gc=False):
    """Commands of one call, packed, and their answers to come."""

    packed: bytes
    count: int
    answers: "asyncio.Future[list[Any]]"


class RedisContexts:
    """`ports.state.Contexts`, which documents the methods."""

    def __init__(self, *, address: Address, on_trouble: OnTrouble, timeout: float = TIMEOUT_SECONDS) -> None:
        self._address = address
        self._on_trouble = on_trouble
        self._timeout = timeout
        self._waiting: list[Asked] = []
        self._sending: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._number = 0
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        *,
        address: Address,
        owner: str,
        warn: Callable[[str], None],
        on_trouble: OnTrouble,
        timeout: float = TIMEOUT_SECONDS,
    ) -> tuple[Self, bool]:
        """The contexts in a database, and whether it belongs to `owner` alone.

        `warn` is told what may lose them. Raises StoreRefused, StoreUnavailable.
        """
        contexts = cls(address=address, on_trouble=on_trouble, timeout=timeout)
        try:
            await contexts._check(warn)
            first = (await contexts.ask((b"SET", OWNER, owner.encode(), b"NX"), (b"GET", OWNER)))[1]
        except BaseException:
            await contexts.close()
            raise
        is_own = first == owner.encode()
        if not is_own:
            other = first.decode(errors="replace")
            warn(f"node {other} has its contexts in {address} too; use a database for each")
        return contexts, is_own

    async def put(
        self, job_id: str, version: int, content: bytes, unused: Sequence[int], others: Sequence[int] = ()
    ) -> None:
        key = key_of(job_id)
        if unused:
            await self.ask((b"HSET", key, version, content), (b"HDEL", key, *unused))
        else:
            await self.ask((b"HSET", key, version, content))

    async def get(self, job_id: str, version: int) -> bytes | None:
        found: bytes | None = (await self.ask((b"HGET", key_of(job_id), version)))[0]
        return found

    async def find(self, job_id: str) -> Sequence[int]:
        return [int(one) for one in (await self.ask((b"HKEYS", key_of(job_id))))[0]]

    async def drop(self, job_id: str, unused: Sequence[int]) -> None:
        await self.ask((b"HDEL", key_of(job_id), *unused))

    async def pages(self) -> AsyncIterator[list[tuple[str, list[int]]]]:
        """All jobs that have contexts here, with their versions; some perhaps twice.

        Raises StoreUnavailable.
        """
        cursor = b"0"
        while True:
            cursor, keys = (await self.ask((b"SCAN", cursor, b"MATCH", PREFIX + b"*", b"COUNT", PAGE)))[0]
            fields = await self.ask(*((b"HKEYS", key) for key in keys)) if keys else []
            yield [
                (key[len(PREFIX) :].decode(errors="surrogatepass"), [int(one) for one in found])
                for key, found in zip(keys, fields, strict=True)
            ]
            if cursor == b"0":
                return

    async def ask(self, *commands: tuple[Part, ...]) -> list[Any]:
        """The answers to `commands`. Raises StoreUnavailable: some of them may have been carried out."""
        if self._is_closed:
            raise self._unavailable(LEFT)
        answers: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append(Asked(b"".join(map(pack, commands)), len(commands), answers))
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._send())
        return await answers

    async def inspect(self) -> RedisReport:
        """What the server says of itself. Raises StoreUnavailable."""
        info = _read_info((await self.ask((b"INFO",)))[0])
        try:
            found = (await self.ask((b"CONFIG", b"GET", b"appendfsync")))[0]
        except StoreUnavailable:  # hosted servers often refuse CONFIG
            found = []
        return RedisReport(
            role=info.get("role", "master"),
            is_cluster=info.get("cluster_enabled") == "1",
            appends=info.get("aof_enabled") == "1",
            evicts=info.get("maxmemory_policy", "") if info.get("maxmemory", "0") != "0" else "",
            syncs=found[1].decode() if len(found) == 2 else None,
        )

    async def close(self) -> None:
        """Ends the connection; what waits is refused."""
        self._is_closed = True
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        self._refuse(self._waiting, LEFT)
        await self._disconnect()

    async def _check(self, warn: Callable[[str], None]) -> None:
        report = await self.inspect()
        if fault := find_fault(report):
            raise StoreRefused(f"The Redis server of {self._address} cannot hold contexts: {fault}.")
        for doubt in find_doubts(report):
            warn(f"{self._address} may lose contexts of qos 1, whose executions then end as lost: {doubt}")

    async def _send(self) -> None:
        """Sends what waits, pipeline by pipeline."""
        asked: list[Asked] = []
        try:
            while self._waiting:
                asked = self._take()
                try:
                    answers = await self._exchange_again(asked)
                except _LOST as error:
                    await self._disconnect()
                    text = str(error) or f"no answer within {self._timeout:g} s"
                    asked += self._waiting
                    self._waiting = []
                    self._refuse(asked, text)
                    self._on_trouble(f"{self._address}: {text}")
                else:
                    self._on_trouble(None)
                    self._answer(asked, answers)
        except BaseException:
            await self._disconnect()
            self._refuse(asked + self._waiting, LEFT)
            raise
        finally:
            self._sending = None

    def _take(self) -> list[Asked]:
        count = size = 0
        for one in self._waiting[:MOST_ASKED]:
            size += len(one.packed)
            if count and size > PIPELINE_BYTES:
                break
            count += 1
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    async def _exchange_again(self, asked: list[Asked]) -> list[Any]:
        """Over a new connection where an old one was lost: commands may be carried out twice."""
        is_old = self._connection is not None
        try:
            return await self._exchange(asked)
        except _LOST as error:
            if not is_old or isinstance(error, TimeoutError):
                raise
        await self._disconnect()
        return await self._exchange(asked)

    async def _exchange(self, asked: list[Asked]) -> list[Any]:
        """The answers, errors as values. They have no names: the last one shows that none was too many."""
        async with asyncio.timeout(self._timeout):
            connection = await self._connect()
            self._number += 1
            mark = b"%d" % self._number
            packed = [*(one.packed for one in asked), pack((b"ECHO", mark))]
            await connection.send_packed_command(packed, check_health=False)
            answers = [await _read(connection) for _ in range(sum(one.count for one in asked) + 1)]
        if answers.pop() != mark:
            refusals = [one for one in answers if isinstance(one, Exception)]
            raise refusals[0] if refusals else exceptions.ConnectionError(UNASKED)
        if any(isinstance(one, exceptions.ReadOnlyError) for one in answers):
            await self._disconnect()  # another server is the master by now
        return answers

    def _answer(self, asked: list[Asked], answers: list[Any]) -> None:
        start = 0
        for one in asked:
            own = answers[start : start + one.count]
            start += one.count
            refusal = next((answer for answer in own if isinstance(answer, Exception)), None)
            if refusal is not None:
                self._refuse([one], str(refusal))
            elif not one.answers.done():
                one.answers.set_result(own)

    def _refuse(self, asked: list[Asked], text: str) -> None:
        for one in asked:
            if not one.answers.done():
                one.answers.set_exception(self._unavailable(text))

    def _unavailable(self, text: str) -> StoreUnavailable:
        return StoreUnavailable(f"The store of contexts {self._address} does not answer: {text.rstrip('.')}.")

    async def _connect(self) -> Connection:
        if self._connection is not None and self._connection.is_connected:
            return self._connection
        await self._disconnect()
        address = self._address
        kind = SSLConnection if address.is_encrypted else Connection
        self._connection = kind(
            host=address.host,
            port=address.port,
            db=address.database,
            username=address.user,
            password=address.password,
            socket_timeout=self._timeout,
            socket_connect_timeout=self._timeout,
            protocol=2,
            client_name="punctual",
        )
        await self._connection.connect()  # type: ignore[no-untyped-call]
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*_LOST):
                await connection.disconnect(nowait=True)


def key_of(job_id: str) -> bytes:
    """The key of a job's hash."""
    return PREFIX + job_id.encode(errors="surrogatepass")


def pack(parts: tuple[Part, ...]) -> bytes:
    """A command in the server's protocol: the library's own packing takes ten times as long."""
    texts = [part if isinstance(part, bytes) else b"%d" % part for part in parts]
    return b"*%d\r\n" % len(texts) + b"".join([b"$%d\r\n%b\r\n" % (len(text), text) for text in texts])


def find_fault(server: RedisReport) -> str | None:
    """Why a server cannot be written to as it has to be."""
    if server.is_cluster:
        return "it is a node of a Redis Cluster; name a server that stands alone"
    if server.role != "master":
        return f"it is a {server.role}; name the master"
    return None


def find_doubts(server: RedisReport) -> list[str]:
    """What a server may lose, and what to set."""
    doubts = []
    if server.evicts.startswith("allkeys"):
        doubts.append(
            f"it drops keys when its memory is full ({server.evicts}); set maxmemory-policy noeviction"
        )
    if not server.appends:
        doubts.append("it keeps nothing through its own end (appendonly no); set appendonly yes")
    elif server.syncs != "always":
        doubts.append(f"appendfsync is {server.syncs or 'not known'}; set always")
    return doubts


async def _read(connection: Connection) -> Any:
    """The next answer, an error too."""
    try:
        return await connection.read_response(disable_decoding=True, disconnect_on_error=False)
    except _ANSWERS as error:
        return error


def _read_info(info: bytes) -> Mapping[str, str]:
    lines = (line.partition(":") for line in info.decode(errors="replace").splitlines())
    return {name: value.strip() for name, colon, value in lines if colon}
