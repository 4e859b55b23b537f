"""Registers an instance, sends its heartbeats, drains and deregisters it (SPEC section 13)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from client_sdk.client.services import Services
from client_sdk.errors import Absent, SdkError
from client_sdk.models import InstanceRegistration, ServiceDeclaration

LOG = logging.getLogger("client_sdk")
HEARTBEAT_SECONDS = 3.0
REGISTRATION_SECONDS = 30.0
CALL_SECONDS = 10.0
"""The timeout of one registration, heartbeat or deregistration."""


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
            await self._services.put(self._name, service)
        known = await self._services.register(self._name, self._instance_id, instance)
        if known.heartbeat_seconds and not self._is_fixed:
            self._heartbeat = known.heartbeat_seconds

    async def _beat(self) -> None:
        try:
            await self._services.heartbeat(
                self._name, self._instance_id, load=self._load(), draining=self.is_draining
            )
        except Absent:
            if self.is_draining:
                raise
            # The scheduler has restarted, and does not know instances until they register again.
            await self._register()

    async def _leave(self) -> None:
        await self._services.deregister(self._name, self._instance_id)

    async def _try(self, what: str, work: Callable[[], Awaitable[None]]) -> bool:
        """Whether the call succeeded; an outage is logged when it begins and when it ends."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await work()
        except (SdkError, TimeoutError) as error:
            is_unknown = isinstance(error, Absent)
            if self._is_answered and not is_unknown:
                LOG.warning("%s of %s/%s failed: %s", what, self._name, self._instance_id, error)
            self._is_answered = is_unknown
            return False
        if not self._is_answered:
            LOG.info("%s/%s is registered again", self._name, self._instance_id)
        self._is_answered = True
        return True
