"""Whoever is called at night: reads the log, scrapes `/metrics` and gets the alerts; looks how soon."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from tests.faults.processes import Caller
from tests.faults.target import Target

T = TypeVar("T")
WITHIN = 30.0
"""Seconds in which each sign of an incident is seen, and its end; what docs/operations.md promises."""
LOOK = 0.1
HOOK = "/hook"


class Watch:
    """Awaits the signs of one incident. `lines` gives the log so far; alerts come to the target at `HOOK`."""

    def __init__(self, *, service: Caller, target: Target, lines: Callable[[], list[dict[str, Any]]]) -> None:
        self.service = service
        self.target = target
        self._lines = lines
        self._since = time.monotonic()
        self._what = ""

    def start(self, what: str) -> None:
        """From now on it is counted how long a sign takes; `what` has happened just now."""
        self._what, self._since = what, time.monotonic()

    async def line(self, event: str, **keys: object) -> dict[str, Any]:
        """The first line of the log with this event and these keys."""

        async def look() -> dict[str, Any] | None:
            return _first(self._lines(), {"event": event, **keys})

        return await self._await(f"log {event}", look)

    async def metric(self, name: str, holds: Callable[[float], bool], **labels: str) -> float:
        """The value of a sample, once `holds` is true of it; with `labels` and any others."""

        async def look() -> tuple[float] | None:
            found = [value for value in await self.samples(name, **labels) if holds(value)]
            return (found[0],) if found else None

        (value,) = await self._await(f"metric {name} {labels or ''}", look)
        return value

    async def samples(self, name: str, **labels: str) -> list[float]:
        """What one scrape has of a metric."""
        text = (await self.service.ask("GET", "/metrics")).text
        families = text_string_to_metric_families(text)
        return [
            one.value
            for family in families
            for one in family.samples
            if one.name == name and labels.items() <= one.labels.items()
        ]

    async def alert(self, kind: str, **members: object) -> dict[str, Any]:
        """The first message with this `kind` and these members that the receiver got."""

        async def look() -> dict[str, Any] | None:
            return _first(self.messages(), {"kind": kind, **members})

        return await self._await(f"alert {kind} {members or ''}", look)

    async def recovered(self, of: str, **members: object) -> dict[str, Any]:
        """The message that it is over."""
        return await self.alert("recovered", of=of, **members)

    async def told(self, of: str, **members: object) -> dict[str, Any]:
        """A message of it, or where it was over before that could be sent, that it is over."""

        async def look() -> dict[str, Any] | None:
            return _first(self.messages(), {"of": of, **members})

        return await self._await(f"alert of {of}", look)

    def messages(self) -> list[dict[str, Any]]:
        """All messages so far."""
        return [json.loads(one.body) for one in self.target.to(HOOK)]

    async def ready(self, status: int) -> str:
        """What `/health/ready` says, once it has this status."""

        async def look() -> str | None:
            answer = await self.service.ask("GET", "/health/ready")
            return answer.text if answer.status_code == status else None

        return await self._await(f"/health/ready {status}", look)

    async def _await(self, sign: str, look: Callable[[], Any]) -> Any:
        while (found := await look()) is None:
            seconds = time.monotonic() - self._since
            assert seconds < WITHIN, f"{self._what}: no {sign}\n{self._seen()}"
            await asyncio.sleep(LOOK)
        print(f"{self._what}: {sign} after {time.monotonic() - self._since:.1f} s")
        return found

    def _seen(self) -> str:
        return "\n".join(json.dumps(one, default=str) for one in [*self._lines()[-20:], *self.messages()])


def _first(found: list[dict[str, Any]], wanted: Mapping[str, object]) -> dict[str, Any] | None:
    return next((one for one in found if wanted.items() <= one.items()), None)
