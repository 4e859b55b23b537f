"""Registers an instance, sends its heartbeats, drains and deregisters it (SPEC section 13)."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from client_sdk.client.services import RegisteredInstance, RegisteredService, Services
from client_sdk.errors import Absent, Invalid, SdkError
from client_sdk.models import InstanceRegistration, ServiceDeclaration

LOG = logging.getLogger("client_sdk")
HEARTBEAT_SECONDS = 3.0
REGISTRATION_SECONDS = 30.0
CALL_SECONDS = 10.0
"""The timeout of one registration, heartbeat or deregistration."""
TIMER = re.compile(r"/timers/(\d+)(/.*)?")

Registered = TypeVar("Registered", RegisteredService, RegisteredInstance)


class RegistrationRefused(SdkError):
    """The scheduler refused the declared jobs; the message names each, and what is wrong with it."""


class Registration:
    """Keeps one instance registered while it runs, also through outages of the scheduler.

    `declare` returns what to register; `load` the current load. `heartbeat` None: at the interval that the
    scheduler requests, every 3 s until then.
    """

    def __init__(
        self,
        *,
        services: Services,
        name: str,
        instance_id: str,
        declare: Callable[[], tuple[ServiceDeclaration | None, InstanceRegistration]],
        load: Callable[[], float],
        heartbeat: float | None = None,
        registration: float = REGISTRATION_SECONDS,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._services = services
        self._name = name
        self._instance_id = instance_id
        self._declare = declare
        self._load = load
        self._is_fixed = heartbeat is not None
        self._heartbeat = HEARTBEAT_SECONDS if heartbeat is None else heartbeat
        self._every = registration
        self._pause = pause
        self._task: asyncio.Task[None] | None = None
        self._is_answered = True
        self._logged: set[str] = set()
        self._refusal = ""
        self._is_known = False
        self.is_draining = False

    async def start(self) -> None:
        """Registers and starts the heartbeats. Returns after the first try, also if it failed."""
        is_registered = await self._try("registration", self._register)
        self._task = asyncio.create_task(self._keep(is_registered))

    async def drain(self) -> None:
        """Reports draining; the heartbeats continue."""
        self.is_draining = True
        await self._try("draining", self._beat)

    async def stop(self) -> None:
        """Deregisters."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        self._task = None
        await self._try("deregistration", self._leave)

    async def _keep(self, is_registered: bool) -> None:
        beats = 0
        while True:
            await self._pause(self._heartbeat)
            beats += 1
            is_due = not is_registered or beats % max(round(self._every / self._heartbeat), 1) == 0
            if is_due and not self.is_draining:
                is_registered = await self._try("registration", self._register)
            else:
                is_registered = await self._try("heartbeat", self._beat)

    async def _register(self) -> None:
        service, instance = self._declare()
        if service is not None:
            await self._send(self._services.put(self._name, service), service.timers)
        call = self._services.register(self._name, self._instance_id, instance)
        known = await self._send(call, instance.timers)
        if known.heartbeat_seconds and not self._is_fixed:
            self._heartbeat = known.heartbeat_seconds
        if not self._is_known:
            self._is_known = True
            place = f"at {instance.address}" if instance.address else "without an address"
            jobs = count(len(instance.timers or ()), "job")
            LOG.info("%s/%s is registered %s with %s", self._name, self._instance_id, place, jobs)

    async def _send(
        self, call: Coroutine[Any, Any, Registered], timers: Sequence[Mapping[str, Any]] | None
    ) -> Registered:
        """The answer, whose warnings are logged. Raises RegistrationRefused, which names the jobs."""
        try:
            answer = await call
        except Invalid as refusal:
            raise RegistrationRefused(explain(refusal, timers or ())) from refusal
        self._log_warnings(name_job(one.pointer, one.message, timers or ()) for one in answer.warnings)
        return answer

    def _log_warnings(self, warnings: Iterable[str]) -> None:
        """Logs each warning about a declared job once, however often it is registered."""
        for text in warnings:
            if text not in self._logged:
                self._logged.add(text)
                LOG.warning("declared jobs of %s: %s", self._name, text)

    async def _beat(self) -> None:
        try:
            await self._services.heartbeat(
                self._name, self._instance_id, load=self._load(), draining=self.is_draining
            )
        except Absent:
            # The scheduler has restarted, and does not know instances until they register again.
            if not self.is_draining:
                await self._register()
            elif self._load():
                await self._return()
            else:
                raise

    async def _return(self) -> None:
        """Registers while draining, so that work in hand does not count as lost; declares no jobs."""
        _, instance = self._declare()
        await self._services.register(
            self._name, self._instance_id, instance.model_copy(update={"timers": None})
        )
        await self._services.heartbeat(self._name, self._instance_id, load=self._load(), draining=True)

    async def _leave(self) -> None:
        await self._services.deregister(self._name, self._instance_id)

    async def _try(self, what: str, work: Callable[[], Awaitable[None]]) -> bool:
        """Whether the call succeeded; an outage is logged when it begins and when it ends."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await work()
        except (SdkError, TimeoutError) as error:
            self._log_failure(what, error)
            return False
        if not self._is_answered:
            LOG.info("%s/%s is registered again", self._name, self._instance_id)
        self._is_answered, self._refusal = True, ""
        return True

    def _log_failure(self, what: str, error: Exception) -> None:
        if isinstance(error, RegistrationRefused):
            if str(error) != self._refusal:
                LOG.error("no job of %s was changed, its registration is refused: %s", self._name, error)
            self._refusal = str(error)
        elif self._is_answered and not isinstance(error, Absent):
            LOG.warning("%s of %s/%s failed: %s", what, self._name, self._instance_id, error)
        self._is_answered = isinstance(error, Absent)


def log_drain(name: str, instance_id: str, running: int, grace: float) -> None:
    """Logs that an instance begins to drain, with what it waits for."""
    runs = "runs" if running == 1 else "run"
    LOG.info("%s/%s drains: %s %s, up to %g s", name, instance_id, count(running, "execution"), runs, grace)


def count(number: int, noun: str) -> str:
    """The number with its noun: `1 job`, `2 jobs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def explain(refusal: Invalid, timers: Sequence[Mapping[str, Any]]) -> str:
    """All that is wrong, each with the job that it is about."""
    flaws = [name_job(one.pointer, one.message, timers) for one in refusal.errors]
    return "; ".join(flaws) or refusal.detail


def name_job(pointer: str, message: str, timers: Sequence[Mapping[str, Any]]) -> str:
    """A message about `/timers/N/…` with the id of that job instead of its place in the list."""
    found = TIMER.match(pointer)
    if found is None or int(found[1]) >= len(timers):
        return f"{pointer}: {message}"
    place = found[2] or "/"
    return f"job {timers[int(found[1])].get('jobId', '(without jobId)')}: {place}: {message}"
