"""The lease on a store: who has it, whether that process is dead, how it is taken and kept.

The lease keeps a second process from starting. What keeps an old one from writing is the fence: the number of
the start (`boot`), which the script of every write compares.
"""

import asyncio
import contextlib
import os
import platform
from collections.abc import Callable
from pathlib import Path

import msgspec

from scheduler_service.persistence.redis.errors import CommandFailed
from scheduler_service.persistence.redis.scripting import run_script
from scheduler_service.persistence.redis.wire import Wire
from scheduler_service.ports.errors import StoreLocked, StoreTooNew, StoreUnavailable

FORMAT = 1
# A start after a crash waits this long where it cannot see that the holder is dead (SPEC section 8: 5 s).
LENGTH = 4_000
PAUSE = 1.0
LOOK = 0.2


class Claimant(msgspec.Struct, frozen=True):
    """A process. `machine` and `space` tell whose `pid` it is, `began` which process of that number."""

    pid: int
    host: str
    machine: str
    space: str
    began: str
    beat: int = 0

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Taken(msgspec.Struct, frozen=True):
    """The store as it was taken: `boot` is the fence, `writes` how many groups it has seen."""

    boot: int
    node_id: str
    writes: int


def this_process() -> Claimant:
    """The process that asks. Where the system does not tell, `machine` is empty."""
    pid = os.getpid()
    with contextlib.suppress(OSError):
        machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = str(Path("/proc/self/ns/pid").readlink())
        return Claimant(pid, platform.node(), machine, space, _began(pid))
    return Claimant(pid, platform.node(), "", "", "")


def is_dead(claimant: Claimant) -> bool:
    """Whether that process is dead for certain; False where this process cannot know."""
    me = this_process()
    if not me.machine or (claimant.machine, claimant.space) != (me.machine, me.space):
        return False
    try:
        return _began(claimant.pid) != claimant.began
    except OSError:
        return True


def is_near(claimant: Claimant) -> bool:
    """Whether this process can see that one, so that it knows whether it is dead."""
    me = this_process()
    return bool(me.machine) and (claimant.machine, claimant.space) == (me.machine, me.space)


def describe(lease: bytes) -> str:
    """Who has a lease, in words."""
    try:
        return str(msgspec.json.decode(lease, type=Claimant))
    except msgspec.MsgspecError:
        return "another process"


async def take_lease(wire: Wire, *, place: str, node_id: str) -> Taken:
    """Takes the store. Raises StoreLocked: it is in use; StoreTooNew, StoreUnavailable.

    The lease of a process that is dead for certain is taken at once; another one is waited for, until it
    ends or is renewed.
    """
    mine = msgspec.json.encode(this_process())
    first, dead = b"", b""
    while True:
        match await _ask(wire, place, mine, dead, node_id):
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
                    await asyncio.sleep(LOOK)


def _judge(lease: bytes, first: bytes, place: str) -> bytes:
    """The lease, where its holder is dead; nothing where that is to be seen. Raises StoreLocked."""
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


async def _ask(wire: Wire, place: str, mine: bytes, dead: bytes, node_id: str) -> list[bytes]:
    spare = f"node-{os.urandom(4).hex()}"
    try:
        found: list[bytes] = await run_script(wire, "open", FORMAT, mine, LENGTH, dead, node_id, spare)
    except CommandFailed as error:
        raise StoreUnavailable(f"The store {place} does not open: {error}.") from error
    return found


class LeaseKeeper:
    """Renews a lease every `pause` seconds, over a connection of its own, until it is lost or given back.

    `on_lost` is told by whom it was taken; `on_trouble` when the server cannot be reached, and None when it
    can be again.
    """

    def __init__(
        self,
        *,
        wire: Wire,
        boot: int,
        on_lost: Callable[[bytes], None],
        on_trouble: Callable[[str | None], None],
        pause: float = PAUSE,
    ) -> None:
        self._wire = wire
        self._between = pause
        self._boot = boot
        self._on_lost = on_lost
        self._on_trouble = on_trouble
        self._is_troubled = False
        self._me = this_process()
        self._beat = 0
        self._over = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def give_back(self) -> None:
        """Ends the lease, unless another process has it."""
        # Not cancelled: before Python 3.12 `asyncio.wait_for`, by which the library sends, may swallow that.
        self._over.set()
        await self._task
        with contextlib.suppress(CommandFailed):  # it ends by itself
            await self._renew(0)
        await self._wire.close()

    async def _run(self) -> None:
        while not await self._pause():
            try:
                answer = await self._renew(LENGTH)
            except CommandFailed as error:
                self._tell(str(error))
                continue
            self._tell(None)
            if answer[0] == b"lost":
                self._on_lost(answer[1])
                return

    async def _pause(self) -> bool:
        """Whether the keeping is over; else it goes on after a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._between):
                await self._over.wait()
        return self._over.is_set()

    async def _renew(self, length: int) -> list[bytes]:
        self._beat += 1
        lease = msgspec.json.encode(msgspec.structs.replace(self._me, beat=self._beat))
        answer: list[bytes] = await run_script(self._wire, "renew", self._boot, lease, length)
        return answer

    def _tell(self, trouble: str | None) -> None:
        if (trouble is not None) is not self._is_troubled:
            self._is_troubled = trouble is not None
            self._on_trouble(trouble)


def _began(pid: int) -> str:
    """When a process began, in ticks of this machine. Raises OSError: there is none, or it is dead."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if fields[0] in ("Z", "X"):
        raise ProcessLookupError(pid)
    return fields[19]
