"""`Worker`: claims work from one pull queue and does it (SPEC sections 13, 16)."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack, cast

from client_sdk.client import Client
from client_sdk.errors import DeclarationError, Forbidden, SdkError, Unauthorized
from client_sdk.models import InstanceRegistration, ServiceDeclaration, answers
from client_sdk.target.declaration import Declaration, JobOptions, job
from client_sdk.target.registration import REGISTRATION, Registration
from client_sdk.target.service import name_instance
from client_sdk.worker.lease import OUTAGE, Lease
from client_sdk.worker.part import LocalRetry, do_part

P = ParamSpec("P")
R = TypeVar("R")
LOG = logging.getLogger("client_sdk")
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0


class Worker:
    """Up to `concurrency` parts at a time, each under a lease that is renewed while it is worked at.

    Its own jobs are registered as declared timers of `service` (the queue's name where none is given); jobs
    that others made and that name this queue are done by `otherwise`. `wait_seconds`: how long one claim
    waits for work. An exception that a function did not mean is tried again here, as `local_retry` says,
    before the part has failed. `grace_seconds`: so long running parts may take when the worker stops; what is
    not done by then is left to its lease, and goes to another worker. `outage_seconds`: so long after the end
    of its lease work goes on, and its end is told, while no scheduler answers; 0: it stops at that end.
    """

    def __init__(
        self,
        queue: str,
        *,
        service: str | None = None,
        jobs: Iterable[Declaration[..., Any]] = (),
        instance_id: str | None = None,
        tags: Sequence[str] = (),
        description: str | None = None,
        concurrency: int = 1,
        wait_seconds: float = 20.0,
        local_retry: LocalRetry | None = None,
        grace_seconds: float = 30.0,
        outage_seconds: float = OUTAGE,
        settings: ServiceDeclaration | None = None,
        heartbeat_seconds: float | None = None,
        registration_seconds: float = REGISTRATION,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency {concurrency} does nothing: give 1 or more")
        self.queue = queue
        self.service = service or queue
        self.instance_id = instance_id or name_instance()
        self.concurrency = concurrency
        self._wait = wait_seconds
        self._retry = local_retry or LocalRetry()
        self._grace = grace_seconds
        self._outage = outage_seconds
        self._about = InstanceRegistration(
            tags=list(tags) or None, capacity=concurrency, description=description
        )
        self._settings = settings
        self._beats = (heartbeat_seconds, registration_seconds)
        self._declarations: dict[str, Declaration[..., Any]] = {}
        self._otherwise: Declaration[..., Any] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop: asyncio.Event | None = None
        self.add(*jobs)

    def job(self, **options: Unpack[JobOptions]) -> Callable[[Callable[P, R]], Declaration[P, R]]:
        """Declares a function as a job whose work goes to this queue."""
        options["queue"] = self.queue

        def declare(function: Callable[P, R]) -> Declaration[P, R]:
            declaration = job(**options)(function)
            self.add(cast(Declaration[..., Any], declaration))
            return declaration

        return declare

    def add(self, *declarations: Declaration[..., Any]) -> None:
        """Takes up jobs of this queue that were declared elsewhere. Raises DeclarationError: none is."""
        found = {one.job_id(self.service): one for one in declarations}
        for job_id, one in found.items():
            if one.queue != self.queue:
                raise DeclarationError(f"{job_id} goes to queue {one.queue}, not to {self.queue}")
            if self._declarations.get(job_id, one) is not one:
                raise DeclarationError(f"{job_id} is declared twice: give one of them another job_id")
            one.define(self.service)
        self._declarations.update(found)

    def otherwise(self, function: Callable[P, R]) -> Callable[P, R]:
        """Does the work of every job of this queue that is not declared here."""
        self._otherwise = cast(Declaration[..., Any], job()(function))
        return function

    def definitions(self) -> list[dict[str, Any]]:
        """The jobs as they are registered, in order of their declaration."""
        return [one.define(self.service) for one in self._declarations.values()]

    async def run(self, client: Client) -> None:
        """Claims and works until `stop` is called. A scheduler that does not answer is asked again.

        Raises Unauthorized, Forbidden: this key may not claim here.
        """
        self._stop = asyncio.Event()
        registration = self._register(client) if self._declarations else None
        if registration is not None:
            await registration.start()
        claiming = asyncio.create_task(self._claim(client))
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([claiming, stopping], return_when=asyncio.FIRST_COMPLETED)
            if claiming.done():
                claiming.result()
        finally:
            await _cancel(claiming, stopping)
            await self._finish(registration)

    def stop(self) -> None:
        """Claims nothing more; `run` returns when what runs is done, after `grace_seconds` at the latest."""
        if self._stop is not None:
            self._stop.set()

    def _register(self, client: Client) -> Registration:
        heartbeat, registration = self._beats
        return Registration(
            services=client.services,
            name=self.service,
            instance_id=self.instance_id,
            declare=lambda: (self._settings, self._about.model_copy(update={"timers": self.definitions()})),
            load=lambda: float(len(self._tasks)),
            heartbeat=heartbeat,
            registration=registration,
        )

    async def _claim(self, client: Client) -> None:
        wait = FIRST_WAIT
        while True:
            free = self.concurrency - len(self._tasks)
            if free == 0:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                continue
            asked = time.monotonic()
            found = await self._ask(client, free)
            for work in found or ():
                self._begin(client, work)
            # A scheduler that stops hands out nothing, and says so without waiting.
            is_early = not found and time.monotonic() - asked < max(self._wait / 2, FIRST_WAIT)
            if found is None or is_early:
                await asyncio.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT)
            else:
                wait = FIRST_WAIT

    async def _ask(self, client: Client, most: int) -> list[answers.Work] | None:
        """What there is; None where nobody can say. Raises Unauthorized, Forbidden."""
        try:
            return await client.queues.claim(
                self.queue, instance_id=self.instance_id, most=most, wait_seconds=self._wait
            )
        except (Unauthorized, Forbidden):
            raise
        except SdkError as error:
            LOG.warning("nothing can be claimed from %s: %s", self.queue, error)
            return None

    def _begin(self, client: Client, work: answers.Work) -> None:
        if work.cancelled:
            return
        lease = Lease(queues=client.queues, work=work, outage=self._outage)
        task = asyncio.create_task(do_part(work, find=self._find, lease=lease, retry=self._retry))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _find(self, job_id: str) -> Declaration[..., Any] | None:
        return self._declarations.get(job_id, self._otherwise)

    async def _finish(self, registration: Registration | None) -> None:
        if registration is not None:
            await registration.drain()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._grace)
        await _cancel(*self._tasks)
        if registration is not None:
            await registration.stop()


async def _cancel(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
