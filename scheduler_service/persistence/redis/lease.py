"""The lease on a store: which process has it, whether that process is dead, how it is taken and renewed.

The lease keeps a second process from starting. The fence keeps an old process from writing: the number of the
start (`boot`), which the script of every write compares.
"""

import asyncio
import contextlib
import os
import platform
from collections.abc import Callable
from pathlib import Path

import msgspec

from scheduler_service.persistence.redis.connection import ServerConnection
from scheduler_service.persistence.redis.errors import CommandFailed
from scheduler_service.ports.errors import StoreLocked, StoreTooNew, StoreUnavailable, explain

FORMAT = 2
"""2: the indexes of queues that 0.1.0 does not know. A database of format 1 is upgraded as it is opened."""

LEASE_MS = 4_000
"""A start after a crash waits this long where it cannot see that the holder is dead (SPEC section 8: 5 s)."""

RENEW_SECONDS = 1.0
POLL_SECONDS = 0.2


class Claimant(msgspec.Struct, frozen=True):
    """A process. `pid` counts within `machine` and `space`; `began` tells processes of equal pid apart."""

    pid: int
    host: str
    machine: str
    space: str
    began: str
    beat: int = 0

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Taken(msgspec.Struct, frozen=True):
    """The store when it was taken: `boot` is the fence, `writes` how many groups were written so far."""

    boot: int
    node_id: str
    writes: int


def this_process() -> Claimant:
    """This process. `machine` is empty where the system does not say."""
    pid = os.getpid()
    with contextlib.suppress(OSError):
        machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = str(Path("/proc/self/ns/pid").readlink())
        return Claimant(pid, platform.node(), machine, space, _began(pid))
    return Claimant(pid, platform.node(), "", "", "")


def is_dead(claimant: Claimant) -> bool:
    """Whether that process is dead for certain; False where this process cannot see it."""
    if not is_near(claimant):
        return False
    try:
        return _began(claimant.pid) != claimant.began
    except OSError:
        return True


def is_near(claimant: Claimant) -> bool:
    """Whether this process can see that one, and so whether it is dead."""
    me = this_process()
    return bool(me.machine) and (claimant.machine, claimant.space) == (me.machine, me.space)


def describe(lease: bytes) -> str:
    """The holder of a lease, as text."""
    try:
        return str(msgspec.json.decode(lease, type=Claimant))
    except msgspec.MsgspecError:
        return "another process"


async def take_lease(connection: ServerConnection, *, place: str, node_id: str) -> Taken:
    """Takes the store. Raises StoreLocked: it is in use; StoreTooNew, StoreUnavailable.

    The lease of a process that is dead for certain is taken at once. For another one this waits, until it
    expires or is renewed.
    """
    mine = msgspec.json.encode(this_process())
    first, dead = b"", b""
    while True:
        match await _open(connection, place, mine, dead, node_id):
            case [b"open", boot, node, writes]:
                return Taken(int(boot), node.decode(), int(writes))
            case [b"newer", found]:
                raise StoreTooNew(
                    f"The store {place} has format {found.decode()}, this program knows formats up to "
                    f"{FORMAT}. Start the newer program again, or name another database."
                )
            case [b"held", lease, _]:
                dead = _judge(lease, first, place)
                first = first or lease
                if not dead:
                    await asyncio.sleep(POLL_SECONDS)


def _judge(lease: bytes, first: bytes, place: str) -> bytes:
    """The lease, if its holder is dead; empty if that is unknown. Raises StoreLocked: it is alive."""
    try:
        claimant = msgspec.json.decode(lease, type=Claimant)
    except msgspec.MsgspecError:
        return b""
    if is_dead(claimant):
        return lease
    if is_near(claimant) or (first and lease != first):
        raise StoreLocked(
            f"The store {place} is in use by {claimant}. "
            "Stop that service first, or give this one a database of its own (redis://HOST:PORT/NUMBER)."
        )
    return b""


async def _open(
    connection: ServerConnection, place: str, mine: bytes, dead: bytes, node_id: str
) -> list[bytes]:
    spare = f"node-{os.urandom(4).hex()}"
    try:
        found: list[bytes] = await connection.run("open", FORMAT, mine, LEASE_MS, dead, node_id, spare)
    except CommandFailed as error:
        raise StoreUnavailable(f"The store {place} does not open: {error}.") from error
    return found


class LeaseKeeper:
    """Renews a lease every `pause` seconds, over a connection of its own, until it is lost or given back.

    `on_lost` gets the lease of the process that has taken the store; `on_trouble` why the server cannot be
    reached, and None when it can be reached again.
    """

    def __init__(
        self,
        *,
        connection: ServerConnection,
        boot: int,
        on_lost: Callable[[bytes], None],
        on_trouble: Callable[[str | None], None],
        pause: float = RENEW_SECONDS,
    ) -> None:
        self._connection = connection
        self._pause = pause
        self._boot = boot
        self._on_lost = on_lost
        self._on_trouble = on_trouble
        self._is_troubled = False
        self._me = this_process()
        self._beat = 0
        self._ended = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def leave(self) -> None:
        """Waits for the server no longer: the lease expires by itself."""
        self._connection.leave()

    async def give_back(self) -> None:
        """Ends the lease, unless another process has it."""
        # Not cancelled: before Python 3.12 `asyncio.wait_for`, by which the library sends, may swallow that.
        self._ended.set()
        await self._task
        with contextlib.suppress(CommandFailed):  # it expires by itself
            await self._renew(0)
        await self._connection.close()

    async def _run(self) -> None:
        while not await self._wait():
            try:
                answer = await self._renew(LEASE_MS)
            except CommandFailed as error:
                self._report(str(error))
                continue
            except Exception as error:  # noqa: BLE001 - nobody awaits this task, and it alone keeps the lease
                self._report(explain(error))
                continue
            self._report(None)
            if answer[0] == b"lost":
                self._on_lost(answer[1])
                return

    async def _wait(self) -> bool:
        """Returns after the pause, or at the end: then True."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pause):
                await self._ended.wait()
        return self._ended.is_set()

    async def _renew(self, length: int) -> list[bytes]:
        self._beat += 1
        lease = msgspec.json.encode(msgspec.structs.replace(self._me, beat=self._beat))
        answer: list[bytes] = await self._connection.run("renew", self._boot, lease, length)
        return answer

    def _report(self, trouble: str | None) -> None:
        if (trouble is not None) is not self._is_troubled:
            self._is_troubled = trouble is not None
            self._on_trouble(trouble)


def _began(pid: int) -> str:
    """When a process began, in ticks of this machine. Raises OSError: it does not exist, or is dead."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if fields[0] in ("Z", "X"):
        raise ProcessLookupError(pid)
    return fields[19]
