"""What all hosts are made of: parts from the settings, the history's writer, the cleanup, the sender."""

import asyncio
import contextlib
import os
import pwd
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from scheduler_service.app.own_process import current_limit, divide
from scheduler_service.app.service_registry import ServiceRegistry
from scheduler_service.app.surroundings import DefinitionCompiler, Secrets
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.moments import DAY, SECOND
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.begun_mark import open_begun_mark
from scheduler_service.hosts.cleanup import Cleanup, Trials
from scheduler_service.hosts.embedded.early_commit import BATCH_WINDOW_MS, BURST_LEAD_MS, EARLY_COMMIT_MS
from scheduler_service.hosts.embedded.host import EmbeddedHost, EmbeddedParts, build_embedded_host
from scheduler_service.hosts.host_parts import Core, HostLimits, HostParts
from scheduler_service.hosts.in_flight import WakeClaimers, wake_no_claimers
from scheduler_service.pacing.room import Room
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.retention import Retention
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.ports.clock import Clock, Timekeeper
from scheduler_service.ports.delivery import Deliver
from scheduler_service.ports.history import History
from scheduler_service.ports.log import Log
from scheduler_service.ports.sending import Sender
from scheduler_service.ports.services import Router
from scheduler_service.ports.state import JobStore, OpenStore
from scheduler_service.security.masking import Masking
from scheduler_service.settings import LoadedSettings, Settings
from scheduler_service.system_jobs import alert_jobs
from scheduler_service.system_jobs.own_jobs import CHECK_TIMERS, CLEAN, OUTBOX, as_function
from scheduler_service.telemetry.decorators import NO_DECORATORS, PortDecorators
from scheduler_service.telemetry.trouble import HistoryWatch
from scheduler_service.transport.addresses import read_url
from scheduler_service.transport.guard import EgressPolicy, Guard, Route, judge_literal
from scheduler_service.transport.lookups import SystemResolver
from scheduler_service.transport.name_check import NameCheck
from scheduler_service.transport.sender import HttpSender, SystemFunction
from scheduler_service.transport.service_urls import Directory, InvocationDirectory

LOOPBACK = ("127.0.0.0/8", "::1")
Confirm = Callable[[Sequence[tuple[str, int]]], Awaitable[None]]
"""Takes the keys of batches that the history has (`ports.state.StateStore.written`)."""


def make_compiler(settings: Settings, surroundings: Surroundings) -> DefinitionCompiler:
    """What compiles definitions in a service or a node of a cluster."""
    secrets = Secrets(headers=alert_jobs.headers_of(settings), urls=alert_jobs.urls_of(settings))
    return DefinitionCompiler(
        defaults=settings.defaults, surroundings=surroundings, history=settings.history, secrets=secrets
    )


def make_host_parts(
    settings: Settings,
    compiler: DefinitionCompiler,
    *,
    history: History,
    sender: Sender,
    room: Room,
    router: Router,
    clock: Timekeeper,
    log: Log,
    wake_claimers: WakeClaimers = wake_no_claimers,
    decorators: PortDecorators = NO_DECORATORS,
) -> HostParts:
    """What every host is made of, in a service, a worker process or a node of a cluster.

    `room` is that of `make_sender`.
    """
    masking = make_masking(settings)
    return HostParts(
        core=Core(compiler.stored),
        history=decorators.history(history),
        sender=decorators.sender(sender),
        answer_room=room,
        router=router,
        clock=clock,
        redact=masking.redact_all,
        reads_bodies=masking.reads_bodies,
        log=log,
        wake_claimers=wake_claimers,
        observe_job=decorators.observe_job,
        observe_call=decorators.observe_call,
        limits=limits_of(settings),
    )


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


def make_masking(settings: Settings) -> Masking:
    """What of records may be written."""
    return Masking(
        headers=settings.history.mask,
        members=settings.history.mask,
        body_bytes=settings.history.body_bytes,
        detail=settings.history.detail,
    )


def limits_of(settings: Settings) -> HostLimits:
    """The limits of a host."""
    return HostLimits(
        ready=settings.limits.ready,
        open_bytes=settings.limits.open_bytes,
        retries=settings.notification.retries,
        interval=round(settings.notification.interval_seconds * SECOND),
        early_commit=EARLY_COMMIT_MS,
        batch_window=BATCH_WINDOW_MS,
        burst_lead=BURST_LEAD_MS,
    )


def make_cleanup(
    settings: Settings,
    store: JobStore,
    writer: HistoryWriter,
    clock: Timekeeper,
    deliver: Deliver,
) -> Cleanup:
    """What removes history, destroyed jobs and trials."""
    retention = Retention(
        writer=writer,
        count=settings.history.retain_count,
        age=round(settings.history.retain_days * DAY),
        max_bytes=settings.history.max_bytes,
        statistics_days=settings.history.statistics_days,
    )
    trials = Trials(store=store, deliver=deliver, clock=clock)
    return Cleanup(store=store, retention=retention, trials=trials, clock=clock, tenant=DEFAULT_TENANT)


def system_functions(
    cleaner: Cleanup, resend: Callable[[], Awaitable[int]], services: ServiceRegistry
) -> dict[str, SystemFunction]:
    """What `system://NAME` does (SPEC section 11); `resend` tries the outbox again, and returns how many."""

    async def tried() -> dict[str, int]:
        return {"tried": await resend()}

    return {
        CHECK_TIMERS: as_function(services.check_timers),
        CLEAN: as_function(cleaner.sweep),
        OUTBOX: as_function(tried),
        alert_jobs.SEND: alert_jobs.accept,
    }


