"""Every route with every kind of key: exactly what the table of docs/security.md says (SPEC section 14)."""

import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from scheduler_service.api.application import OPERATIONS
from scheduler_service.api.openapi import describe
from scheduler_service.security.key_ring import KeyRing
from tests.manual_clock import ManualClock
from tests.unit.api.stores import START
from tests.unit.api.world import World
from tests.unit.docs.roles import ENDED, ROLES, expected, is_as_promised, table
from tests.unit.security.memory_keys import MemoryKeys

NARROW = ROLES[:-1]
"""An admin's key is never for a part."""
PATHS = {
    "executionId": "absent-1",
    "deliveryId": "absent-1-0",
    "keyId": "0000000000000000",
    "name": "shop",
    "instanceId": "i",
    "requestCounts": "1",
}


def routes() -> list[str]:
    """All routes of the OpenAPI document."""
    paths: Mapping[str, Any] = describe(OPERATIONS, version="1")["paths"]
    return [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]


class Kinds:
    """A service, and a header for each kind of caller."""

    def __init__(self) -> None:
        self.clock = ManualClock(wall=START)
        ring = KeyRing(table=MemoryKeys(), clock=self.clock)
        self.world = World(admin_key="the-key-of-the-settings", key_ring=ring, clock=self.clock)
        transport = httpx.ASGITransport(self.world.api, raise_app_exceptions=False, client=("127.0.0.1", 1))
        self.client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000")
        self.headers: dict[str, dict[str, str]] = {}

    async def prepare(self) -> None:
        """Makes the keys; the time is then behind the end of one of them."""
        admin = {"Authorization": "Bearer the-key-of-the-settings"}
        kinds: dict[str, dict[str, Any]] = {
            **{role: {"role": role} for role in ROLES},
            **{f"service {role}": {"role": role, "service": "shop"} for role in NARROW},
            **{f"labels {role}": {"role": role, "labels": ["team:ops"]} for role in NARROW},
            "other tenant": {"role": "admin", "tenant": "other"},
            "expired": {"role": "admin", "expiresAt": "2026-01-01T00:00:01Z"},
            "revoked": {"role": "admin"},
        }
        for kind, members in kinds.items():
            answer = await self.client.post("/keys", json={"name": kind, **members}, headers=admin)
            made = answer.json()["data"]
            self.headers[kind] = {"Authorization": f"Bearer {made['key']}"}
            if kind == "revoked":
                await self.client.delete(f"/keys/{made['keyId']}", headers=admin)
        self.headers |= {"none": {}, "unknown": {"Authorization": "Bearer nobody-has-this-key"}}
        self.clock.advance(2_000)

    async def ask(self, route: str, kind: str) -> tuple[int, str]:
        """The status of an answer, and the code of its first error."""
        self.clock.advance(60_000)  # wrong keys are counted by the minute
        method, path = route.split(" ")
        path = re.sub(r"\{(\w+)\}", lambda found: PATHS.get(found[1], "absent"), path)
        body = {"json": {}} if method in ("POST", "PUT") else {}
        answer = await self.client.request(method, path, headers=self.headers[kind], **body)
        if answer.is_success or not answer.content.startswith(b"{"):
            return answer.status_code, ""
        errors = answer.json()["errors"]
        return answer.status_code, errors[0]["code"] if errors else ""


@pytest.mark.parametrize(
    "kind",
    [
        *ROLES,
        *(f"{part} {role}" for part in ("service", "labels") for role in NARROW),
        "other tenant",
        *ENDED,
    ],
)
async def test_each_kind_of_key_is_answered_as_the_table_says(kind: str) -> None:
    """Over the whole OpenAPI document; the answer of who may is never about the key."""
    kinds, known = Kinds(), table()
    await kinds.prepare()
    wrong = {}
    for route in routes():
        status, code = await kinds.ask(route, kind)
        if not is_as_promised(known[route], kind, status, code):
            wrong[route] = status, code, expected(known[route], kind)
    assert wrong == {}
