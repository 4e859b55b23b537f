"""A worker process as the service sees it: one handle for all starts of the process of a shard."""

from typing import TypeVar

from scheduler_service.hosts.processes.rpc_connection import RpcConnection
from scheduler_service.hosts.processes.rpc_methods import Method
from scheduler_service.ports.errors import StoreUnavailable

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class WorkerHandle:
    """Passes calls to the worker process of `shard` while one is started."""

    def __init__(self, *, shard: int) -> None:
        self.shard = shard
        self.is_silent = False  # it has not answered for a while
        self._connection: RpcConnection | None = None

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
        not there; StoreUncertain: it ended during the call.
        """
        if self._connection is None:
            raise StoreUnavailable(
                f"worker process {self.shard}, which has the shard of this job, is starting; "
                "ask again in a moment"
            )
        return await method.call(self._connection, argument)
