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
from client_sdk.target.registration import REGISTRATION, Registration
from client_sdk.target.signals import SignalDrain

P = ParamSpec("P")
R = TypeVar("R")
PREFIX = "/punctual"
ENDINGS = (signal.SIGTERM, signal.SIGINT)
ROUTE = re.compile(r"/jobs/(?P<job>[^/]+)(?P<cancel>/cancel)?")


class Service:
    """One instance of a service: it declares jobs, is registered while it runs, and takes their calls.

    `address` is where the scheduler reaches this process, `http://host:port`; the calls come below `prefix`.
    With a `verifier` only signed calls are taken; `sign` names the scheduler's secret for them.
    `grace_seconds`: so long running work may take when the process is told to end; then it is stopped. On
    `signals` the instance is drained before anybody else hears of them; `()` leaves signals alone. `settings`
    are told of the service as a whole.
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
        signals: Sequence[signal.Signals] = ENDINGS,
        heartbeat_seconds: float | None = None,
        registration_seconds: float = REGISTRATION,
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
        self._reception = InboundCalls(
            declarations=lambda: self._declarations, connection=client.connection, verifier=verifier
        )
        self._registration = Registration(
            services=client.services,
            name=name,
            instance_id=self.instance_id,
            declare=self._declare,
            load=lambda: float(len(self._reception.running)),
            heartbeat=heartbeat_seconds,
            registration=registration_seconds,
        )
        self._farewell = SignalDrain(numbers=signals, stop=self.stop)
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
        """Takes up jobs that were declared elsewhere. Raises DeclarationError: none of them is.

        One whose work goes to a queue is a Worker's: a service is called, and claims nothing.
        """
        found = {one.job_id(self.name): one for one in declarations}
        for job_id, one in found.items():
            if self._declarations.get(job_id, one) is not one:
                raise DeclarationError(f"{job_id} is declared twice: give one of them another job_id")
            if one.queue is not None:
                text = f"goes to queue {one.queue}, from which no service claims: give it to a Worker"
                raise DeclarationError(f"{job_id} {text} of that queue")
            self._define(one)
        self._declarations.update(found)

    def definitions(self) -> list[dict[str, object]]:
        """The jobs as they are registered, in order of their declaration."""
        return [self._define(one) for one in self._declarations.values()]

    def wrap(self, app: App) -> App:
        """`app` with the calls below `prefix`; its start and end are those of the instance.

        For FastAPI and Starlette: `app.add_middleware(service.wrap)`.
        """
        return Wrapped(app=app, service=self, owns=self._owns)

    async def start(self) -> None:
        """Registers this instance, and goes on doing so, whether the scheduler is there already or not."""
        if not self._is_running:
            self._is_running = True
            self._farewell.install()
            await self._registration.start()

    async def stop(self) -> None:
        """Takes no more work, lets what runs come to its end within `grace_seconds`, and deregisters."""
        if self._is_running:
            self._is_running = False
            self._reception.is_draining = True
            await self._registration.drain()
            await self._reception.drain(self._grace)
            await self._registration.stop()
            self._farewell.remove()

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
        """The calls alone, as an ASGI application of its own or one to mount at `prefix`."""
        if scope["type"] == "lifespan":
            await Wrapped(app=None, service=self, owns=self._owns)(scope, receive, send)
        elif scope["type"] == "http":
            await send_answer(send, await self._answer(scope, receive))

    async def _answer(self, scope: Scope, receive: Receive) -> OutboundAnswer:
        route = ROUTE.fullmatch(self._below_prefix(scope))
        if route is None:
            return refuse(404, f"calls of jobs come to {self.prefix}/jobs/{{jobId}}")
        if scope["method"] != "POST":
            return refuse(405, "jobs are called by POST", allow="POST")
        try:
            call = await read_call(scope, receive)
        except TooLarge:
            return refuse(413, "the body is larger than 16 MiB")
        job_id = unquote(route["job"])
        if route["cancel"]:
            return self._reception.cancel(job_id, call)
        return await self._reception.take(job_id, call)

    def _owns(self, scope: Scope) -> bool:
        path = _local_path(scope)
        return path.startswith(f"{self.prefix}/")

    def _below_prefix(self, scope: Scope) -> str:
        """Mounted, the framework may have taken the prefix off already."""
        return _local_path(scope).removeprefix(self.prefix)

    def _define(self, declaration: Declaration[..., Any]) -> dict[str, object]:
        return declaration.define(self.name, prefix=self.prefix, sign=self._sign)

    def _declare(self) -> tuple[ServiceDeclaration | None, InstanceRegistration]:
        return self._settings, self._about.model_copy(update={"timers": self.definitions()})


def name_instance() -> str:
    """An id that no other process has."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:64].strip("-._") or "instance"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


def _local_path(scope: Scope) -> str:
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path
