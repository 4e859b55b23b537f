"""A worker process as the service sees it: the same handle from one start of it to the next."""

from typing import TypeVar

from scheduler_service.hosts.processes.rpc_connection import RpcConnection
from scheduler_service.hosts.processes.rpc_methods import Method
from scheduler_service.ports.errors import StoreUnavailable

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class WorkerHandle:
    """Calls go to the worker process of `share` while there is one that has started."""

    def __init__(self, *, share: int) -> None:
        self.share = share
        self.is_silent = False  # it has not answered for a while
        self._line: RpcConnection | None = None

    @property
    def is_up(self) -> bool:
        """Whether it takes calls."""
        return self._line is not None

    def join(self, line: RpcConnection) -> None:
        """A start of the process takes calls from now on."""
        self.is_silent = False
        self._line = line

    def leave(self) -> None:
        """It takes none any more."""
        self._line = None

    async def call(self, method: Method[Argument, Result], argument: Argument) -> Result:
        """The method's result. Raises what it raises there; StoreUnavailable: the process is not there;
        StoreUncertain: it ended over the call.
        """
        if self._line is None:
            raise StoreUnavailable(
                f"worker process {self.share}, in whose share this lies, is starting; ask again in a moment"
            )
        return await call_method(self._line, method, argument)


async def call_method(line: RpcConnection, method: Method[Argument, Result], argument: Argument) -> Result:
    """The result of a method at the other end of `line`. Raises what it raises there, StoreError."""
    return method.read_result(await line.call(method.name, method.write_argument(argument)))
