"""What a worker process asks of the service's process, and tells it; both ends of it.

Instances of services, their capacities and their wait queues are in the service's process alone, so that
capacities and rates hold over all shards; so are claims that wait for work, and those who take occurrences.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from scheduler_service.domain.effects import (
    CallPart,
    PublishParts,
    QueueWrite,
    ResolveInstances,
    WatchInstance,
    next_check,
)
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.domain.registered_services import Loss
from scheduler_service.domain.step_parts import Chosen
from scheduler_service.domain.wire import OutboundRequest, Outcome, Token
from scheduler_service.hosts.background_tasks import Tasks
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.rpc_methods import OccurrenceGroup, RpcConnection
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.sending import CallingSender, MayGo, always
from scheduler_service.ports.services import Router
from scheduler_service.ports.shared_registry import RatePage, SharedRates
from scheduler_service.telemetry.event_source import Occurrences, Take

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


class RemoteRates:
    """`ports.shared_registry.SharedRates` of the service's process."""

    def __init__(self, *, connection: RpcConnection) -> None:
        self._connection = connection

    async def read(self, tenant: str, service: str) -> RatePage:
        """The latest page. Raises StoreError."""
        return await rpc_methods.READ_RATE.call(self._connection, (tenant, service))

    async def write(self, tenant: str, service: str, page: RatePage) -> bool:
        """Whether it was written. Raises StoreError."""
        return await rpc_methods.WRITE_RATE.call(self._connection, (tenant, service, page))


UNKNOWN: rpc_methods.Location = (None, 0, "", None)


class ParentDirectory:
    """`transport.service_urls.Directory` by the service's latest answers."""

    def __init__(self, *, connection: RpcConnection) -> None:
        self._connection = connection
        self._known: dict[str, rpc_methods.Location] = {}
        self._tasks = Tasks()

    def address(self, name: str) -> str | None:
        """The base address of a service, as of the latest answer."""
        return self._known.get(name, UNKNOWN)[0]

    def wait(self, name: str) -> int:
        """How long (ms) a call waits in all for an instance that takes work."""
        wait = self._known.get(name, UNKNOWN)[1]
        if wait:  # the sender asks again in a moment: by then the answer is renewed
            self._tasks.start(self.learn(name))
        return wait

    def signing(self, name: str) -> str:
        """The secret that signs calls of a service, as of the latest answer."""
        return self._known.get(name, UNKNOWN)[2]

    def vouched(self, name: str) -> bool | None:
        """Whether the base address may be private, as of the latest answer."""
        return self._known.get(name, UNKNOWN)[3]

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


GROUP_SECONDS = 0.02
MOST_WAITING = 5_000
"""Occurrences that wait to be sent; what comes beyond them is counted, and told as a gap."""


class OccurrenceRelay:
    """Brings the occurrences of a worker process to the service's process.

    Those of jobs while somebody takes them there; those of the process itself always: they are rare, and
    alerts need them. They go in groups, each when the service has answered the one before: a slow service
    makes no heap here.

    What happens to the process itself has the subject `worker 2`, to its history `worker 2/history`.
    """

    def __init__(self, *, occurrences: Occurrences, connection: RpcConnection, worker: int) -> None:
        self._occurrences = occurrences
        self._connection = connection
        self._subject = f"worker {worker}"
        self._waiting: list[Occurrence] = []
        self._lost = 0
        self._is_sending = False
        self._leave: Callable[[], None] | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        occurrences.listen(self._take_own)

    def listen(self, is_wanted: bool) -> None:
        """Takes the occurrences of jobs from now on, or no more."""
        if is_wanted and self._leave is None:
            self._leave = self._occurrences.subscribe(self._take_of_jobs)
        elif not is_wanted and self._leave is not None:
            self._leave()
            self._leave = None

    async def flush(self) -> None:
        """Returns when the service has all that has happened so far, or is gone."""
        await self._settled.wait()

    def _take_of_jobs(self, occurrence: Occurrence) -> None:
        if occurrence.tenant is not None:
            self._take(occurrence)

    def _take_own(self, occurrence: Occurrence) -> None:
        if occurrence.tenant is None:
            subject = "/".join(filter(None, (self._subject, occurrence.subject)))
            self._take(msgspec.structs.replace(occurrence, subject=subject))

    def _take(self, occurrence: Occurrence) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._lost += 1
            return
        self._waiting.append(occurrence)
        if not self._is_sending:
            self._is_sending = True
            self._settled.clear()
            asyncio.get_running_loop().call_later(GROUP_SECONDS, self._send)

    def _send(self) -> None:
        group = OccurrenceGroup(self._waiting, self._lost)
        self._waiting, self._lost = [], 0
        packed = rpc_methods.HAPPENED.write_argument(group)
        self._connection.call(rpc_methods.HAPPENED.name, packed).add_done_callback(self._go_on)

    def _go_on(self, answer: "asyncio.Future[bytes]") -> None:
        if not answer.cancelled():
            answer.exception()  # the connection is cut, and this process about to end
        if self._waiting:
            asyncio.get_running_loop().call_later(GROUP_SECONDS, self._send)
        else:
            self._is_sending = False
            self._settled.set()