def make_sender(
    loaded: LoadedSettings,
    served: str,
    *,
    directory: Directory,
    system: Mapping[str, SystemFunction],
    clock: Clock,
    log: Log,
    room: Room,
    listeners: int = 1,
    sidecar: InvocationDirectory | None = None,
) -> HttpSender:
    """The sender; `directory` has the addresses of services, `clock` is the host's.

    Its process has so many `listeners`, whose callers have a share of the descriptors. `sidecar` has the
    addresses of services that this node's own daprd finds. `room`, one for the process, is that of large
    responses.
    """
    settings = loaded.settings
    dapr = settings.dapr
    ports = () if sidecar is None else (dapr.http_port, dapr.grpc_port, dapr.app_port)
    return HttpSender(
        policy=egress_of(loaded, sidecar_ports=ports),
        directory=directory,
        resolver=SystemResolver(),
        response_bytes=settings.limits.response_bytes,
        owner_url=served,
        gateway=settings.services.gateway,
        system=system,
        clock=clock,
        vouched=vouched_of(loaded, None if sidecar is None else sidecar.base),
        sidecar=sidecar,
        descriptors=divide(
            current_limit(), listeners=listeners, connections=settings.limits.connections
        ).calls,
        log=log,
        room=room,
    )


def egress_of(loaded: LoadedSettings, *, sidecar_ports: Collection[int] = ()) -> EgressPolicy:
    """The egress policy: without any configuration loopback is allowed, else what the settings say.

    Either way but for the ports of a node's own sidecar.
    """
    egress = loaded.settings.egress
    if egress is None:
        allow = () if loaded.has_file else LOOPBACK
        return EgressPolicy(allow=allow, deny=(), sidecar_ports=sidecar_ports)
    return EgressPolicy(allow=egress.allow, deny=egress.deny, sidecar_ports=sidecar_ports)


def log_egress(loaded: LoadedSettings, log: Log) -> None:
    """The first log line: which addresses jobs may reach."""
    egress = loaded.settings.egress
    if egress is None and not loaded.has_file:
        log(
            "egress_set", allow=list(LOOPBACK), note="no configuration: loopback is allowed; set egress.allow"
        )
    else:
        log(
            "egress_set", allow=list(egress.allow if egress else ()), deny=list(egress.deny if egress else ())
        )


def judge_of(loaded: LoadedSettings) -> Callable[[str], str | None]:
    """Judges the host of a literal URL of a definition by the egress policy."""
    return partial(judge_literal, egress_of(loaded))


def name_check_of(loaded: LoadedSettings) -> NameCheck:
    """Judges host names of definitions that are posted."""
    return NameCheck(policy=egress_of(loaded), resolver=SystemResolver(at_once=4, most=4, spare=0))


def machine_user() -> str:
    """The name of the user that runs this process, or the number of one without a name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def vouched_of(loaded: LoadedSettings, sidecar: str | None = None) -> Callable[[str], bool]:
    """Whether a key or the settings vouch for the base address of a service, wherever its name leads.

    With a key, whoever registers an instance has it. Without one anybody on this machine may register a name
    that leads elsewhere after it was judged; only the settings' own addresses, and the sidecar, are trusted.
    """
    if loaded.settings.server.key is not None:
        return lambda _: True
    known = {base.rstrip("/") for bases in loaded.settings.services.static.values() for base in bases}
    begin = None if sidecar is None else f"{sidecar}/"

    def is_vouched(address: str) -> bool:
        return address.rstrip("/") in known or (begin is not None and address.startswith(begin))

    return is_vouched


def admit_of(loaded: LoadedSettings) -> Callable[[str], Awaitable[None]] | None:
    """Judges the address under which somebody registers; None where a key vouches for who does."""
    if loaded.settings.server.key is not None:
        return None
    guard = Guard(policy=egress_of(loaded), resolver=SystemResolver())

    async def admit(address: str) -> None:
        await guard.admit(Route(read_url(address).site, trusted=False))

    return admit


def open_writer(
    confirm: Confirm,
    database: HistoryDatabase,
    log: Log,
    own: frozenset[str],
    watch: HistoryWatch | None = None,
) -> HistoryWriter:
    """The history's writer; it calls `confirm` with what is written, and tells `watch` and `log` of trouble.

    All of it on the thread of the loop, for who takes what the log says is there.
    `own` are the jobs that the product makes for itself: they are in no sum over all jobs.
    """
    loop = asyncio.get_running_loop()

    def note(trouble: str | None) -> None:
        if watch is not None:
            watch.note(trouble)
        if trouble is None:
            log("history_written_again")
        else:
            log("history_not_written", error=trouble)

    return HistoryWriter(
        database=database,
        on_written=lambda keys: call_on(loop, lambda: _ignore(confirm(keys))),
        on_trouble=lambda trouble: call_on(loop, note, trouble),
        on_changed=lambda text: call_on(loop, lambda: log("records_changed", error=text)),
        system_jobs=own,
    )


def call_on(loop: asyncio.AbstractEventLoop, work: Callable[..., object], *given: object) -> None:
    """Calls `work` on the loop's thread; not where the loop has ended, since nobody can take it any more."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(work, *given)


def _ignore(writing: Any) -> None:
    """A confirmation that fails is repeated after the next start; a repetition does nothing."""
    asyncio.ensure_future(writing).add_done_callback(lambda done: done.cancelled() or done.exception())
