"""`Service`: an application whose functions are jobs (SPEC sections 11, 13, 16)."""

import os
import re
import secrets
import signal
import socket
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, Unpack, cast
from urllib.parse import unquote

from client_sdk.client import Client
from client_sdk.errors import DeclarationError
from client_sdk.models import InstanceRegistration, ServiceDeclaration
from client_sdk.signing import Verifier
from client_sdk.target.asgi_wrap import Wrapped
from client_sdk.target.declaration import Declaration, JobOptions, job
from client_sdk.target.inbound import InboundCalls
from client_sdk.target.messages import (
    App,
    OutboundAnswer,
    Receive,
    Scope,
    Send,
    TooLarge,
    read_call,
    refuse,
    send_answer,
)
from client_sdk.target.registration import REGISTRATION_SECONDS, Registration
from client_sdk.target.signals import SignalDrain

P = ParamSpec("P")
R = TypeVar("R")
PREFIX = "/punctual"
END_SIGNALS = (signal.SIGTERM, signal.SIGINT)
ROUTE = re.compile(r"/jobs/(?P<job>[^/]+)(?P<cancel>/cancel)?")


class Service:
    """One instance of a service: declares jobs, is registered while it runs, and takes their calls.

    `address` is the scheduler's address of this process, `http://host:port`; calls come below `prefix`. With
    a `verifier` only signed calls are accepted; `sign` names the scheduler's secret for them.
    `grace_seconds`: how long running work may take when the process ends; then it is stopped. On `signals`
    the instance is drained before their other handlers run; `()` leaves signals alone. `settings` are
    registered for the service as a whole.
    """

    def __init__(
        self,
        name: str,
        *,
        client: Client,
        address: str,
        jobs: Iterable[Declaration[..., Any]] = (),
        instance_id: str | None = None,
        tags: Sequence[str] = (),
        capacity: int | None = None,
        description: str | None = None,
        settings: ServiceDeclaration | None = None,
        prefix: str = PREFIX,
        sign: str | None = None,
        verifier: Verifier | None = None,
        grace_seconds: float = 30.0,
        signals: Sequence[signal.Signals] = END_SIGNALS,
        heartbeat_seconds: float | None = None,
        registration_seconds: float = REGISTRATION_SECONDS,
    ) -> None:
        self.name = name
        self.instance_id = instance_id or name_instance()
        self.prefix = prefix.rstrip("/")
        self._about = InstanceRegistration(
            address=address, tags=list(tags) or None, capacity=capacity, description=description
        )
        self._settings = settings
        self._sign = sign
        self._grace = grace_seconds
        self._declarations: dict[str, Declaration[..., Any]] = {}
        self._calls = InboundCalls(
            declarations=lambda: self._declarations, connection=client.connection, verifier=verifier
        )
        self._registration = Registration(
            services=client.services,
            name=name,
            instance_id=self.instance_id,
            declare=self._declare,
            load=lambda: float(len(self._calls.running)),
            heartbeat=heartbeat_seconds,
            registration=registration_seconds,
        )
        self._signal_drain = SignalDrain(numbers=signals, stop=self.stop)
        self._is_running = False
        self.add(*jobs)

    def job(self, **options: Unpack[JobOptions]) -> Callable[[Callable[P, R]], Declaration[P, R]]:
        """Declares a function as a job of this service; the options are those of `client_sdk.job`."""

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
            self._define(one)
        self._declarations.update(found)

    def definitions(self) -> list[dict[str, object]]:
        """The jobs as they are registered, in order of their declaration."""
        return [self._define(one) for one in self._declarations.values()]

    def wrap(self, app: App) -> App:
        """`app` with the calls below `prefix`; the instance starts and stops with it.

        For FastAPI and Starlette: `app.add_middleware(service.wrap)`.
        """
        return Wrapped(app=app, service=self, owns=self._owns)

    async def start(self) -> None:
        """Registers this instance and keeps it registered, also if the scheduler starts later."""
        if not self._is_running:
            self._is_running = True
            self._signal_drain.install()
            await self._registration.start()

    async def stop(self) -> None:
        """Refuses new work, waits up to `grace_seconds` for running work, and deregisters."""
        if self._is_running:
            self._is_running = False
            self._calls.is_draining = True
            await self._registration.drain()
            await self._calls.drain(self._grace)
            await self._registration.stop()
            self._signal_drain.remove()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Takes the calls as a separate ASGI application, or one mounted at `prefix`."""
        if scope["type"] == "lifespan":
            await Wrapped(app=None, service=self, owns=self._owns)(scope, receive, send)
        elif scope["type"] == "http":
            await send_answer(send, await self._answer(scope, receive))

    async def _answer(self, scope: Scope, receive: Receive) -> OutboundAnswer:
        route = ROUTE.fullmatch(self._below_prefix(scope))
        if route is None:
            return refuse(404, f"jobs are called at {self.prefix}/jobs/{{jobId}}")
        if scope["method"] != "POST":
            return refuse(405, "jobs are called by POST", allow="POST")
        try:
            call = await read_call(scope, receive)
        except TooLarge:
            return refuse(413, "the body is larger than 16 MiB")
        job_id = unquote(route["job"])
        if route["cancel"]:
            return self._calls.cancel(job_id, call)
        return await self._calls.take(job_id, call)

    def _owns(self, scope: Scope) -> bool:
        path = _local_path(scope)
        return path.startswith(f"{self.prefix}/")

    def _below_prefix(self, scope: Scope) -> str:
        """The path without the prefix, which a mounting framework may have removed already."""
        return _local_path(scope).removeprefix(self.prefix)

    def _define(self, declaration: Declaration[..., Any]) -> dict[str, object]:
        return declaration.define(self.name, prefix=self.prefix, sign=self._sign)

    def _declare(self) -> tuple[ServiceDeclaration | None, InstanceRegistration]:
        return self._settings, self._about.model_copy(update={"timers": self.definitions()})


def name_instance() -> str:
    """A unique instance id."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:64].strip("-._") or "instance"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


def _local_path(scope: Scope) -> str:
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path
