"""`client.queues`: lists queues; claims, renews and completes parts of pull queues (SPEC section 13)."""

import builtins
from collections.abc import AsyncIterator

from client_sdk.client.call_retries import Patience, Repeat
from client_sdk.client.connection import PAGE, CallGroup, iterate
from client_sdk.client.services import write_wire
from client_sdk.id_patterns import quote_name
from client_sdk.models import Claim, Completion, HeldPartName, Renewal, answers


class Queues(CallGroup):
    """The pull queues of one scheduler. Every method raises SdkError."""

    def list(self, *, page: int = PAGE) -> AsyncIterator[answers.QueueLine]:
        """The queues in which parts wait or are held, and those that are paused, by name."""
        return iterate(self._connection, answers.QueueLine, "/queues", page=page)

    async def counts(self) -> answers.QueueCounts:
        """How many parts wait, and how many are held, in all queues together."""
        return await self._connection.read(answers.QueueCounts, "/counts/queues")

    async def get(self, name: str) -> answers.Queue:
        """The queue, with the first of its held parts; `held` iterates over all of them."""
        return await self._connection.read(answers.Queue, _queue(name), limit=PAGE)

    def held(self, name: str, *, page: int = PAGE) -> AsyncIterator[answers.HeldPart]:
        """The parts of the queue that instances hold: which instance, and until when."""
        return iterate(self._connection, answers.HeldPart, _queue(name), page=page)

    async def pause(self, name: str) -> answers.QueueLine:
        """Nothing is claimed from the queue until it is resumed; what waits keeps its place."""
        return await self._connection.call(answers.QueueLine, "POST", f"{_queue(name)}/pause")

    async def resume(self, name: str) -> answers.QueueLine:
        """What waits in the queue may be claimed again."""
        return await self._connection.call(answers.QueueLine, "POST", f"{_queue(name)}/resume")

    async def free(self, name: str, part: answers.HeldPart) -> None:
        """Ends the lease of a held part, whoever has it. Raises Conflict where nobody does any more."""
        which = HeldPartName(
            execution_id=part.execution_id,
            request_counts=part.request_counts,
            step=part.step,
            shard_index=part.shard_index or 0,
        )
        await self._connection.send("POST", f"{_queue(name)}/free", body=write_wire(which))

    async def claim(
        self, name: str, *, instance_id: str, most: int = 1, wait_seconds: float = 0
    ) -> builtins.list[answers.Work]:
        """Up to `most` parts, each under its own lease; empty if there is none within `wait_seconds`.

        A claim whose answer is lost is not repeated: its parts are free again when their leases end.
        """
        body = write_wire(Claim(instance_id=instance_id, max=most, wait_seconds=wait_seconds))
        path, repeat = f"{_queue(name)}/claim", Repeat.DOUBLE
        claimed = await self._connection.call(
            answers.Claimed, "POST", path, body=body, repeat=repeat, longer=wait_seconds
        )
        return claimed.items

    async def renew(
        self,
        lease: str,
        *,
        progress: str | None = None,
        message: str | None = None,
        patience: Patience | None = None,
    ) -> answers.Renewed:
        """Renews a lease. Raises Conflict if the lease is lost: stop working."""
        body = write_wire(Renewal(progress=progress, message=message))
        path = f"{_lease(lease)}/renew"
        return await self._connection.call(answers.Renewed, "POST", path, body=body, patience=patience)

    async def complete(self, lease: str, completion: Completion, *, patience: Patience | None = None) -> None:
        """Reports the part's end; repeating it changes nothing. Raises Conflict if the lease is lost."""
        body = write_wire(completion)
        await self._connection.send("POST", f"{_lease(lease)}/complete", body=body, patience=patience)


def _queue(name: str) -> str:
    return f"/queues/{quote_name('queue', name)}"


def _lease(lease: str) -> str:
    return f"/leases/{quote_name('lease', lease)}"
