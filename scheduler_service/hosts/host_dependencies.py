"""What a host is made of, the same on one machine and in a cluster; `app` hands it in."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from scheduler_service.domain.effects import Effect
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.moments import SECOND, Due, Now
from scheduler_service.domain.records import Record
from scheduler_service.domain.turn_events import Event
from scheduler_service.engine.decide import decide
from scheduler_service.engine.decision import Decision, Job
from scheduler_service.engine.notification_retry import INTERVAL, RETRIES
from scheduler_service.engine.program import Program
from scheduler_service.hosts.calls_in_flight import WakeClaimers, wake_no_claimers
from scheduler_service.hosts.chat_robots import NO_ROBOTS, Robots
from scheduler_service.hosts.event_redelivery import LEASE
from scheduler_service.hosts.revisions import IdentitySource, NewIdentity
from scheduler_service.pacing.waiting_room import Room
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.delivery import Compile
from scheduler_service.ports.history import History
from scheduler_service.ports.log import Log
from scheduler_service.ports.sending import Sender
from scheduler_service.ports.services import Router
from scheduler_service.services.tenant_execution_rates import ExecutionRates
from scheduler_service.telemetry.turn_observers import ObserveCall, ObserveJob, observe_no_job

Decide = Callable[[Job, Event, Now], Decision]
"""`engine.decide.decide`."""


class Core(msgspec.Struct, frozen=True):
    """What a host compiles definitions with, and decides turns with (tests count those).

    `compile_received`: for those that another process took in; None: as all others.
    """

    compile: Compile
    decide: Decide = decide
    compile_received: Compile | None = None


class Redact(Protocol):
    """`Masking.redact_all`: what of some records may be written."""

    def __call__(
        self, records: Sequence[Record], *, detail: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> tuple[Any, ...]:
        """The records, masked and cut; `detail` is the `historyDetail` of the job, None: the setting."""


class Alarms(Protocol):
    """A job's alarm, as a turn sets it. Without authority: one too many does no harm, one too few does."""

    async def expect(self, job_id: str, due: Due) -> None:
        """Before a commit: rings no later than `due`, whatever is set already."""

    async def arm(self, job_id: str, due: Due) -> None:
        """After a commit: `due`, which is durable, replaces what is set."""

    async def hold(self, job_id: str, due: Due) -> None:
        """Without a commit: `due` replaces what is set, and lives in memory alone."""

    def again(self, job_id: str, pause: int = SECOND) -> None:
        """Rings in `pause` ms: nobody knows how the job stands, or what is due has to wait."""


Act = Callable[[str, tuple[Effect, ...], Mapping[int, Program]], None]
"""Starts the effects of a job's turn with the programs after it; never waits, never raises."""


class HostLimits(msgspec.Struct, frozen=True):
    """Alarms (`ready`) and jobs (`hot`) in memory, tries of a delivery, the lease of a call; times in ms.

    `hot_bytes`: what the definitions (`engine.program.weigh`) and states of these jobs may weigh together.
    `open_bytes`: what open executions may keep in memory together (`hosts.job_cache.OpenBytes`).
    `body_bytes`: what large bodies of durable notifications may take in memory; others are left to the store.
    `early_commit`: how far ahead of its moment a firing's turn may be taken and made durable, so that only
    sending is left at the moment itself. `batch_window`: how long of that firings wait for others.
    `burst_lead`: how far ahead where many firings are due at one moment (docs/decisions/0017).
    """

    ready: int = 100_000
    hot: int = 20_000
    hot_bytes: int = 48 << 20
    open_bytes: int = 80 << 20
    body_bytes: int = 16 << 20
    retries: int = RETRIES
    interval: int = INTERVAL
    lease: int = LEASE
    early_commit: int = 0
    batch_window: int = 0
    burst_lead: int = 0


DEFAULT_LIMITS = HostLimits()


class TurnParts(msgspec.Struct, frozen=True, kw_only=True):
    """What turns need of the outside, beside the store and the alarms.

    `reads_bodies`: `redact` reads bodies as a whole, so that large ones take it long. `rates`: the limits of
    executions a minute; None: no tenant has one.
    """

    core: Core
    history: History
    clock: Timekeeper
    redact: Redact
    reads_bodies: bool = True
    observe_job: ObserveJob = observe_no_job
    rates: ExecutionRates | None = None
    new_identity: NewIdentity = msgspec.field(default_factory=IdentitySource)


class HostParts(TurnParts, frozen=True, kw_only=True):
    """What turns need, and what carries out their effects."""

    sender: Sender
    answer_room: Room = msgspec.field(default_factory=lambda: Room(sys.maxsize))
    router: Router
    log: Log
    observe_call: ObserveCall | None = None
    wake_claimers: WakeClaimers = wake_no_claimers
    limits: HostLimits = DEFAULT_LIMITS
    robots: Robots = msgspec.field(default_factory=lambda: NO_ROBOTS)
