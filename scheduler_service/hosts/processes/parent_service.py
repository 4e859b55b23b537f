"""What the service does for its worker processes: instances for calls, and who waits for work."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from scheduler_service.domain.wire import Token
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.ports.services import Router

Address = Callable[[str], tuple[str | None, bool]]
"""Where a service is, and whether instances of it may come back in a moment."""
T = TypeVar("T")
WakeQueues = Callable[[Sequence[tuple[str, str]] | None], None]
"""Wakes who waits for work of these queues; None: of all."""


class ParentService:
    """Answers one start of a worker process; what it held is given back when it ends."""

    def __init__(self, *, router: Router, address: Address, stir: WakeQueues) -> None:
        self._router = router
        self._address = address
        self._stir = stir
        self._held: dict[Token, asyncio.Task[object] | None] = {}

    async def serve(self, method: str, argument: bytes) -> bytes:
        """Answers one call. Raises KeyError for a method that it does not know."""
        if method == rpc_methods.RESOLVE.name:
            search = rpc_methods.RESOLVE.read_argument(argument)
            return rpc_methods.RESOLVE.write_result(
                await self._wait(search.token, self._router.resolve(search))
            )
        if method == rpc_methods.ENTER.name:
            call = rpc_methods.ENTER.read_argument(argument)
            await self._wait(call.token, self._router.enter(call))
            return rpc_methods.ENTER.write_result(None)
        if method == rpc_methods.ADDRESS.name:
            return rpc_methods.ADDRESS.write_result(
                self._address(rpc_methods.ADDRESS.read_argument(argument))
            )
        raise KeyError(method)

    def hear(self, method: str, argument: bytes) -> None:
        """Takes what it is told; what it does not know is left."""
        if method == rpc_methods.LEAVE.name:
            self._leave(rpc_methods.LEAVE.read_argument(argument))
        elif method == rpc_methods.MARK_DRAINING.name:
            self._router.mark_draining(*rpc_methods.MARK_DRAINING.read_argument(argument))
        elif method == rpc_methods.STIR.name:
            self._stir(rpc_methods.STIR.read_argument(argument))

    def end(self) -> None:
        """The process has ended: nobody is left who could give its places back."""
        for token in list(self._held):
            self._leave(token)

    async def _wait(self, token: Token, place: Awaitable[T]) -> T:
        """What it waits for, unless whoever asked leaves before."""
        self._held[token] = asyncio.current_task()
        found = await place
        self._held[token] = None
        return found

    def _leave(self, token: Token) -> None:
        waiting = self._held.pop(token, None)
        if waiting is not None:
            waiting.cancel()
        self._router.leave(token)
