"""`Worker`: claims work from one pull queue and does it (SPEC sections 13, 16)."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack, cast

from client_sdk.client import Client
from client_sdk.errors import DeclarationError, Forbidden, SdkError, Unauthorized
from client_sdk.id_patterns import check_name, quote_name
from client_sdk.loops import StartedTasks, cancel
from client_sdk.models import InstanceRegistration, ServiceDeclaration, answers
from client_sdk.outages import CLAIMS, OutageLog
from client_sdk.target.declaration import Declaration, JobOptions, Provide, job
from client_sdk.target.keeper import ThreadKeeper
from client_sdk.target.registration import REGISTRATION_SECONDS, Registration, log_drain
from client_sdk.target.service import name_instance
from client_sdk.worker.lease import OUTAGE_SECONDS, Lease
from client_sdk.worker.part import LocalRetry, do_part, read_deadline

P = ParamSpec("P")
R = TypeVar("R")
LOG = logging.getLogger("client_sdk")
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0


class Worker:
    """Does up to `concurrency` parts at a time, each under a lease that is renewed while it runs.

    Its own jobs are registered as declared timers of `service` (by default the queue's name); parts of other
    jobs of this queue are done by `otherwise`. `wait_seconds`: how long one claim waits for work. An
    unexpected exception of a function is retried locally, as the step of the job says
    (`maxUnexpectedRetries`), or as `local_retry` says if it is given, before the part fails.
    `grace_seconds`: how long running parts may take when the worker stops; others are cancelled, and go to
    another worker when their leases end. `outage_seconds`: how long after the end of its lease a part goes
    on, and its end is reported, while no scheduler answers; 0: it stops at that end. `provide` makes the
    objects of jobs that are classes.

    A restart of the scheduler, also a clean one, loses the work of a job with `qos` 0 (the default), even
    what only waits in the queue; a job with `qos=1` keeps it.
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
        provide: Provide | None = None,
        grace_seconds: float = 30.0,
        outage_seconds: float = OUTAGE_SECONDS,
        settings: ServiceDeclaration | None = None,
        heartbeat_seconds: float | None = None,
        registration_seconds: float = REGISTRATION_SECONDS,
    ) -> None:
        check_name(queue, kind="queue")
        if concurrency < 1:
            raise ValueError(f"concurrency {concurrency} does nothing: give 1 or more")
        self.queue = queue
        self.service = service or queue
        check_name(self.service, kind="service")
        self.instance_id = instance_id or name_instance()
        self.concurrency = concurrency
        self._wait = wait_seconds
        self._retry = local_retry
        self._provide = provide
        self._grace = grace_seconds
        self._outage = outage_seconds
        self._about = InstanceRegistration(
            tags=list(tags) or None, capacity=concurrency, description=description
        )
        self._settings = settings
        self._beats = (heartbeat_seconds, registration_seconds)
        self._declarations: dict[str, Declaration[..., Any]] = {}
        self._otherwise: Declaration[..., Any] | None = None
        self._outages = OutageLog()
        self._parts = StartedTasks()
        self._stop: asyncio.Event | None = None
        self.add(*jobs)

    def job(self, **options: Unpack[JobOptions]) -> Callable[[Callable[P, R]], Declaration[P, R]]:
        """Declares a function as a job whose work goes to this queue.

        `qos=1` keeps its work over a restart of the scheduler. `timeout_seconds` is by default long enough
        for the retries of work whose worker died.
        """
        options["queue"] = self.queue

        def declare(function: Callable[P, R]) -> Declaration[P, R]:
            declaration = job(**options)(function)
            self.add(cast(Declaration[..., Any], declaration))
            return declaration

        return declare

    def add(self, *declarations: Declaration[..., Any]) -> None:
        """Adds jobs of this queue that were declared elsewhere. Raises DeclarationError and adds none."""
        found = {one.job_id(self.service): one for one in declarations}
        for job_id, one in found.items():
            if one.queue != self.queue:
                raise DeclarationError(f"{job_id} goes to queue {one.queue}, not to {self.queue}")
            if self._declarations.get(job_id, one) is not one:
                raise DeclarationError(f"{job_id} is declared twice: give one of them another job_id")
            one.check_constructor(self._provide)
            one.define(self.service)
        self._declarations.update(found)

    def otherwise(self, function: Callable[P, R]) -> Callable[P, R]:
        """Declares the function for all jobs of this queue that are not declared here."""
        self._otherwise = cast(Declaration[..., Any], job()(function))
        return function

    def definitions(self) -> list[dict[str, Any]]:
        """The jobs as they are registered, in order of their declaration."""
        return [one.define(self.service) for one in self._declarations.values()]

    async def run(self, client: Client) -> None:
        """Claims and does parts until `stop` is called. Claims are repeated while the scheduler is away.

        Raises Unauthorized, Forbidden: this key may not claim here.
        """
        self._stop = asyncio.Event()
        keeper = ThreadKeeper(client.connection)
        registration = self._register(client) if self._declarations else None
        if registration is not None:
            await keeper.run(registration.start())
        text = "%s/%s claims from queue %s, %d at once"
        LOG.info(text, self.service, self.instance_id, self.queue, self.concurrency)
        claiming = asyncio.create_task(self._claim(client, keeper))
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([claiming, stopping], return_when=asyncio.FIRST_COMPLETED)
            if claiming.done():
                claiming.result()
        finally:
            await cancel(claiming, stopping)
            await self._finish(registration, keeper)

    def stop(self) -> None:
        """Claims nothing more; `run` returns when running parts are done, within `grace_seconds`."""
        if self._stop is not None:
            self._stop.set()

    def _register(self, client: Client) -> Registration:
        heartbeat, registration = self._beats
        return Registration(
            services=client.services,
            name=self.service,
            instance_id=self.instance_id,
            declare=lambda: (self._settings, self._about.model_copy(update={"timers": self.definitions()})),
            load=lambda: float(len(self._parts)),
            heartbeat=heartbeat,
            registration=registration,
        )

    async def _claim(self, client: Client, keeper: ThreadKeeper) -> None:
        wait = FIRST_WAIT
        while True:
            free = self.concurrency - len(self._parts)
            if free == 0:
                await self._parts.wait_for_one()
                continue
            started = time.monotonic()
            found = await keeper.run(self._try_claim(client, free))
            for work, lease in found or ():
                find, retry, provide = self._find, self._retry, self._provide
                self._parts.start(do_part(work, find=find, lease=lease, retry=retry, provide=provide))
            # A scheduler that is stopping answers empty claims at once.
            is_early = not found and time.monotonic() - started < max(self._wait / 2, FIRST_WAIT)
            if found is None or is_early:
                await asyncio.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT)
            else:
                wait = FIRST_WAIT

    async def _try_claim(self, client: Client, most: int) -> "list[tuple[answers.Work, Lease]] | None":
        """The claimed parts, whose leases are kept from now on; None if the claim failed.

        No more than were asked for: what else an answer holds is left to its lease. Raises Unauthorized,
        Forbidden.
        """
        try:
            found = await client.queues.claim(
                self.queue, instance_id=self.instance_id, most=most, wait_seconds=self._wait
            )
        except (Unauthorized, Forbidden):
            raise
        except SdkError as error:
            self._outages.failed(CLAIMS, self.queue, error)
            return None
        self._outages.succeeded(CLAIMS)
        leases = [(work, self._lease(client, work)) for work in found[:most] if not work.cancelled]
        return [(work, lease) for work, lease in leases if lease is not None]

    def _lease(self, client: Client, work: answers.Work) -> Lease | None:
        """Its lease, which is kept; None: its end could be reported to no address."""
        try:
            quote_name("lease", work.lease)
        except ValueError as error:
            LOG.warning(
                "a part of %s is not begun, since its end could not be reported: %s", self.queue, error
            )
            return None
        lease = Lease(
            queues=client.queues,
            work=work,
            deadline=read_deadline(work),
            outages=self._outages,
            outage=self._outage,
        )
        lease.start()
        return lease

    def _find(self, job_id: str) -> Declaration[..., Any] | None:
        return self._declarations.get(job_id, self._otherwise)

    async def _finish(self, registration: Registration | None, keeper: ThreadKeeper) -> None:
        log_drain(self.service, self.instance_id, len(self._parts), self._grace)
        if registration is not None:
            await keeper.run(registration.drain())
        await self._parts.wait_for_all(self._grace)
        stopped = "; what still ran was stopped" if len(self._parts) else ""
        await self._parts.cancel()
        LOG.info("%s/%s has drained%s", self.service, self.instance_id, stopped)
        if registration is not None:
            await keeper.run(registration.stop())
        await keeper.close()
