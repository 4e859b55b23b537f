"""What a worker process does for the service: the other end of `remote_shard`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from scheduler_service.domain.replies import Reply
from scheduler_service.engine import parameters  # noqa: F401 - else the first schema's turn would import it
from scheduler_service.hosts.embedded.host import EmbeddedHost
from scheduler_service.hosts.messages import answer_message, write_error, write_reply
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.rpc_methods import CreateRequest, Method, ShardStatus, TakeRequest
from scheduler_service.pacing.slices import Slices
from scheduler_service.ports.delivery import Compile, Definition
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import History
from scheduler_service.ports.state import ServiceStore

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Handler = Callable[[bytes], Awaitable[bytes]]


class WorkerService:
    """Answers the service's calls for the jobs of one shard."""

    def __init__(
        self,
        *,
        host: EmbeddedHost,
        store: ServiceStore,
        history: History,
        compile_text: Compile,
        status: Callable[[], ShardStatus],
    ) -> None:
        self._host = host
        self._compile = compile_text
        notifications = host.notifications
        self._handlers: Mapping[str, Handler] = dict(
            [
                _handler(rpc_methods.STATUS, _answering(status)),
                _handler(rpc_methods.TAKE, self._take),
                _handler(rpc_methods.CREATE, self._create),
                _handler(rpc_methods.FORGET, store.forget),
                _handler(rpc_methods.FLUSH, lambda _: history.flush()),
                _handler(rpc_methods.RESEND, notifications.resend),
                _handler(rpc_methods.DISMISS, notifications.dismiss),
                _handler(rpc_methods.RESEND_OUTBOX, lambda _: notifications.resend_outbox()),
            ]
        )

    async def serve(self, method: str, argument: bytes) -> bytes:
        """Answers one call. Raises StoreError, CursorError."""
        return await self._handlers[method](argument)

    async def _take(self, request: TakeRequest) -> bytes:
        """Takes a turn, or reads the job; a StoreError is an answer."""
        return await answer_message(
            request.message,
            compile_text=self._compile,
            read=lambda: self._host.read(request.job_id),
            take=lambda command: self._host(request.job_id, command),
        )

    async def _create(self, request: CreateRequest) -> list[bytes]:
        definitions: list[Definition] = []
        slices = Slices()
        for text in request.texts:
            await slices.pause(len(text))
            definitions.append(Definition(text, await self._compile(text)))
        return [_write(answer) for answer in await self._host.create_all(definitions, request.owner)]


def _answering(status: Callable[[], ShardStatus]) -> Callable[[None], Awaitable[ShardStatus]]:
    async def answer(_: None) -> ShardStatus:
        return status()

    return answer


def _write(answer: Reply | StoreError) -> bytes:
    return write_error(answer) if isinstance(answer, StoreError) else write_reply(answer)


def _handler(
    method: Method[Argument, Result], work: Callable[[Argument], Awaitable[Result]]
) -> tuple[str, Handler]:
    async def handle(packed: bytes) -> bytes:
        return method.write_result(await work(method.read_argument(packed)))

    return method.name, handle
