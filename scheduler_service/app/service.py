"""Puts one service together: store, history, sender, host, API; starts it and stops it."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec
from fastapi import FastAPI

from scheduler_service import __version__
from scheduler_service.api.application import create_api
from scheduler_service.api.parts import ApiParts
from scheduler_service.app.cleaning import Cleaner
from scheduler_service.app.database import history_address
from scheduler_service.app.egress import admit_of
from scheduler_service.app.embedded_host import Ground, make_embedded_host
from scheduler_service.app.making import (
    Outbox,
    limits_of,
    make_cleaner,
    make_core,
    make_masking,
    make_sender,
    open_writer,
)
from scheduler_service.app.services import ServiceRoom
from scheduler_service.app.storage import StoreWatch, data_folder, open_store
from scheduler_service.app.surroundings import TENANT, Compiler, make_surroundings
from scheduler_service.app.system import NAMES, install
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.clock import SystemClock, Timekeeper
from scheduler_service.hosts.core import Log
from scheduler_service.hosts.embedded import EmbeddedHost
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.reads import HistoryReads
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.persistence.state.store import OpenStore
from scheduler_service.persistence.state.tap import Tap
from scheduler_service.ports import History, Sender
from scheduler_service.services.queues import PullQueues
from scheduler_service.settings import Loaded, Settings
from scheduler_service.timing.misfire import count_missed
from scheduler_service.transport.sender import HttpSender

Wrap = Callable[[History], History]
Carry = Callable[[Sender], Sender]


class KeepTime(Protocol):
    """Makes the clock of a service, from the skew that is stored and how to store another one."""

    def __call__(self, *, skew: int, on_step: Callable[[int], Awaitable[None]]) -> Timekeeper:
        """The clock."""


class Parts(msgspec.Struct, frozen=True):
    """What a service holds open."""

    store: OpenStore
    watch: StoreWatch
    database: HistoryDatabase
    writer: HistoryWriter
    reads: HistoryReads
    sender: HttpSender
    host: EmbeddedHost
    compiler: Compiler
    services: ServiceRoom


class Service:
    """One running service: `api` is its ASGI application."""

    def __init__(self, *, loaded: Loaded, parts: Parts, api: FastAPI, log: Log) -> None:
        self.api = api
        self._loaded = loaded
        self._parts = parts
        self._log = log

    async def start(self) -> None:
        """Recovers, installs the system jobs, takes firings. Raises StoreError."""
        await self._parts.host.start()
        await self._parts.services.start_queues(self._parts.host)
        await install(self._parts.host, self._parts.compiler, self._loaded.settings)
        self._log("ready", jobsHeld=self._parts.host.jobs_held)

    async def breaks(self) -> str:
        """Returns, in words, when the service cannot go on."""
        return await self._parts.watch.breaks()

    async def stop(self, grace: int) -> None:
        """Drains for at most `grace` ms, then closes everything (SPEC section 14).

        Without its store there is nothing to wait for: what runs can end nowhere.
        """
        grace = 0 if self._parts.watch.is_lost else grace
        self._log("draining", graceMs=grace, running=self._parts.host.running)
        self._parts.services.hand_out_no_more()
        await self._parts.host.stop(grace)
        await self._parts.sender.close()
        await self._parts.reads.close()
        await self._parts.services.close()
        self._parts.database.close()
        self._log("stopped")


async def open_service(
    loaded: Loaded,
    *,
    served: str,
    log: Log,
    wrap: Wrap | None = None,
    carry: Carry | None = None,
    tap: Tap | None = None,
    keep_time: KeepTime = SystemClock,
) -> Service:
    """Opens the data folder and builds the service; nothing fires before `start`.

    `wrap` puts another history in front of the service's own, `carry` another sender; `tap` watches durable
    writes; `keep_time` makes the clock. Raises StoreError where store or folder cannot be used, SettingsError
    for an env_file that cannot be read.
    """
    settings = loaded.settings
    folder = data_folder(settings)
    surroundings = make_surroundings(settings, served)
    compiler = Compiler(
        defaults=settings.defaults, surroundings=surroundings, history_detail=settings.history.detail
    )
    watch = StoreWatch(log=log)
    store = await open_store(settings, watch=watch, tap=tap)
    database = await asyncio.to_thread(
        HistoryDatabase,
        url=history_address(settings, folder),
        durability=settings.store.durability,
        tap=tap,
    )
    clock = keep_time(skew=await store.clock_skew(), on_step=store.save_clock_skew)
    writer = open_writer(store, database, log)
    cleaner = make_cleaner(settings, store, writer, clock)
    outbox = Outbox()
    queues = PullQueues(table=store.queues, clock=clock, log=log)
    services = ServiceRoom(
        database=database, settings=settings.services, clock=clock, tenant=TENANT, queues=queues
    )
    sender = make_sender(loaded, served, cleaner, outbox, services, services.directory)
    history, carrier = wrap(writer) if wrap else writer, carry(sender) if carry else sender
    host = _make_host(settings, store, history, carrier, services, clock, compiler, log)
    outbox.host = host
    await services.attach(
        deliver=host,
        read_job=host.read,
        catalogue=store.catalogue,
        definition=store.definition,
        compile_text=compiler.stored,
    )
    reads = HistoryReads(database=database, system_jobs=frozenset(NAMES))
    parts = Parts(store, watch, database, writer, reads, sender, host, compiler, services)
    api = create_api(_api_parts(loaded, parts, cleaner, clock, surroundings, served))
    return Service(loaded=loaded, parts=parts, api=api, log=log)


def _make_host(
    settings: Settings,
    store: OpenStore,
    history: History,
    sender: Sender,
    services: ServiceRoom,
    clock: Timekeeper,
    compiler: Compiler,
    log: Log,
) -> EmbeddedHost:
    ground = Ground(
        core=make_core(compiler),
        store=store,
        history=history,
        sender=sender,
        router=services.router,
        stir=services.stir,
        clock=clock,
        redact=make_masking(settings).redact_all,
        count=count_missed,
        log=log,
        holder=Holder(store.node_id, f"{store.boot}-{os.getpid()}"),
        boot=store.boot,
        limits=limits_of(settings),
    )
    return make_embedded_host(ground)


def _api_parts(
    loaded: Loaded, parts: Parts, cleaner: Cleaner, clock: Timekeeper, surroundings: Surroundings, served: str
) -> ApiParts:
    async def missing() -> Sequence[str]:
        return [*([] if parts.host.is_ready else ["host"]), *parts.watch.missing]

    began = rfc3339(clock.now().wall)

    async def list_nodes() -> Sequence[Mapping[str, object]]:
        own = {"nodeId": parts.store.node_id, "address": served, "version": __version__}
        state = "draining" if parts.host.is_draining else "running"
        seen = {"state": state, "startedAt": began, "lastHeartbeat": rfc3339(clock.now().wall)}
        return [{**own, **seen, "jobsHeld": parts.host.jobs_held, "running": parts.host.running}]

    return ApiParts(
        deliver=parts.host,
        create_all=parts.host.create_all,
        peek=parts.host.peek,
        read_job=parts.host.read,
        compile_definition=parts.compiler.posted,
        moulds=parts.compiler.moulds,
        surroundings=surroundings,
        catalogue=parts.store.catalogue,
        store=parts.store,
        history=parts.reads,
        courier=parts.host.courier,
        clean=cleaner,
        clock=clock,
        registry=parts.services.registry,
        scan=parts.services.scan,
        drift=parts.services.drift,
        queues=parts.services.queues,
        flush=parts.writer.flush,
        ready=missing,
        nodes=list_nodes,
        version=__version__,
        admit=admit_of(loaded),
        heartbeat_seconds=loaded.settings.services.heartbeat_seconds,
        admin_key=loaded.settings.server.key,
        body_bytes=loaded.settings.limits.body_bytes,
        options=parts.compiler.options,
        settings=lambda: {
            name: {"value": value, "source": source} for name, value, source in loaded.effective()
        },
    )
