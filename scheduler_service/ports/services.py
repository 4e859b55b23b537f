"""Services and their instances: the table that keeps them, and the router that finds one for a step."""

from collections.abc import Sequence
from typing import Protocol

from scheduler_service.domain.effects import CallPart, ResolveInstances, WatchInstance
from scheduler_service.domain.registered_services import Applied, Kind, Loss, Pause, Service
from scheduler_service.domain.step_parts import Chosen
from scheduler_service.domain.wire import Token


class ServiceTable(Protocol):
    """Services, the timers that they declare, what was done about them, and what is paused.

    All raise StoreUnavailable.
    """

    async def services(self) -> Sequence[Service]:
        """All services, removed ones too, by tenant and name."""

    async def timers(self, tenant: str, name: str) -> bytes:
        """The declared definitions as a JSON array; `[]` where there are none."""

    async def declared_bytes(self, tenant: str, name: str) -> tuple[int, int]:
        """The bytes of the declared definitions as stored: those of this service, and of all together."""

    async def put(self, service: Service, timers: bytes | None = None) -> None:
        """Writes a service, and its timers where they are given: one transaction."""

    async def drop(self, tenant: str, name: str) -> None:
        """Removes a service and the rows of its jobs."""

    async def applied(self, tenant: str, name: str) -> Sequence[Applied]:
        """What was done about the jobs that the service declares or declared."""

    async def owner(self, tenant: str, job_id: str, uid: str) -> str | None:
        """The service whose declaration created this life of a job, or took it over; None: there is none."""

    async def note(self, kept: Sequence[Applied], dropped: Sequence[Applied]) -> None:
        """Writes what was done: one transaction. A job has one row, whichever service declares it."""

    async def pauses(self) -> Sequence[Pause]:
        """All that is paused."""

    async def pause(self, pause: Pause) -> None:
        """Writes that it is paused; where it is already, that stays."""

    async def resume(self, kind: Kind, tenant: str, name: str) -> None:
        """It is not paused any more."""


class Router(Protocol):
    """Chooses among the instances of services by policy and capacity. In memory; raises nothing."""

    async def resolve(self, search: ResolveInstances) -> tuple[tuple[Chosen, ...], str, int, bool]:
        """The instances for the step (none where there are none) and the policy. Waits while all are full.

        Also how long, in ms, a search that `waits` would wait for an instance where there is none (one that
        does returns when that is over at the latest), and whether the service is paused: one that is `held`
        waits for the end of that.
        A place is held for `search.token` until the call takes it over, or `leave`.
        """

    def take_place(self, call: CallPart) -> bool:
        """Whether the call may be made now; then its place is held until `leave`."""

    async def enter(self, call: CallPart) -> bool | None:
        """Returns when the call may be made; its place is held until `leave`.

        False: its instance has said since that it takes no more work, and must not be called. None: its
        service is paused.
        """

    def leave(self, token: Token) -> None:
        """A call, or a search, is over; does nothing where nothing is held for it."""

    async def wait_for_loss(self, watch: WatchInstance) -> Loss:
        """Returns when the instance is lost; `leave` ends the wait."""

    def mark_draining(self, tenant: str, service: str, instance: str) -> None:
        """Notes the answer of an instance that it accepts no more work."""

    def mark_refused(self, tenant: str, service: str, instance: str) -> None:
        """Notes that an instance refused a connection; it is chosen again after its next heartbeat."""
