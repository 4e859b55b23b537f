"""`Service`: an application whose functions and classes are jobs (SPEC sections 11, 13, 16)."""

import asyncio
import logging
import os
import re
import secrets
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import FrameType
from typing import Any, Never, ParamSpec, Self, TypeVar, Unpack, cast
from urllib.parse import unquote

from client_sdk.client import Client
from client_sdk.client.jobs import Jobs
from client_sdk.client.services import Services
from client_sdk.errors import DeclarationError
from client_sdk.id_patterns import check_name
from client_sdk.loops import cancel
from client_sdk.models import InstanceRegistration, ServiceDeclaration
from client_sdk.signing import Verifier
from client_sdk.target.address import OwnAddress
from client_sdk.target.declaration import Declaration, JobOptions, Provide, job
from client_sdk.target.inbound import Admission, InboundCalls
from client_sdk.target.keeper import ThreadKeeper
from client_sdk.target.messages import (
    BODY_BYTES,
    App,
    CallerGone,
    Message,
    OutboundAnswer,
    Receive,
    Scope,
    Send,
    TooLarge,
    read_call,
    refuse,
    send_answer,
    until_gone,
)
from client_sdk.target.options import refuse_misplaced
from client_sdk.target.registration import REGISTRATION_SECONDS, Registration, log_drain

P = ParamSpec("P")
R = TypeVar("R")
PREFIX = "/punctual"
END_SIGNALS = (signal.SIGTERM, signal.SIGINT)
LOG = logging.getLogger("client_sdk")
ROUTE = re.compile(r"/jobs/(?P<job>[^/]+)(?P<cancel>/cancel)?")
Stop = Callable[[], Awaitable[None]]


