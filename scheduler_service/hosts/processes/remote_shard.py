"""The shard of a worker process: the process by its handle, and its jobs, at both ends of the connection."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from scheduler_service.domain.replies import Reply
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.decision import Job
from scheduler_service.hosts.background_tasks import Tasks
from scheduler_service.hosts.embedded.embedded_host import EmbeddedHost
from scheduler_service.hosts.host import HostStatus
from scheduler_service.hosts.job_loading import ProgramCache, read_packed
from scheduler_service.hosts.node_messages import (
    ReadReply,
    answer_message,
    read_reply,
    write_ask,
    write_error,
    write_reply,
)
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.rpc_methods import (
    CreateRequest,
    Method,
    OtherProcessFault,
    RpcConnection,
    TakeRequest,
)
from scheduler_service.pacing.slices import Slices
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command, Compile, Definition
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import ServiceStore
from scheduler_service.telemetry.metrics.metric_list import Sample

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class WorkerHandle:
    """Passes calls to the worker process of `shard` while one is started.

    `patience` is in seconds: a process that neither answers a question nor a ping for twice as long stands
    still.
    """

    def __init__(self, *, shard: int, patience: float = 1.0) -> None:
        self.shard = shard
        self.is_silent = False  # it has not answered for a while
        self._patience = patience
        self._connection: RpcConnection | None = None
        self._watching = Tasks()

    @property
    def is_up(self) -> bool:
        """Whether the process takes calls."""
        return self._connection is not None

    def connect(self, connection: RpcConnection) -> None:
        """A start of the process takes calls from now on."""
        self.is_silent = False
        self._connection = connection

    def disconnect(self) -> None:
        """The process takes no more calls."""
        self._connection = None

    async def call(self, method: Method[Argument, Result], argument: Argument) -> Result:
        """The method's result. Raises what the method raises in the process; StoreUnavailable: the process is
        not there, or is known to stand still, and nothing was sent; StoreUncertain: it ended during the call.
        """
        return await method.call(self._connected(), argument)

    async def order(self, method: Method[Argument, Result], argument: Argument) -> Result:
        """As `call`, for what a caller waits for: raises StoreUncertain 2 s after the process stands still.

        It may do it when it goes on.
        """
        return await self._await(method, argument, self._unsure)

    async def ask(self, method: Method[Argument, Result], argument: Argument) -> Result:
        """As `call`, for what changes nothing: raises StoreUnavailable 2 s after the process stands still."""
        return await self._await(method, argument, self._still)

    async def _await(
        self, method: Method[Argument, Result], argument: Argument, explain: Callable[[], StoreError]
    ) -> Result:
        """The result. Raises what `explain` makes where the process stands still."""
        connection = self._connected()
        answer = connection.call(method.name, method.write_argument(argument))
        watch = asyncio.get_running_loop().call_later(
            self._patience, self._watch, connection, answer, explain
        )
        try:
            return method.read_result(await answer)
        finally:
            watch.cancel()

    def _watch(
        self, connection: RpcConnection, answer: "asyncio.Future[bytes]", explain: Callable[[], StoreError]
    ) -> None:
        self._watching.start(self._await_signs(connection, answer, explain))

    async def _await_signs(
        self, connection: RpcConnection, answer: "asyncio.Future[bytes]", explain: Callable[[], StoreError]
    ) -> None:
        """Returns when there is an answer, if only that the process answers no ping either."""
        while not answer.done():
            ping = asyncio.ensure_future(rpc_methods.PING.call(connection, None))
            try:
                signs: set[asyncio.Future[Any]] = {answer, ping}
                await asyncio.wait(signs, timeout=self._patience, return_when=asyncio.FIRST_COMPLETED)
                is_still = not ping.done()
            finally:
                ping.cancel()
                await asyncio.gather(ping, return_exceptions=True)
            if is_still and not answer.done():
                answer.set_exception(explain())
                return
            await asyncio.wait({answer}, timeout=self._patience)

    def _connected(self) -> RpcConnection:
        if self._connection is None:
            raise StoreUnavailable(
                f"worker process {self.shard}, which has the shard of this job, is starting; "
                "ask again in a moment",
                is_public=True,
            )
        if self.is_silent:
            raise self._still()
        return self._connection

    def _unsure(self) -> StoreError:
        text = f"worker process {self.shard} does not answer whether it was done: it may be done later"
        return StoreUncertain(text, is_public=True)

    def _still(self) -> StoreError:
        return StoreUnavailable(
            f"worker process {self.shard} does not answer; ask again in a moment", is_public=True
        )


ReadDefinition = Callable[[str, int], Awaitable[bytes | None]]
"""`definition` of a store."""

NO_HOLDER = Holder("", "")
"""The holder of a job that is only read."""


class RemoteShard:
    """The shard behind `worker`; implements `shards.ProcessShard`. `definition` is that of the store.

    Each method is called in the worker process; all raise StoreError. Where the process stands still, reads
    and what callers change raise it after 2 s, the service's own work when it is started anew; a few seconds
    later all calls do, before anything is sent.
    """

    def __init__(self, *, worker: WorkerHandle, compiler: Compile, definition: ReadDefinition) -> None:
        self._worker = worker
        self._programs = ProgramCache(read=definition, compiler=compiler)

    async def deliver(self, job_id: str, command: Command) -> Reply:
        """Takes the turn. The bytes that are kept under an Idempotency-Key are the reply as JSON."""
        reply = (await self._take(job_id, command)).reply
        assert reply is not None, "an event has a reply"
        return reply

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """Nothing: the entry is in the worker process."""
        return None

    async def create_all(self, definitions: Sequence[Definition], owner: str) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each, their writes as one group. Never raises StoreError."""
        tenants = [definition.program.surroundings.tenant for definition in definitions[:1]]
        request = CreateRequest([definition.text for definition in definitions], owner, *tenants)
        try:
            return [_reply_of(answer) for answer in await self._worker.order(rpc_methods.CREATE, request)]
        except OtherProcessFault as fault:  # it leaves open what was done
            return [StoreUncertain(str(fault), is_public=True)] * len(definitions)
        except StoreError as error:
            return [error] * len(definitions)

    async def read(self, job_id: str) -> Job | None:
        """The job after its latest turn, contexts of qos 0 as well."""
        return await read_packed(job_id, (await self._take(job_id, None)).document, self._programs, NO_HOLDER)

    async def forget(self, job_id: str) -> bool:
        """Removes a destroyed job; False: there is none."""
        return await self._worker.order(rpc_methods.FORGET, job_id)

    async def resend(self, name: str) -> bool:
        """Tries a notification at once; False: there is none."""
        return await self._worker.order(rpc_methods.RESEND, name)

    async def dismiss_here(self, name: str) -> bool:
        """Gives a notification up; False: there is none."""
        return await self._worker.order(rpc_methods.DISMISS, name)

    async def resend_outbox(self) -> int:
        """Tries all notifications in the outbox; returns how many."""
        return await self._worker.call(rpc_methods.RESEND_OUTBOX, None)

    async def flush(self, job_id: str | None = None) -> None:
        """Returns when the history has all that was recorded so far. Raises at once for a silent process."""
        await self._worker.call(rpc_methods.FLUSH, None)

    async def status(self) -> HostStatus:
        """The figures of the process; zeros where it does not say them. Never raises."""
        try:
            return await self._worker.ask(rpc_methods.STATUS, None)
        except (StoreError, OtherProcessFault):
            return HostStatus()

    async def collect(self) -> Sequence[Sample]:
        """The figures of the process for metrics. Raises StoreError."""
        return await self._worker.call(rpc_methods.METRICS, None)

    @property
    def missing(self) -> Sequence[str]:
        """The process, while it starts or does not answer."""
        is_ready = self._worker.is_up and not self._worker.is_silent
        return [] if is_ready else [f"worker process {self._worker.shard}"]

    async def _take(self, job_id: str, command: Command | None) -> ReadReply:
        request = TakeRequest(job_id, write_ask(command))
        asked = self._worker.ask if command is None else self._worker.order
        return read_reply(await asked(rpc_methods.TAKE, request))


