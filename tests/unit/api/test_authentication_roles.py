"""Every route with every kind of key: exactly what the table of docs/security.md says (SPEC section 14)."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx
import pytest

from scheduler_service.api.application import OPERATIONS
from scheduler_service.api.openapi import describe
from scheduler_service.api.request import ApiOperation, KeyScope
from scheduler_service.security.key_ring import KeyRing
from tests.manual_clock import ManualClock
from tests.unit.api.stores import START
from tests.unit.api.world import World
from tests.unit.docs.pages import read, rows
from tests.unit.security.memory_keys import MemoryKeys

ROLES = ("viewer", "operator", "editor", "admin")
PATHS = {
    "jobId": "absent",
    "executionId": "absent-1",
    "deliveryId": "absent-1-0",
    "operationId": "absent",
    "keyId": "0000000000000000",
    "lease": "absent",
    "name": "shop",
    "instanceId": "i",
    "requestCounts": "1",
}


class Row(NamedTuple):
    """A line of the table."""

    route: str
    role: str
    service: bool
    labels: bool
    is_of_platform: bool


def table() -> dict[str, Row]:
    """The table by route."""
    section = read("docs/security.md").partition("### What each role may do")[2].partition("\n## ")[0]
    found = [
        Row(cells[0].strip("`"), cells[1], cells[2] == "yes", cells[3] == "yes", cells[4] == "`default`")
        for cells in rows(section)
        if cells[0].startswith("`")
    ]
    return {row.route: row for row in found}


def row_of(operation: ApiOperation) -> Row:
    """What the code says of an operation."""
    if operation.is_open:
        return Row(operation.route, "none", True, True, operation.of_platform)
    scopes = (KeyScope.SERVICE in operation.scopes, KeyScope.LABELS in operation.scopes)
    return Row(operation.route, operation.role.value, *scopes, operation.of_platform)


def test_the_table_is_that_of_the_code() -> None:
    """A line for each operation, in order of paths, and no other."""
    in_order = sorted(OPERATIONS, key=lambda one: (one.path, one.method))
    assert list(table().values()) == [row_of(operation) for operation in in_order]


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
            "service": {"role": "editor", "service": "shop"},
            "labels": {"role": "editor", "labels": ["team:ops"]},
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
        path = re.sub(r"\{(\w+)\}", lambda found: PATHS[found[1]], path)
        body = {"json": {}} if method in ("POST", "PUT") else {}
        answer = await self.client.request(method, path, headers=self.headers[kind], **body)
        if answer.is_success or not answer.content.startswith(b"{"):
            return answer.status_code, ""
        errors = answer.json()["errors"]
        return answer.status_code, errors[0]["code"] if errors else ""


def expected(row: Row, kind: str) -> tuple[int, str] | None:
    """The answer that the table promises; None: any other than one about the key."""
    if row.role == "none":
        return None
    if kind in ("none", "unknown", "revoked", "expired"):
        return 401, "unauthorized"
    if row.is_of_platform and kind == "other tenant":
        return 404, "absent"
    role = kind if kind in ROLES else "admin" if kind == "other tenant" else "editor"
    if ROLES.index(role) < ROLES.index(row.role):
        return 403, "role"
    if (kind == "service" and not row.service) or (kind == "labels" and not row.labels):
        return 403, "scope"
    return None


@pytest.mark.parametrize(
    "kind",
    [*ROLES, "service", "labels", "other tenant", "none", "unknown", "revoked", "expired"],
)
async def test_each_kind_of_key_is_answered_as_the_table_says(kind: str) -> None:
    """Over the whole OpenAPI document; the answer of who may is never about the key."""
    kinds, known = Kinds(), table()
    await kinds.prepare()
    wrong = {}
    for route in routes():
        answered, promised = await kinds.ask(route, kind), expected(known[route], kind)
        is_about_key = answered[0] == 401 or answered in ((403, "role"), (403, "scope"))
        if is_about_key if promised is None else answered != promised:
            wrong[route] = answered, promised
    assert wrong == {}
