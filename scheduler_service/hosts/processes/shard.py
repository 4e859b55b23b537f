"""What the service asks of one share of the jobs, whichever process has it."""

import asyncio
from collections.abc import Sequence
from typing import Protocol, TypeVar

from scheduler_service.domain.replies import Reply
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.decision import Job
from scheduler_service.engine.snapshot import decode
from scheduler_service.engine.status import revisions
from scheduler_service.hosts.embedded.host import EmbeddedHost
from scheduler_service.hosts.messages import ReadReply, read_reply, write_ask
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.remote_store import RemoteCatalogue, RemoteQueues
from scheduler_service.hosts.processes.rpc_connection import OtherProcessFault
from scheduler_service.hosts.processes.rpc_methods import Method, ShardStatus, TakeRequest
from scheduler_service.hosts.processes.worker_handle import WorkerHandle
from scheduler_service.hosts.program_cache import ProgramCache
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command, Compile, Definition
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.history import History

Result = TypeVar("Result")

STATUS_LIMIT = 2.0
"""Seconds that a process may take to say how it is, for those who ask how the service is."""
NO_HOLDER = Holder("", "")
"""Of a job that is only looked at."""


class Shard(Protocol):
    """A share: what is asked of its jobs, its courier and its history. All raise StoreError."""

    async def deliver(self, job_id: str, command: Command) -> Reply:
        """As `ports.Deliver`."""

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """The job's line as its latest commit left it, where it is at hand; else ask the catalogue."""

    async def create_all(self, definitions: Sequence[Definition]) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each; an error stands in place of its reply. Never raises."""

    async def read(self, job_id: str) -> Job | None:
        """The job as it stands after its latest turn."""

    async def resend(self, delivery_id: str) -> bool:
        """As `hosts.notification_sender.Courier.resend`."""

    async def dismiss(self, delivery_id: str) -> bool:
        """As `hosts.notification_sender.Courier.dismiss`."""

    async def resend_outbox(self) -> int:
        """As `hosts.notification_sender.Courier.resend_outbox`."""

    async def flush(self) -> None:
        """Returns when the history has what was recorded so far."""

    async def standing(self) -> ShardStatus:
        """How many jobs are in memory, and how many run."""

    @property
    def missing(self) -> Sequence[str]:
        """What is not ready, in words."""


class OwnShard:
    """The share of the service's own process."""

    def __init__(self, *, host: EmbeddedHost, history: History) -> None:
        self._host = host
        self.deliver = host
        self.peek = host.peek
        self.create_all = host.create_all
        self.read = host.read
        self.resend = host.courier.resend
        self.dismiss = host.courier.dismiss
        self.resend_outbox = host.courier.resend_outbox
        self.flush = history.flush

    async def standing(self) -> ShardStatus:
        """As the host says."""
        return ShardStatus(held=self._host.jobs_held, running=self._host.running)

    @property
    def missing(self) -> Sequence[str]:
        """The host, until it has recovered."""
        return [] if self._host.is_ready else ["host"]


class RemoteShard:
    """The share of a worker process, and what its store can be asked."""

    def __init__(self, *, branch: WorkerHandle, compiler: Compile) -> None:
        self._branch = branch
        self.catalogue = RemoteCatalogue(branch=branch)
        self.queues = RemoteQueues(branch=branch)
        self._programs = ProgramCache(store=self, compiler=compiler)

    async def deliver(self, job_id: str, command: Command) -> Reply:
        """Takes `event` to the job. What is kept under a key is the reply as JSON."""
        told = await self._ask(job_id, write_ask(command))
        assert told.reply is not None, "an event has a reply"
        return told.reply

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """Nothing: its process knows better."""
        return None

    async def create_all(self, definitions: Sequence[Definition]) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each, their writes as one group."""
        texts = [definition.text for definition in definitions]
        try:
            return [_reply(told) for told in await self._call_once(rpc_methods.CREATE, texts)]
        except StoreError as error:
            return [error] * len(texts)

    async def offer(self, texts: Sequence[bytes]) -> Sequence[Reply | StoreError | None]:
        """Takes the turn Created for those that are known there; None: nothing was done. Never raises."""
        try:
            found = await self._call_once(rpc_methods.OFFER, list(texts))
        except StoreUnavailable:
            return [None] * len(texts)
        except StoreError as error:
            return [error] * len(texts)
        return [None if told is None else _reply(told) for told in found]

    async def _call_once(self, method: Method[list[bytes], Result], texts: list[bytes]) -> Result:
        """The method's result; a fault over there says nothing of what had been done. Raises StoreError."""
        try:
            return await self._branch.call(method, texts)
        except OtherProcessFault as fault:
            raise StoreUncertain(str(fault)) from fault

    async def read(self, job_id: str) -> Job | None:
        """The job as it stands after its latest turn, contexts of qos 0 as well."""
        told = await self._ask(job_id, write_ask(None))
        if not told.document:
            return None
        document = decode(told.document)
        programs = await self._programs.load(document.head.uid, revisions(document))
        return Job(document, programs, NO_HOLDER)

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """A definition as posted, or None."""
        return await self._branch.call(rpc_methods.DEFINITION, (uid, revision))

    async def forget(self, job_id: str) -> bool:
        """Removes a destroyed job."""
        return await self._branch.call(rpc_methods.FORGET, job_id)

    async def resend(self, delivery_id: str) -> bool:
        """Tries a delivery at once."""
        return await self._branch.call(rpc_methods.RESEND, delivery_id)

    async def dismiss(self, delivery_id: str) -> bool:
        """Gives a delivery up."""
        return await self._branch.call(rpc_methods.DISMISS, delivery_id)

    async def resend_outbox(self) -> int:
        """Tries what lies in the outbox."""
        return await self._branch.call(rpc_methods.RESEND_OUTBOX, None)

    async def flush(self) -> None:
        """Returns when the history has what was recorded so far."""
        await self._branch.call(rpc_methods.FLUSH, None)

    async def standing(self) -> ShardStatus:
        """As its process says; nothing while it is not there, or does not say in time."""
        if not self._branch.is_up:
            return ShardStatus()
        try:
            async with asyncio.timeout(STATUS_LIMIT):
                return await self._branch.call(rpc_methods.STANDING, None)
        except TimeoutError:
            return ShardStatus()

    @property
    def missing(self) -> Sequence[str]:
        """The process, while it starts or does not answer."""
        return (
            []
            if self._branch.is_up and not self._branch.is_silent
            else [f"worker process {self._branch.share}"]
        )

    async def _ask(self, job_id: str, message: bytes) -> ReadReply:
        return read_reply(await self._branch.call(rpc_methods.TAKE, TakeRequest(job_id, message)))


def _reply(message: bytes) -> Reply | StoreError:
    try:
        reply = read_reply(message).reply
    except StoreError as error:
        return error
    assert reply is not None, "a creation has a reply"
    return reply