class Service:
    """One instance of a service: declares jobs, is registered while it runs, and takes their calls.

    `address` is the scheduler's address of this process, `http://host:port`; without it, or with its `port`
    alone, it is found as `OwnAddress` says. Calls come below `prefix`. With a `verifier` only signed calls
    are accepted; `sign` names the scheduler's secret for them. Without one, only calls from this machine are,
    or all by `allow_unsigned`, where something in front of it guards the port. `provide` makes the
    objects of jobs that are classes; without it their constructors take nothing. A call whose body is longer
    than `body_bytes` is 413.
    `grace_seconds`: how long running work may take when the process ends; then it is stopped. On `signals`
    the instance is drained before their other handlers run; `()` leaves signals alone. `settings` are
    registered for the service as a whole.
    `clock`, in seconds since 1970, is what the deadlines of calls are compared with.
    """

    own_jobs: Jobs
    """The jobs of the scheduler; those created or updated here call this service by `service:/path`."""
    _is_running = False
    _starting: asyncio.Task[None] | None = None
    _keeper: ThreadKeeper
    """While it runs; what keeps it registered runs aside."""

    def __init__(
        self,
        name: str,
        *,
        client: Client,
        address: str | None = None,
        port: int | None = None,
        jobs: Iterable[Declaration[..., Any]] = (),
        instance_id: str | None = None,
        tags: Sequence[str] = (),
        capacity: int | None = None,
        description: str | None = None,
        settings: ServiceDeclaration | None = None,
        prefix: str = PREFIX,
        sign: str | None = None,
        verifier: Verifier | None = None,
        allow_unsigned: bool = False,
        provide: Provide | None = None,
        grace_seconds: float = 30.0,
        body_bytes: int = BODY_BYTES,
        signals: Sequence[signal.Signals] = END_SIGNALS,
        heartbeat_seconds: float | None = None,
        registration_seconds: float = REGISTRATION_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_name(name, kind="service")
        self.name = name
        self.instance_id = instance_id or name_instance()
        self.prefix = prefix.rstrip("/")
        self.own_jobs = Jobs(client.connection, name)
        self._about = InstanceRegistration(
            address=address, tags=list(tags) or None, capacity=capacity, description=description
        )
        self._address = OwnAddress(name=name, given=address, port=port, scheduler=client.url)
        self._connection = client.connection
        self._settings, self._sign = settings, sign
        self._provide = provide
        self._grace, self._body_bytes = grace_seconds, body_bytes
        self._admission = Admission(verifier=verifier, allow_unsigned=allow_unsigned)
        self._declarations: dict[str, Declaration[..., Any]] = {}
        self._calls = InboundCalls(
            declarations=lambda: self._declarations,
            connection=client.connection,
            admission=self._admission,
            provide=provide,
            clock=clock,
        )
        self._registration = self._register(client.services, heartbeat_seconds, registration_seconds)
        self._signal_drain = SignalDrain(numbers=signals, stop=self.stop)
        self.add(*jobs)

    def job(
        self, *misplaced: Never, **options: Unpack[JobOptions]
    ) -> Callable[[Callable[P, R]], Declaration[P, R]]:
        """Declares a function or class as a job of this service, with the options of `client_sdk.job`."""
        refuse_misplaced("service.job", misplaced)

        def declare(function: Callable[P, R]) -> Declaration[P, R]:
            declaration = job(**options)(function)
            self.add(cast(Declaration[..., Any], declaration))
            return declaration

        return declare

    def add(self, *declarations: Declaration[..., Any]) -> None:
        """Adds jobs that were declared elsewhere. Raises DeclarationError and adds none.

        Jobs for a queue are refused: they belong to a Worker.
        """
        found = {one.job_id(self.name): one for one in declarations}
        for job_id, one in found.items():
            if self._declarations.get(job_id, one) is not one:
                raise DeclarationError(f"{job_id} is declared twice: give one of them another job_id")
            if one.queue is not None:
                text = f"goes to queue {one.queue}, but a service does not claim: give it to a Worker"
                raise DeclarationError(f"{job_id} {text} of that queue")
            one.check_constructor(self._provide)
            self._define(one)
        self._declarations.update(found)

    def definitions(self) -> list[dict[str, object]]:
        """The jobs as they are registered, in order of their declaration."""
        return [self._define(one) for one in self._declarations.values()]

    def wrap(self, app: App) -> App:
        """`app` with the calls below `prefix`; the instance starts and stops with it.

        For FastAPI and Starlette: `app.add_middleware(service.wrap)`.
        """
        return WrappedApplication(app=app, service=self, owns=self._owns)

    async def start(self) -> None:
        """Registers this instance and keeps it registered, also if the scheduler starts later.

        An instance whose address is not known yet is registered as soon as that is found.
        """
        if not self._is_running:
            self._is_running = True
            self._admission.describe(self.name, self.prefix)
            self._signal_drain.install()
            self._keeper = ThreadKeeper(self._connection)
            await self._keeper.run(self._start_aside())

    async def stop(self) -> None:
        """Refuses new work, waits up to `grace_seconds` for running work, and deregisters."""
        if self._is_running:
            self._is_running = False
            self._calls.is_draining = True
            log_drain(self.name, self.instance_id, len(self._calls.running), self._grace)
            await self._keeper.run(self._drain_aside())
            await self._calls.drain(self._grace)
            stopped = "; what still ran was stopped" if self._calls.is_stopping else ""
            LOG.info("%s/%s has drained%s", self.name, self.instance_id, stopped)
            await self._keeper.run(self._registration.stop())
            await self._keeper.close()
            self._signal_drain.remove()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Takes the calls as a separate ASGI application, or one mounted at `prefix`."""
        if scope["type"] == "lifespan":
            await WrappedApplication(app=None, service=self, owns=self._owns)(scope, receive, send)
        elif scope["type"] == "http":
            self._address.learn(scope)
            await send_answer(send, await self._answer(scope, receive))

    async def _start_aside(self) -> None:
        if await self._address.find() is None:
            self._starting = asyncio.create_task(self._start_when_found())
        else:
            await self._registration.start()

    async def _drain_aside(self) -> None:
        if self._starting is not None:
            await cancel(self._starting)
        await self._registration.drain()

    async def _start_when_found(self) -> None:
        await self._address.wait()
        await self._registration.start()

    async def _answer(self, scope: Scope, receive: Receive) -> OutboundAnswer:
        route = ROUTE.fullmatch(self._below_prefix(scope))
        if route is None:
            return refuse(404, f"jobs are called at {self.prefix}/jobs/{{jobId}}")
        if scope["method"] != "POST":
            return refuse(405, "jobs are called by POST", allow="POST")
        try:
            call = await read_call(scope, receive, limit=self._body_bytes)
        except TooLarge:
            return refuse(
                413, f"the body is larger than {self._body_bytes} bytes; body_bytes of Service allows more"
            )
        except CallerGone:
            return refuse(400, "the connection ended before the whole body had come")
        job_id = unquote(route["job"])
        if route["cancel"]:
            return self._calls.cancel(job_id, call)
        return await self._calls.take(job_id, call, lambda: until_gone(receive))

    def _owns(self, scope: Scope) -> bool:
        self._address.learn(scope)
        path = _local_path(scope)
        return path.startswith(f"{self.prefix}/")

    def _below_prefix(self, scope: Scope) -> str:
        """The path without the prefix, which a mounting framework may have removed already."""
        return _local_path(scope).removeprefix(self.prefix)

    def _register(self, services: Services, heartbeat: float | None, registration: float) -> Registration:
        return Registration(
            services=services,
            name=self.name,
            instance_id=self.instance_id,
            declare=self._declare,
            load=lambda: float(len(self._calls.running)),
            heartbeat=heartbeat,
            registration=registration,
        )

    def _define(self, declaration: Declaration[..., Any]) -> dict[str, object]:
        return declaration.define(self.name, prefix=self.prefix, sign=self._sign)

    def _declare(self) -> tuple[ServiceDeclaration | None, InstanceRegistration]:
        now = {"address": self._address.known, "timers": self.definitions()}
        return self._settings, self._about.model_copy(update=now)


def name_instance() -> str:
    """A unique instance id."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:64].strip("-._") or "instance"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


def _local_path(scope: Scope) -> str:
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path


class WrappedApplication:
    """`app` with `service` in front of it, which takes the requests that it `owns`; all if `app` is None."""

    def __init__(self, *, app: App | None, service: Service, owns: Callable[[Scope], bool]) -> None:
        self._app = app
        self._service = service
        self._owns = owns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _Lifespan(app=self._app, service=self._service, receive=receive, send=send).run(scope)
        elif self._app is None or (scope["type"] == "http" and self._owns(scope)):
            await self._service(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class _Lifespan:
    """One run of the lifespan protocol, whether the application supports it or not."""

    def __init__(self, *, app: App | None, service: Service, receive: Receive, send: Send) -> None:
        self._app = app
        self._service = service
        self._receive = receive
        self._send = send
        self._has_answered = False
        self._has_received = False

    async def run(self, scope: Scope) -> None:
        await self._run_app(scope)
        if not self._has_answered:
            await self._run_alone()

    async def _run_app(self, scope: Scope) -> None:
        if self._app is None:
            return
        try:
            await self._app(scope, self._receive_message, self._send_message)
        except Exception:
            # An application without lifespan support raises before it sends anything (ASGI specification).
            if self._has_answered:
                raise

    async def _run_alone(self) -> None:
        if not self._has_received:
            await self._receive()
        await self._service.start()
        await self._send({"type": "lifespan.startup.complete"})
        await self._receive()
        await self._service.stop()
        await self._send({"type": "lifespan.shutdown.complete"})

    async def _receive_message(self) -> Message:
        message = await self._receive()
        self._has_received = True
        if message["type"] == "lifespan.shutdown":
            await self._service.stop()
        return message

    async def _send_message(self, message: Message) -> None:
        self._has_answered = True
        if message["type"] == "lifespan.startup.complete":
            await self._service.start()
        await self._send(message)


class SignalDrain:
    """Runs `stop` before the existing handlers of the signals `numbers`.

    A server closes its socket on the signal, so the scheduler must learn of the draining before. A second
    signal is passed on at once. Does nothing outside the main thread, where Python handles no signals.
    """

    def __init__(self, *, numbers: Sequence[signal.Signals], stop: Stop) -> None:
        self._numbers = numbers
        self._stop = stop
        self._before: dict[int, Any] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_passed_on = False

    def install(self) -> None:
        """Installs the handlers, for the running event loop."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._loop = asyncio.get_running_loop()
        for number in self._numbers:
            self._before[number] = signal.signal(number, self._take)

    def remove(self) -> None:
        """Restores the earlier handlers, unless others were installed meanwhile."""
        for number, handler in self._before.items():
            if signal.getsignal(number) == self._take and handler is not None:
                signal.signal(number, handler)
        self._before.clear()

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self._task is not None or self._loop is None or self._loop.is_closed():
            self._pass_on(number)
            return
        self._loop.call_soon_threadsafe(self._begin, number)

    def _begin(self, number: int) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._end(number))

    async def _end(self, number: int) -> None:
        try:
            await self._stop()
        except asyncio.CancelledError:
            self._is_passed_on = True  # the loop ends already; raised now, the signal could kill the process
            raise
        finally:
            if not self._is_passed_on:
                self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        self._is_passed_on = True
        self.remove()
        signal.raise_signal(number)
