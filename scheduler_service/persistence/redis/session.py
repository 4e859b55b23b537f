"""The right to write to a store: each group is fenced; where its answer is lost, its outcome is looked up.

`boot`, the number of the start, belongs to one process; `epoch` to one attachment of it. The scripts refuse
groups of an older attachment: a group that is not there after a new attachment never will be.
"""

import asyncio
from collections.abc import Callable, Sequence

from scheduler_service.persistence.common.writes import not_written, outcome_unknown
from scheduler_service.persistence.redis.connection import Part, ServerConnection
from scheduler_service.persistence.redis.encoding import unframe
from scheduler_service.persistence.redis.errors import (
    CommandFailed,
    LeaseLost,
    Refused,
    Unanswered,
    Unreached,
)
from scheduler_service.persistence.redis.lease import Taken, describe
from scheduler_service.ports.errors import StoreUnavailable

FIRST_EPOCH = 1
# With these errors the server refuses a script, or its first write: nothing was written.
NOTHING_DONE = frozenset(
    {
        "BUSY", "LOADING", "MASTERDOWN", "MISCONF", "NOAUTH", "NOPERM", "NOREPLICAS", "NOSCRIPT", "OOM",
        "READONLY", "unknown",
    }
)  # fmt: skip
Verdicts = Sequence[bytes]


class Session:
    """Writes groups, one after the other; the caller sends the next one when the last one is answered.

    `epoch` changes when the writer had to attach again: other connections may then lead to another server
    too. `on_lost` is called once, with the reason as text, when this process may not write any more.
    """

    def __init__(
        self, *, connection: ServerConnection, place: str, taken: Taken, on_lost: Callable[[str], None]
    ) -> None:
        self._connection = connection
        self._place = place
        self._boot = taken.boot
        self.epoch = FIRST_EPOCH
        self._is_attached = True
        self._attaching = asyncio.Lock()
        self._failures = 0  # of attachments
        self._trouble: CommandFailed | None = None
        self._confirmed = taken.writes
        self._said: Verdicts = ()
        self._on_lost = on_lost
        self._lost: str | None = None

    async def write(self, arguments: Sequence[Part]) -> Verdicts:
        """Writes a group. Raises StoreUnavailable, StoreUncertain, LeaseLost."""
        await self.settle()
        number = self._confirmed + 1
        try:
            return await self._send(arguments)
        except Unanswered as error:
            if await self._has_written(number, error):
                return self._said
        # It is not there and cannot arrive any more: it may be sent once more.
        try:
            return await self._send(arguments)
        except Unanswered as error:
            raise outcome_unknown(self._place, error) from error

    async def settle(self) -> None:
        """Returns when the outcome of every group is known. Raises StoreUnavailable, LeaseLost.

        Who waits while the server is asked in vain is told so with whoever asked.
        """
        if self._lost is not None:
            raise LeaseLost(self._lost)
        if self._is_attached:
            return
        failures = self._failures
        async with self._attaching:
            if not self._is_attached:
                if self._trouble is not None and self._failures != failures:
                    raise not_written(self._place, self._trouble)  # not one wait after the other
                await self._attach()

    @property
    def silence(self) -> CommandFailed | None:
        """Why the server could not be asked what became of a group; None: it could, or said why not."""
        return None if isinstance(self._trouble, Refused) else self._trouble

    def lose(self, lease: bytes) -> None:
        """The server says that this process has lost the store: nothing is written from now on."""
        if lease:
            self._lose(
                f"The lease on the store {self._place} was lost: {describe(lease)} has taken it. "
                "This process writes nothing any more and stops."
            )
        else:
            self._lose(
                f"The store {self._place} does not know this process any more: another one took it and has "
                "gone, or the server was emptied. This process writes nothing any more and stops."
            )

    def leave(self) -> None:
        """Waits for the server no longer."""
        self._connection.leave()

    async def close(self) -> None:
        """Ends the connection."""
        await self._connection.close()

    async def _has_written(self, number: int, error: Unanswered) -> bool:
        """Whether the server has written the group. Raises StoreUncertain."""
        try:
            await self.settle()
        except StoreUnavailable:
            raise outcome_unknown(self._place, error) from error
        if self._confirmed < number:
            return False
        if not self._said:  # the script stopped in the middle of the group
            raise outcome_unknown(self._place, error) from error
        return True

    async def _send(self, arguments: Sequence[Part]) -> Verdicts:
        match await self._call(arguments):
            case [b"done", bytes(said)]:
                self._confirmed += 1
                return unframe(said)
            case [b"lost", bytes(lease)]:
                self.lose(lease)
                raise LeaseLost(self._lost)
            case _:
                self._is_attached = False
                raise Unanswered("an older connection attached after this one")

    async def _call(self, arguments: Sequence[Part]) -> object:
        try:
            return await self._connection.run("write", self._boot, self.epoch, *arguments)
        except Unreached as error:
            self._is_attached = False  # the next server may be another one, or have lost something
            raise not_written(self._place, error) from error
        except Unanswered:
            self._is_attached = False
            raise
        except Refused as error:
            if error.code == "READONLY":
                await self._connection.close()  # another server is the master by now
            self._is_attached = False
            if error.code in NOTHING_DONE:
                raise not_written(self._place, error) from error
            raise Unanswered(str(error)) from error

    async def _attach(self) -> None:
        try:
            answer = await self._connection.run("attach", self._boot)
        except CommandFailed as error:
            self._failures += 1
            self._trouble = error
            raise not_written(self._place, error) from error
        self._trouble = None
        if answer[0] == b"lost":
            self.lose(answer[1])
            raise LeaseLost(self._lost)
        _, epoch, writes, said = answer
        if int(writes) < self._confirmed:
            missing = self._confirmed - int(writes)
            raise LeaseLost(
                self._lose(
                    f"The store {self._place} came back without the last {missing} of the groups of writes "
                    "that it had confirmed (appendfsync, or an older copy of its files). "
                    "This process stops; the next start goes on from what the store has."
                )
            )
        self.epoch, self._confirmed, self._said = int(epoch), int(writes), unframe(said)
        self._is_attached = True

    def _lose(self, message: str) -> str:
        if self._lost is None:
            self._lost = message
            self._on_lost(message)
        return self._lost
