"""What a worker process asks of the service's process: the instances of services, and their addresses.

Instances, their capacities and their wait queues are in the service's process alone, so that capacities and
rates hold over all shards.
"""

import asyncio
import re
from collections.abc import Mapping

import msgspec

from scheduler_service.domain.effects import (
    CallPart,
    PublishParts,
    QueueWrite,
    ResolveInstances,
    WatchInstance,
    next_check,
)
from scheduler_service.domain.parts import Chosen
from scheduler_service.domain.services import Loss
from scheduler_service.domain.wire import OutboundRequest, Outcome, Token
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.rpc_connection import RpcConnection
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.sending import CallingSender, MayGo, always

_NAME = re.compile(r"(?i:service)://([^/?#{]+)")


class RemoteRouter:
    """`ports.services.Router` of the service's process."""

    def __init__(self, *, connection: RpcConnection) -> None:
        self._connection = connection
        self._entering: dict[Token, asyncio.Future[bytes]] = {}

    async def resolve(self, search: ResolveInstances) -> tuple[tuple[Chosen, ...], str, int, bool]:
        """The chosen instances, how they were chosen, how long one is waited for; whether all is paused."""
        return await rpc_methods.RESOLVE.call(self._connection, search)

    def take_place(self, call: CallPart) -> bool:
        """Always False; but `enter` is sent at once, before the search gives up the place that it has."""
        self._entering[call.token] = self._enter(call)
        return False

    async def enter(self, call: CallPart) -> bool | None:
        """Returns when the call has a place at its instance; False: that takes no more work; None: paused."""
        entering = self._entering.pop(call.token, None) or self._enter(call)
        return rpc_methods.ENTER.read_result(await entering)

    def leave(self, token: Token) -> None:
        """Gives the place back, or stops waiting for one."""
        entering = self._entering.pop(token, None)
        if entering is not None:
            entering.cancel()
        rpc_methods.LEAVE.notify(self._connection, token)

    async def wait_for_loss(self, watch: WatchInstance) -> Loss:
        """Returns when the instance is lost."""
        return await rpc_methods.WATCH.call(self._connection, watch)

    def mark_draining(self, tenant: str, service: str, instance: str) -> None:
        """The instance is chosen no more."""
        rpc_methods.MARK_DRAINING.notify(self._connection, (tenant, service, instance))

    def mark_refused(self, tenant: str, service: str, instance: str) -> None:
        """The instance is chosen again after its next heartbeat."""
        rpc_methods.MARK_REFUSED.notify(self._connection, (tenant, service, instance))

    def _enter(self, call: CallPart) -> asyncio.Future[bytes]:
        bare = msgspec.structs.replace(call.request, headers=(), body=None)
        packed = rpc_methods.ENTER.write_argument(msgspec.structs.replace(call, request=bare))
        return self._connection.call(rpc_methods.ENTER.name, packed)


class ParentDirectory:
    """`transport.service_urls.Directory` by the service's latest answers."""

    def __init__(self, *, connection: RpcConnection) -> None:
        self._connection = connection
        self._known: dict[str, tuple[str | None, int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def address(self, name: str) -> str | None:
        """The base address of a service, as of the latest answer."""
        return self._known.get(name, (None, 0))[0]

    def wait(self, name: str) -> int:
        """How long (ms) a call waits in all for an instance that takes work."""
        wait = self._known.get(name, (None, 0))[1]
        if wait:  # the sender asks again in a moment: by then the answer is renewed
            task = asyncio.ensure_future(self.learn(name))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return wait

    async def learn(self, name: str) -> None:
        """Renews the answer. Raises nothing: where the service does not answer, the latest one stays."""
        try:
            self._known[name] = await rpc_methods.ADDRESS.call(self._connection, name)
        except StoreError:
            return  # the connection is cut, and this process about to end


class LookupSender:
    """`ports.sending.Sender` that asks for the address of a service before it sends there."""

    def __init__(self, *, sender: CallingSender, directory: ParentDirectory) -> None:
        self._sender = sender
        self._directory = directory

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The target's answer, or why there is none. Raises nothing but CancelledError and NotSent."""
        if request.url[:8].lower() == "service:" and not request.base:
            name = _NAME.match(request.url)
            if name is not None:
                await self._directory.learn(name[1])
        return await self._sender.send(request, may_go)

    def open_calls(self) -> Mapping[str, Mapping[str, int]]:
        """Those of the sender behind it."""
        return self._sender.open_calls()

    async def close(self) -> None:
        """Closes the sender behind it."""
        await self._sender.close()


def wake_parent_claimers(connection: RpcConnection, write: QueueWrite) -> None:
    """After a turn of this shard has written into queues: claims that wait for work look again."""
    queues = None
    if isinstance(write, PublishParts):
        queues = sorted({(part.tenant, part.queue) for part in write.parts})
    notice = rpc_methods.QueueNotice(queues, next_check(write))
    rpc_methods.WAKE_CLAIMERS.notify(connection, notice)
