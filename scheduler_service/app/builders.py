"""What both hosts are made of: values that settings give, the history's writer, the cleaner, the sender."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from scheduler_service.app.egress import egress_of
from scheduler_service.app.service_registry import ServiceRegistry
from scheduler_service.app.surroundings import TENANT, Compiler
from scheduler_service.app.system_jobs import CHECK_TIMERS, CLEAN, OUTBOX, as_function
from scheduler_service.domain.moments import DAY, SECOND
from scheduler_service.engine.machine import decide
from scheduler_service.engine.snapshot import decode, encode, needs_commit
from scheduler_service.engine.status import due, summarize
from scheduler_service.hosts.cleanup import Cleanup, DestroyedJobs
from scheduler_service.hosts.clock import Timekeeper
from scheduler_service.hosts.host_parts import Core, HostLimits
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.retention import Retention
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.ports.log import Log
from scheduler_service.security.masking import Masking
from scheduler_service.settings import Loaded, Settings
from scheduler_service.transport.resolver import SystemResolver
from scheduler_service.transport.sender import HttpSender, SystemFunction
from scheduler_service.transport.service_urls import Directory

Confirm = Callable[[Sequence[tuple[str, int]]], Awaitable[None]]
"""Takes the keys of batches that the history has (`ports.state.StateStore.written`)."""


class Resending(Protocol):
    """Sends again what lies in the outbox."""

    async def resend_outbox(self) -> int:
        """As `hosts.notification_sender.Courier.resend_outbox`."""


class Outbox:
    """`system://outbox`, bound to the courier when there is one: that needs the sender, which needs this."""

    notifications: Resending

    async def resend(self) -> dict[str, int]:
        """How many deliveries were tried."""
        return {"tried": await self.notifications.resend_outbox()}


def make_core(compiler: Compiler) -> Core:
    """The core behind every turn."""
    return Core(
        decide=decide,
        encode=encode,
        decode=decode,
        needs_commit=needs_commit,
        due=due,
        summarize=summarize,
        compile=compiler.stored,
    )


def make_masking(settings: Settings) -> Masking:
    """What of records may be written."""
    return Masking(
        headers=settings.history.mask,
        members=settings.history.mask,
        body_bytes=settings.history.body_bytes,
        detail=settings.history.detail,
    )


# A commit takes a millisecond or two, and at times, beside a checkpoint, ten.
EARLY_COMMIT = 20
BATCH_WINDOW = 10

# So long before its moment the turns of a crowd may begin: five thousand firings in time with one process.
BURST_LEAD = 500


def limits_of(settings: Settings) -> HostLimits:
    """What settings say to a host."""
    return HostLimits(
        ready=settings.limits.ready,
        retries=settings.notification.retries,
        interval=round(settings.notification.interval_seconds * SECOND),
        early_commit=EARLY_COMMIT,
        batch_window=BATCH_WINDOW,
        burst_lead=BURST_LEAD,
    )


def open_writer(confirm: Confirm, database: HistoryDatabase, log: Log) -> HistoryWriter:
    """The history's writer; it calls `confirm` with what is written."""
    loop = asyncio.get_running_loop()

    def on_written(keys: Sequence[tuple[str, int]]) -> None:
        loop.call_soon_threadsafe(lambda: _ignore(confirm(keys)))

    def tell(trouble: str | None) -> None:
        if trouble is None:
            log("history_writes_again")
        else:
            log("history_not_written", error=trouble)

    return HistoryWriter(database=database, on_written=on_written, on_trouble=tell)


def _ignore(writing: Any) -> None:
    """A confirmation that is not written is given again after the next start; a repetition does nothing."""
    asyncio.ensure_future(writing).add_done_callback(lambda done: done.cancelled() or done.exception())


def make_cleanup(
    settings: Settings, store: DestroyedJobs, writer: HistoryWriter, clock: Timekeeper
) -> Cleanup:
    """What removes history and destroyed jobs."""
    retention = Retention(
        writer=writer,
        count=settings.history.retain_count,
        age=round(settings.history.retain_days * DAY),
        max_bytes=settings.history.max_bytes,
    )
    return Cleanup(store=store, retention=retention, clock=clock, tenant=TENANT)


def system_functions(
    cleaner: Cleanup, outbox: Outbox, services: ServiceRegistry
) -> dict[str, SystemFunction]:
    """What `system://NAME` does (SPEC section 11)."""
    return {
        CHECK_TIMERS: as_function(services.check_timers),
        CLEAN: as_function(cleaner.sweep),
        OUTBOX: as_function(outbox.resend),
    }


def make_sender(
    loaded: Loaded, served: str, *, directory: Directory, system: Mapping[str, SystemFunction]
) -> HttpSender:
    """The sender, which asks `directory` where services are."""
    settings = loaded.settings
    return HttpSender(
        policy=egress_of(loaded),
        directory=directory,
        resolver=SystemResolver(),
        response_bytes=settings.limits.response_bytes,
        owner_url=served,
        gateway=settings.services.gateway,
        system=system,
    )
