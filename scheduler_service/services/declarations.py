"""Reads the jobs that a service declares: ids and digests at once, the definitions when they are needed."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from scheduler_service.domain.services import Service
from scheduler_service.services.declared import DeclaredJob
from scheduler_service.services.registry import Registry

_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_CANONICAL = msgspec.json.Encoder(order="sorted")


class Declarations:
    """The declared jobs of services, decoded once per declaration. All methods raise StoreUnavailable."""

    def __init__(self, *, registry: Registry) -> None:
        self._registry = registry
        self._cache: dict[tuple[str, str], tuple[bytes, Mapping[str, DeclaredJob]]] = {}

    async def read(self, service: Service) -> Mapping[str, DeclaredJob]:
        """The declared jobs by id."""
        if service.removed_at is not None:
            self._cache.pop((service.tenant, service.name), None)
            return {}
        key = (service.tenant, service.name)
        cached = self._cache.get(key)
        if cached is not None and cached[0] == service.digest:
            return cached[1]
        found = {one.job_id: one for one in map(_describe, (await self.texts(service)).values())}
        self._cache[key] = (service.digest, found)
        return found

    async def texts(self, service: Service) -> Mapping[str, bytes]:
        """The declared definitions by job id, as stored."""
        raws = _RAWS.decode(await self._registry.timers(service.tenant, service.name))
        return {str(msgspec.json.decode(raw)["jobId"]): bytes(raw) for raw in raws}


def _describe(text: bytes) -> DeclaredJob:
    value: dict[str, Any] = msgspec.json.decode(text)
    active = value.get("active")
    return DeclaredJob(
        job_id=value["jobId"],
        digest=sha256(_CANONICAL.encode(value)).digest(),
        active=None if active is None else bool(active),
        manual=value.get("startPolicy") == "manual",
    )
