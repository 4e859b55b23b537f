"""What every process that takes turns is made of: a service, a worker process, a node of a cluster."""

import asyncio
import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

import msgspec

from scheduler_service import how_to_install
from scheduler_service.app.core_settings import DefinitionCompiler, given_secrets, make_signer
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.app.tenant_limits import Reached, make_rates
from scheduler_service.domain.effects import QueueWrite
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.compile import with_present_days
from scheduler_service.engine.program import Program, Surroundings
from scheduler_service.hosts.begun_executions import open_begun_mark
from scheduler_service.hosts.embedded.early_commit import BATCH_WINDOW_MS, BURST_LEAD_MS, EARLY_COMMIT_MS
from scheduler_service.hosts.embedded.embedded_host import EmbeddedHost, EmbeddedParts, build_embedded_host
from scheduler_service.hosts.host import Host, HostStatus
from scheduler_service.hosts.host_dependencies import Core, HostLimits, HostParts
from scheduler_service.pacing.waiting_room import Room
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.persistence.tables.key_secret_calendar_tables import SqlCalendarTable, SqlSecretTable
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.sending import CallingSender
from scheduler_service.ports.services import Router
from scheduler_service.ports.state import OpenStore, StateStore
from scheduler_service.security.history_masking import Masking
from scheduler_service.security.secret_vault import Seal, SecretVault
from scheduler_service.security.secrets import SecretMasks, SecretSources
from scheduler_service.security.signing import RequestSigner
from scheduler_service.services.rate_sharing import RateSharing
from scheduler_service.services.shared_calendars import Calendars
from scheduler_service.services.tenant_execution_rates import ExecutionRates
from scheduler_service.settings import LoadedSettings, SettingsError
from scheduler_service.settings.sources import read_seal_keys
from scheduler_service.system_jobs.alert_jobs import made_here, robots_of
from scheduler_service.telemetry.log_summaries import Outage
from scheduler_service.telemetry.turn_observers import ObservedHistory
from scheduler_service.transport.connection_pool import RESPONSES_BYTES
from scheduler_service.transport.secret_completion import CompletingSender


class GivenParts(TypedDict):
    """What each process of a service is made of."""

    surroundings: Surroundings
    database: HistoryDatabase
    clock: Timekeeper
    telemetry: Telemetry


