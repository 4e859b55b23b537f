"""A worker process as the service sees it: one handle for all starts of the process of a shard."""

import asyncio
from typing import Any, TypeVar

from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.rpc_connection import RpcConnection
from scheduler_service.hosts.processes.rpc_methods import Method
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain

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
        self._watching: set[asyncio.Task[None]] = set()

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
        connection = self._connected()
        answer = connection.call(method.name, method.write_argument(argument))
        watch = asyncio.get_running_loop().call_later(self._patience, self._watch, connection, answer)
        try:
            return method.read_result(await answer)
        finally:
            watch.cancel()

    async def ask(self, method: Method[Argument, Result], argument: Argument) -> Result:
        """As `call`, for what changes nothing: raises StoreUnavailable 2 s after the process stands still."""
        connection = self._connected()
        answer = asyncio.ensure_future(method.call(connection, argument))
        try:
            await asyncio.wait({answer}, timeout=self._patience)
            while not answer.done():
                await self._await_sign(connection, answer)
            return answer.result()
        finally:
            answer.cancel()

    def _watch(self, connection: RpcConnection, answer: "asyncio.Future[bytes]") -> None:
        watching = asyncio.ensure_future(self._await_answer(connection, answer))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)

    async def _await_answer(self, connection: RpcConnection, answer: "asyncio.Future[bytes]") -> None:
        """Returns when there is one, if only that the process stands still."""
        try:
            while not answer.done():
                await self._await_sign(connection, answer)
        except StoreError:
            if not answer.done():
                answer.set_exception(self._unsure())

    async def _await_sign(self, connection: RpcConnection, answer: "asyncio.Future[Result]") -> None:
        """Returns with the answer, or after a while in which the process has answered a ping."""
        ping = asyncio.ensure_future(rpc_methods.PING.call(connection, None))
        try:
            signs: set[asyncio.Future[Any]] = {answer, ping}
            await asyncio.wait(signs, timeout=self._patience, return_when=asyncio.FIRST_COMPLETED)
            if not (answer.done() or ping.done()):
                raise self._still()
            await asyncio.wait({answer}, timeout=self._patience)
        finally:
            ping.cancel()
            await asyncio.gather(ping, return_exceptions=True)

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
