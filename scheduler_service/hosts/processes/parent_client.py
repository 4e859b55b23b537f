"""What a worker process asks of the service: who is called, and who waits for work.

The instances of services, their places and their lines are known to the service alone, so that capacities and
rates hold over all shares.
"""

import asyncio
import re
from typing import TypeVar

import msgspec

from scheduler_service.domain.effects import CallPart, PublishParts, QueueWrite, ResolveInstances
from scheduler_service.domain.parts import Chosen
from scheduler_service.domain.wire import OutboundRequest, Outcome, Token
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.rpc_connection import RpcConnection
from scheduler_service.hosts.processes.rpc_methods import Method
from scheduler_service.hosts.processes.worker_handle import call_method
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.sending import MayGo, Sender, always

_NAME = re.compile(r"(?i:service)://([^/?#{]+)")
Argument = TypeVar("Argument")


class RemoteRouter:
    """ports.instances.Router of the service."""

    def __init__(self, *, line: RpcConnection) -> None:
        self._line = line
        self._entering: dict[Token, asyncio.Future[bytes]] = {}

    async def resolve(self, search: ResolveInstances) -> tuple[tuple[Chosen, ...], str]:
        """As in the port."""
        return await call_method(self._line, rpc_methods.RESOLVE, search)

    def take_place(self, call: CallPart) -> bool:
        """Never; but it asks at once, before the search gives up the place that it holds for the call."""
        self._entering[call.token] = self._ask(call)
        return False

    async def enter(self, call: CallPart) -> None:
        """As in the port."""
        await (self._entering.pop(call.token, None) or self._ask(call))

    def leave(self, token: Token) -> None:
        """As in the port."""
        asked = self._entering.pop(token, None)
        if asked is not None:
            asked.cancel()
        _tell(self._line, rpc_methods.LEAVE, token)

    def mark_draining(self, tenant: str, service: str, instance: str) -> None:
        """As in the port."""
        _tell(self._line, rpc_methods.MARK_DRAINING, (tenant, service, instance))

    def _ask(self, call: CallPart) -> asyncio.Future[bytes]:
        bare = msgspec.structs.replace(call.request, headers=(), body=None)
        packed = rpc_methods.ENTER.write_argument(msgspec.structs.replace(call, request=bare))
        return self._line.call(rpc_methods.ENTER.name, packed)


class ParentDirectory:
    """transport.services.Directory by what the service said last; each question renews the answer."""

    def __init__(self, *, line: RpcConnection) -> None:
        self._line = line
        self._known: dict[str, tuple[str | None, bool]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def address(self, name: str) -> str | None:
        """The base address of a service, as it was learnt last."""
        return self._known.get(name, (None, False))[0]

    def awaits_instances(self, name: str) -> bool:
        """Whether instances may live that have not registered since the service's start."""
        awaits = self._known.get(name, (None, False))[1]
        if awaits:  # who waits for them asks again in a moment
            task = asyncio.ensure_future(self.learn(name))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return awaits

    async def learn(self, name: str) -> None:
        """Asks the service. Raises nothing: where it does not answer, what is known stays."""
        try:
            self._known[name] = await call_method(self._line, rpc_methods.ADDRESS, name)
        except StoreError:
            return  # the line is cut, and this process about to end


class LookupSender:
    """ports.Sender that learns where a service is before it sends there."""

    def __init__(self, *, sender: Sender, directory: ParentDirectory) -> None:
        self._sender = sender
        self._directory = directory

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The target's answer, or why there is none. Raises nothing but CancelledError and NotSent."""
        if request.url[:8].lower() == "service:" and not request.base:
            name = _NAME.match(request.url)
            if name is not None:
                await self._directory.learn(name[1])
        return await self._sender.send(request, may_go)

    async def close(self) -> None:
        """Closes what it stands on."""
        await self._sender.close()


def wake_parent_claimers(line: RpcConnection, write: QueueWrite) -> None:
    """A turn of this share has written into queues: those who wait for work look again."""
    keys = None
    if isinstance(write, PublishParts):
        keys = sorted({(part.tenant, part.queue) for part in write.parts})
    _tell(line, rpc_methods.STIR, keys)


def _tell(line: RpcConnection, method: Method[Argument, None], argument: Argument) -> None:
    line.tell(method.name, method.write_argument(argument))
