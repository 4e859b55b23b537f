"""An instance in the scheduler's registry: registered, heard of, and gone in good order (SPEC section 13)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from client_sdk.client.services import Services
from client_sdk.errors import Absent, SdkError
from client_sdk.models import InstanceRegistration, ServiceDeclaration

LOG = logging.getLogger("client_sdk")
HEARTBEAT = 3.0
REGISTRATION = 30.0
PATIENCE = 10.0
"""Seconds that one registration, heartbeat or farewell may take."""


class Registration:
    """Keeps one instance registered while it runs. A scheduler that does not answer is asked again and again.

    `declare` gives what is registered at this moment; `load` how much is under way. `heartbeat` None: as
    often as the scheduler asks for, every 3 s until it has.
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
        registration: float = REGISTRATION,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._services = services
        self._name = name
        self._instance_id = instance_id
        self._declare = declare
        self._load = load
        self._is_fixed = heartbeat is not None
        self._heartbeat = HEARTBEAT if heartbeat is None else heartbeat
        self._every = registration
        self._pause = pause
        self._task: asyncio.Task[None] | None = None
        self._is_heard = True
        self.is_draining = False

    async def start(self) -> None:
        """Registers, and goes on doing so. Returns after the first try, whatever came of it."""
        is_registered = await self._try("registration", self._register)
        self._task = asyncio.create_task(self._keep(is_registered))

    async def drain(self) -> None:
        """Says that no more work is taken; the heartbeats go on."""
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
            # The scheduler has been started anew: it knows nobody until they say who they are.
            await self._register()

    async def _leave(self) -> None:
        await self._services.deregister(self._name, self._instance_id)

    async def _try(self, what: str, work: Callable[[], Awaitable[None]]) -> bool:
        """Whether the scheduler took it; a trouble is logged when it begins and when it ends."""
        try:
            async with asyncio.timeout(PATIENCE):
                await work()
        except (SdkError, TimeoutError) as error:
            is_unknown = isinstance(error, Absent)
            if self._is_heard and not is_unknown:
                LOG.warning("%s of %s/%s failed: %s", what, self._name, self._instance_id, error)
            self._is_heard = is_unknown
            return False
        if not self._is_heard:
            LOG.info("%s/%s is heard again", self._name, self._instance_id)
        self._is_heard = True
        return True
