"""Declared timers as answers show them: what several answers send at one moment is in memory once."""

import asyncio
from weakref import WeakValueDictionary

from scheduler_service.domain.services import Service
from scheduler_service.ports.services import ServiceTable


class TimerText:
    """The declared timers of a service, a JSON array, for as long as somebody has this object."""

    def __init__(self, text: bytes) -> None:
        self.text = text


class TimerTexts:
    """Reads them from the table, unless an answer has them already; one is read at a time."""

    def __init__(self, *, table: ServiceTable) -> None:
        self._table = table
        self._known: WeakValueDictionary[tuple[str, str, bytes], TimerText] = WeakValueDictionary()
        self._reading = asyncio.Lock()

    async def read(self, service: Service) -> TimerText:
        """The timers that `service` declares. Raises StoreUnavailable."""
        key = (service.tenant, service.name, service.digest)
        async with self._reading:
            found = self._known.get(key)
            if found is None:
                found = TimerText(await self._table.timers(service.tenant, service.name))
                self._known[key] = found
            return found