T = TypeVar("T")
AddressOf = Callable[[str], rpc_methods.Location]
"""The address of a service, how long (ms) a call waits in all for an instance of it, and what signs it."""
WakeClaimers = Callable[[Sequence[tuple[str, str]] | None, int | None], None]
"""Wakes claims that wait for work of these queues (tenant, name; None: of all), and says when queue timeouts
must be checked (steady ms; None: as before).
"""


def _take_nothing(occurrence: Occurrence) -> None:
    pass


class ParentService:
    """Answers one start of a worker process; the places that it has are given back when it ends."""

    def __init__(
        self,
        *,
        router: Router,
        address_of: AddressOf,
        wake_claimers: WakeClaimers,
        publish: Take = _take_nothing,
        rates: SharedRates | None = None,
    ) -> None:
        self._router = router
        self._publish = publish
        self._address_of = address_of
        self._places: dict[Token, asyncio.Task[object] | None] = {}
        self._handlers = dict(
            (
                rpc_methods.RESOLVE.served_by(
                    lambda search: self._enter(search.token, router.resolve(search))
                ),
                rpc_methods.ENTER.served_by(lambda call: self._enter(call.token, router.enter(call))),
                rpc_methods.WATCH.served_by(self._watch),
                rpc_methods.ADDRESS.served_by(self._locate),
                rpc_methods.HAPPENED.served_by(self._publish_all),
            )
        )
        if rates is not None:
            self._handlers |= (
                rpc_methods.READ_RATE.served_by(lambda key: rates.read(*key)),
                rpc_methods.WRITE_RATE.served_by(lambda written: rates.write(*written)),
            )
        self._notices = dict(
            (
                rpc_methods.LEAVE.taken_by(self._leave),
                rpc_methods.MARK_DRAINING.taken_by(lambda instance: router.mark_draining(*instance)),
                rpc_methods.MARK_REFUSED.taken_by(lambda instance: router.mark_refused(*instance)),
                rpc_methods.WAKE_CLAIMERS.taken_by(lambda told: wake_claimers(told.queues, told.check_at)),
            )
        )

    async def serve(self, method: str, argument: bytes) -> bytes:
        """Answers one call. Raises KeyError for an unknown method."""
        return await self._handlers[method](argument)

    def take_notice(self, method: str, argument: bytes) -> None:
        """Handles one notice; unknown ones are ignored."""
        handle = self._notices.get(method)
        if handle is not None:
            handle(argument)

    def end(self) -> None:
        """The process has ended: gives all its places back."""
        for token in list(self._places):
            self._leave(token)

    async def _watch(self, watch: WatchInstance) -> Loss:
        loss = await self._enter(watch.token, self._router.wait_for_loss(watch))
        del self._places[watch.token]
        return loss

    async def _locate(self, name: str) -> rpc_methods.Location:
        return self._address_of(name)

    async def _publish_all(self, group: OccurrenceGroup) -> None:
        for occurrence in group.occurrences:
            self._publish(occurrence)
        if group.lost:
            at = group.occurrences[-1].at
            self._publish(Occurrence(kind=OccurrenceKind.GAP, at=at, count=group.lost))

    async def _enter(self, token: Token, place: Awaitable[T]) -> T:
        """The result of `place`, unless the process leaves before."""
        self._places[token] = asyncio.current_task()
        found = await place
        self._places[token] = None
        return found

    def _leave(self, token: Token) -> None:
        waiting = self._places.pop(token, None)
        if waiting is not None:
            waiting.cancel()
        self._router.leave(token)