class ProcessParts(ABC):
    """The parts that all these processes have, each built when it is first asked for.

    What is abstract is of the placement. What the process shows of itself is `telemetry`.
    """

    def __init__(
        self,
        loaded: LoadedSettings,
        *,
        served: str,
        **given: Unpack[GivenParts],
    ) -> None:
        telemetry, clock = given["telemetry"], given["clock"]
        telemetry.follow(clock)
        self.loaded, self.settings, self.served = loaded, loaded.settings, served
        self.surroundings = msgspec.structs.replace(
            given["surroundings"],
            judge_secret=lambda *secret: self.signer.judge(*secret),
            has_secret=lambda *secret: bool(self.secrets.find(*secret)),
            find_calendar=lambda *name: self.calendars.find(*name),
        )
        self.compiler = DefinitionCompiler(settings=loaded.settings, surroundings=self.surroundings)
        self.database, self.clock = given["database"], clock
        self.telemetry, self.log = telemetry, telemetry.log
        self.answer_room = Room(RESPONSES_BYTES)

    @property
    @abstractmethod
    def host(self) -> Host:
        """Takes the turns of this process."""

    @property
    @abstractmethod
    def store(self) -> StateStore:
        """That of the jobs that this process has."""

    @property
    @abstractmethod
    def sender(self) -> CallingSender:
        """Sends requests, and runs what system jobs name."""

    @property
    @abstractmethod
    def router(self) -> Router:
        """Finds instances of services."""

    @property
    @abstractmethod
    def commits_waiting(self) -> int:
        """How many commits wait for the store."""

    @abstractmethod
    def wake_claimers(self, write: QueueWrite) -> None:
        """A turn has written into pull queues."""

    @cached_property
    def writer(self) -> HistoryWriter:
        """Writes the history, and tells of it on the thread of the loop.

        The jobs that the product makes for itself are in no sum over all jobs.
        """
        loop, log, watch = asyncio.get_running_loop(), self.log, self.telemetry.history_watch
        return HistoryWriter(
            database=self.database,
            # Later: a host is built on the history, and may have the store.
            on_written=lambda keys: call_on(loop, lambda: _ignore(self.store.written(keys))),
            on_trouble=lambda trouble: call_on(loop, watch.note, trouble),
            on_changed=lambda text: call_on(loop, lambda: log("records_changed", error=text)),
            system_jobs=made_here(self.settings),
        )

    @cached_property
    def secrets(self) -> SecretSources:
        """Those of all tenants; what settings say comes first, then files, then what is stored.

        Raises SettingsError where `secrets_dir` is no folder.
        """
        stored = [] if self.secret_vault is None else [self.secret_vault]
        return SecretSources([*given_secrets(self.settings), *stored])

    @cached_property
    def secret_vault(self) -> SecretVault | None:
        """The stored secrets; None: no key is set. Raises SettingsError."""
        keys = read_seal_keys(self.settings)
        if not keys:
            return None
        try:
            seal = Seal(keys)
        except ImportError as error:
            needed = how_to_install("service", "secrets")
            raise SettingsError(f"secrets_key needs the package {error.name}; {needed}") from error
        outage = Outage("secrets_not_read", "secrets_read_again", log=self.log)
        return SecretVault(table=self.secret_table, seal=seal, clock=self.clock, on_trouble=outage.note)

    async def _look_at_secrets(self) -> None:
        if self.secret_vault is not None:
            await self.secret_vault.next_look()

    @cached_property
    def secret_table(self) -> SqlSecretTable:
        """Where they lie."""
        return SqlSecretTable(database=self.database)

    @cached_property
    def calendars(self) -> Calendars:
        """The calendars of all tenants."""
        outage = Outage("calendars_not_read", "calendars_read_again", log=self.log)
        return Calendars(table=self.calendar_table, clock=self.clock, on_trouble=outage.note)

    async def compile_received(self, text: bytes, tenant: str) -> Program:
        """A definition that another process took in, with days at least as new as that one knew them.

        Where they cannot be read, with those that are known here.
        """
        program = await self.compiler.stored(text, tenant)
        if program.timer.rule is not None:
            with contextlib.suppress(StoreError):
                await self.calendars.look()
        return with_present_days(program)

    @cached_property
    def calendar_table(self) -> SqlCalendarTable:
        """Where they lie."""
        return SqlCalendarTable(database=self.database)

    async def open_shared(self) -> None:
        """Reads calendars and stored secrets, and follows them. Raises SettingsError, StoreUnavailable."""
        await self.calendars.load()
        self.calendars.start()
        if self.secret_vault is not None:
            await self.secret_vault.load()
            self.secret_vault.start()

    async def close_shared(self) -> None:
        """Ends that."""
        await self.calendars.stop()
        await self.calendar_table.close()
        if self.secret_vault is not None:
            await self.secret_vault.stop()
            await self.secret_table.close()

    @cached_property
    def secret_masks(self) -> SecretMasks:
        """Hides the values of secrets in what comes back and is kept."""
        environments = self.settings.env | {DEFAULT_TENANT: self.surroundings.environment}
        return SecretMasks(sources=[self.secrets], environments=environments)

    @cached_property
    def signer(self) -> RequestSigner:
        """Signs requests; secrets that sign alone come first. Raises as `secrets`."""
        return make_signer(self.settings, self.secrets, lambda: self.clock.now().wall / SECOND)

    @cached_property
    def execution_rates(self) -> ExecutionRates | None:
        """How many executions tenants may begin a minute; None: no tenant has a limit."""
        shared = self.shared_rates
        window_of = None if shared is None else shared.window
        return make_rates(self.settings, clock=self.clock, reached=self.limits_reached, window_of=window_of)

    @cached_property
    def limits_reached(self) -> Reached:
        """Tells of limits of tenants that are reached."""
        reached = Reached(self.log)
        self.telemetry.show("tenant limits", reached.samples)
        return reached

    @cached_property
    def shared_rates(self) -> RateSharing | None:
        """What counts for limits over several processes; None: there is this one."""
        return None

    @cached_property
    def host_parts(self) -> HostParts:
        """What every host is made of."""
        telemetry, history = self.telemetry, self.settings.history
        limits, notification = self.settings.limits, self.settings.notification
        masking = Masking(
            headers=history.mask,
            members=history.mask,
            body_bytes=history.body_bytes,
            detail=history.detail,
            secrets=self.secret_masks,
        )
        completing = CompletingSender(
            sender=self.sender, secrets=self.secrets, masks=self.secret_masks, look=self._look_at_secrets
        )
        return HostParts(
            core=Core(self.compiler.stored, compile_received=self.compile_received),
            history=ObservedHistory(history=self.writer, observers=telemetry.observers),
            sender=telemetry.wrap_sender(completing),
            answer_room=self.answer_room,
            router=self.router,
            clock=self.clock,
            redact=masking.redact_all,
            reads_bodies=masking.reads_bodies,
            log=self.log,
            wake_claimers=self.wake_claimers,
            observe_job=telemetry.observe_job,
            observe_call=telemetry.observe_call,
            rates=self.execution_rates,
            limits=HostLimits(
                ready=limits.ready,
                open_bytes=limits.open_bytes,
                retries=notification.retries,
                interval=round(notification.interval_seconds * SECOND),
                early_commit=EARLY_COMMIT_MS,
                batch_window=BATCH_WINDOW_MS,
                burst_lead=BURST_LEAD_MS,
            ),
            robots=robots_of(self.settings, self.secrets, self.clock),
        )

    def describe(self) -> Mapping[str, Mapping[str, object]]:
        """The figures of each part: numbers and names of origins alone."""
        calls, notifications = self.host.effects.calls, self.host.effects.notifications
        batches, size = self.writer.waiting
        return {
            "jobs": {
                "held": self.host.jobs_held,
                "running": self.host.running,
                "calls": len(calls) - calls.parts,
                "parts": calls.parts,
                "notifications": len(notifications),
            },
            "calls": {"origins": self.sender.open_calls()},
            "store": {"commitsWaiting": self.commits_waiting},
            "history": {"batchesWaiting": batches, "bytesWaiting": size},
        }

    def status_since(self, moment: int) -> HostStatus:
        """The figures of this process, which began at `moment` (wall ms)."""
        longest = round(self.telemetry.standstills.longest * 1_000)
        return HostStatus(self.host.jobs_held, self.host.running, os.getpid(), moment, longest)


def make_embedded_host(
    parts: HostParts, store: OpenStore, folder: Path | None, shard: int = 0
) -> EmbeddedHost:
    """The host of one store in this process; `folder`: where its files lie."""
    holder = holder_of(store)
    begun = None if folder is None else open_begun_mark(folder / f"begun-{shard}", holder)
    return build_embedded_host(
        EmbeddedParts(
            store=store, holder=holder, boot=store.boot, begun=begun, **msgspec.structs.asdict(parts)
        )
    )


def holder_of(store: OpenStore) -> Holder:
    """This process in its present start over the store."""
    return Holder(store.node_id, f"{store.boot}-{os.getpid()}")


def call_on(loop: asyncio.AbstractEventLoop, work: Callable[..., object], *given: object) -> None:
    """Calls `work` on the loop's thread; not where the loop has ended, since nobody can take it any more."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(work, *given)


def _ignore(writing: Any) -> None:
    """A confirmation that fails is repeated after the next start; a repetition does nothing."""
    asyncio.ensure_future(writing).add_done_callback(lambda done: done.cancelled() or done.exception())