def _reply_of(message: bytes) -> Reply | StoreError:
    try:
        reply = read_reply(message).reply
    except StoreError as error:
        return error
    assert reply is not None, "a creation has a reply"
    return reply


class WorkerService:
    """Answers the calls of a `RemoteShard` in the worker process that has the jobs."""

    def __init__(
        self,
        *,
        host: EmbeddedHost,
        store: ServiceStore,
        compile_text: Compile,
        status: Callable[[], HostStatus],
    ) -> None:
        self._host = host
        self._compile = compile_text
        self._status = status
        self._handlers = dict(
            (
                rpc_methods.STATUS.served_by(self._tell_status),
                rpc_methods.TAKE.served_by(self._take),
                rpc_methods.CREATE.served_by(self._create),
                rpc_methods.FORGET.served_by(store.forget),
                rpc_methods.FLUSH.served_by(lambda _: host.flush()),
                rpc_methods.RESEND.served_by(host.resend),
                rpc_methods.DISMISS.served_by(host.dismiss_here),
                rpc_methods.RESEND_OUTBOX.served_by(lambda _: host.resend_outbox()),
            )
        )

    async def serve(self, method: str, argument: bytes) -> bytes:
        """Answers one call. Raises StoreError."""
        return await self._handlers[method](argument)

    async def _tell_status(self, _: None) -> HostStatus:
        return self._status()

    async def _take(self, request: TakeRequest) -> bytes:
        """Takes a turn, or reads the job; a StoreError is an answer."""
        return await answer_message(
            request.message,
            request.job_id,
            compile_text=self._compile,
            read=lambda: self._host.read(request.job_id),
            take=lambda command: self._host(request.job_id, command),
        )

    async def _create(self, request: CreateRequest) -> list[bytes]:
        definitions: list[Definition] = []
        slices = Slices()
        for text in request.texts:
            await slices.pause(len(text))
            definitions.append(Definition(text, await self._compile(text, request.tenant)))
        return [
            write_error(answer) if isinstance(answer, StoreError) else write_reply(answer)
            for answer in await self._host.create_all(definitions, request.owner)
        ]
