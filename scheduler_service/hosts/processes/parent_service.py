"""What the service's process does for its worker processes (`parent_client`)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.domain.wire import Token
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.rpc_methods import OccurrenceGroup
from scheduler_service.ports.services import Router
from scheduler_service.telemetry.occurrences import Take

T = TypeVar("T")
AddressOf = Callable[[str], tuple[str | None, int]]
"""The address of a service, and how long (ms) a call waits in all for an instance of it."""
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
    ) -> None:
        self._router = router
        self._publish = publish
        self._address_of = address_of
        self._wake_claimers = wake_claimers
        self._places: dict[Token, asyncio.Task[object] | None] = {}

    async def serve(self, method: str, argument: bytes) -> bytes:
        """Answers one call. Raises KeyError for an unknown method."""
        if method == rpc_methods.RESOLVE.name:
            search = rpc_methods.RESOLVE.read_argument(argument)
            chosen = await self._enter(search.token, self._router.resolve(search))
            return rpc_methods.RESOLVE.write_result(chosen)
        if method == rpc_methods.ENTER.name:
            call = rpc_methods.ENTER.read_argument(argument)
            may_call = await self._enter(call.token, self._router.enter(call))
            return rpc_methods.ENTER.write_result(may_call)
        if method == rpc_methods.WATCH.name:
            watch = rpc_methods.WATCH.read_argument(argument)
            loss = await self._enter(watch.token, self._router.wait_for_loss(watch))
            del self._places[watch.token]
            return rpc_methods.WATCH.write_result(loss)
        if method == rpc_methods.ADDRESS.name:
            address = self._address_of(rpc_methods.ADDRESS.read_argument(argument))
            return rpc_methods.ADDRESS.write_result(address)
        if method == rpc_methods.HAPPENED.name:
            self._publish_all(rpc_methods.HAPPENED.read_argument(argument))
            return rpc_methods.HAPPENED.write_result(None)
        raise KeyError(method)

    def take_notice(self, method: str, argument: bytes) -> None:
        """Handles one notice; unknown ones are ignored."""
        if method == rpc_methods.LEAVE.name:
            self._leave(rpc_methods.LEAVE.read_argument(argument))
        elif method == rpc_methods.MARK_DRAINING.name:
            self._router.mark_draining(*rpc_methods.MARK_DRAINING.read_argument(argument))
        elif method == rpc_methods.MARK_REFUSED.name:
            self._router.mark_refused(*rpc_methods.MARK_REFUSED.read_argument(argument))
        elif method == rpc_methods.WAKE_CLAIMERS.name:
            notice = rpc_methods.WAKE_CLAIMERS.read_argument(argument)
            self._wake_claimers(notice.queues, notice.check_at)

    def end(self) -> None:
        """The process has ended: gives all its places back."""
        for token in list(self._places):
            self._leave(token)

    def _publish_all(self, group: OccurrenceGroup) -> None:
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
