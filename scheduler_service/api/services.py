"""Services: registered, listed, removed, and where their jobs differ from it (SPEC sections 11, 13)."""

import re
from http import HTTPStatus
from typing import Any, Literal

import msgspec
from starlette.responses import Response

from client_sdk.models import ServiceDeclaration
from client_sdk.models.services import SERVICE_NAME
from scheduler_service.api.bodies import read_model
from scheduler_service.api.declared_timers import check_address, check_timers, read_declaration, read_timers
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.problems import ApiProblem, Flaw, absent, invalid
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.api.shapes import instance_line, service_line
from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.domain.services import GRACE, RateLimit, Service
from scheduler_service.persistence.common.cursor import read_cursor, write_cursor
from scheduler_service.services.registry import TimerDeclaration, digest_of

_ServicePlace = tuple[Literal["services"], str]
_DriftPlace = tuple[Literal["drift"], str]
_NAME = re.compile(SERVICE_NAME[1:-1])


async def put(call: ApiRequest) -> Response:
    """`PUT /services/{name}`: all that a service says of itself; 201 where it is new.

    Without `timers` those that are declared stay; `[]` declares that there are none any more.
    """
    parts, name = call.parts, name_of(call)
    raw, value = await read_declaration(call)
    said = read_model(ServiceDeclaration, value)
    if said.signing is not None:
        raise invalid("/signing", "not_available", "signing is not available in this version; remove it")
    address = await check_address(parts, said.address)
    timers, warnings = _declared(parts, name, said, raw)
    kept, is_new = await parts.registry.register(_as_service(parts, name, said, address), timers)
    if call.query["force"]:
        await parts.scan.apply(kept, force=True)
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    return await _show(parts, kept, status=status, warnings=warnings)


async def read(call: ApiRequest) -> Response:
    """`GET /services/{name}`: with its timers and instances."""
    return await _show(call.parts, find_service(call))


async def list_all(call: ApiRequest) -> Response:
    """`GET /services`, by name."""
    parts, now = call.parts, call.parts.clock.now()
    after, limit = _read_place(call.query["cursor"], _ServicePlace), call.query["limit"]
    known = parts.registry.services(parts.surroundings.tenant)
    found = [one for one in known if one.name > after][: limit + 1]
    items = [_line(parts, one, now) for one in found[:limit]]
    place = ("services", items[-1]["name"]) if len(found) > limit else None
    return succeed({"items": items, "nextCursor": None if place is None else write_cursor(place)})


async def remove(call: ApiRequest) -> Response:
    """`DELETE /services/{name}`: its jobs are paused, and destroyed after its grace period."""
    name = name_of(call)
    if not await call.parts.registry.remove(call.parts.surroundings.tenant, name):
        raise _no_service(name)
    return succeed({"name": name})


async def show_drift(call: ApiRequest) -> Response:
    """`GET /services/{name}/drift`: where jobs differ from what is declared, and what will be done."""
    after, limit = _read_place(call.query["cursor"], _DriftPlace), call.query["limit"]
    found = await call.parts.drift.read(find_service(call), after=after, limit=limit + 1)
    items = found[:limit]
    place = ("drift", items[-1]["jobId"]) if len(found) > limit else None
    return succeed({"items": items, "nextCursor": None if place is None else write_cursor(place)})


def name_of(call: ApiRequest) -> str:
    """The service that the path names. Raises ApiProblem (422) where it cannot be one."""
    name = call.path["name"]
    if _NAME.fullmatch(name) is None:
        text = "use 1 to 128 of letters, digits, '.', '_' and '-', the first a letter or digit"
        raise invalid("/name", "pattern", f"name {name[:140]!r} is not well formed; {text}")
    return name


def find_service(call: ApiRequest) -> Service:
    """The service that the path names. Raises ApiProblem (404, 422)."""
    name = name_of(call)
    service = call.parts.registry.find(call.parts.surroundings.tenant, name)
    if service is None:
        raise _no_service(name)
    return service


def _read_place(cursor: str | None, kind: Any) -> str:
    """Behind what the page begins. Raises CursorError, which is 422."""
    if cursor is None:
        return ""
    after: str = read_cursor(cursor, kind)[1]
    return after


def _declared(
    parts: ApiDependencies, name: str, said: ServiceDeclaration, raw: bytes
) -> tuple[TimerDeclaration | None, tuple[Flaw, ...]]:
    posted = read_timers(raw)
    if posted is None or said.timers is None:
        return None, ()
    text, warnings = check_timers(parts, posted, said.timers, name)
    return TimerDeclaration(digest_of(posted), text), warnings


def _as_service(parts: ApiDependencies, name: str, said: ServiceDeclaration, address: str) -> Service:
    grace, limit = said.grace_seconds, said.rate_limit
    return Service(
        tenant=parts.surroundings.tenant,
        name=name,
        address=address or None,
        route=said.route,
        tags=tuple(said.tags or ()),
        keeps=said.on_change == "keep",
        grace=GRACE if grace is None else round(grace * SECOND),
        rate_limit=None if limit is None else RateLimit(limit.count, round(limit.per_seconds * SECOND)),
    )


async def _show(
    parts: ApiDependencies,
    service: Service,
    *,
    status: HTTPStatus = HTTPStatus.OK,
    warnings: tuple[Flaw, ...] = (),
) -> Response:
    now, instances = parts.clock.now(), parts.registry.instances
    timers = await parts.registry.timers(service.tenant, service.name)
    shown = [
        instance_line(one, now, is_online=instances.is_online(one, now.steady))
        for one in instances.known(service.tenant, service.name)
    ]
    data = _line(parts, service, now) | {"timers": msgspec.Raw(timers), "instances": shown}
    headers = {"location": f"/services/{service.name}"} if status is HTTPStatus.CREATED else {}
    return succeed(data, status=status, warnings=warnings, headers=headers)


def _line(parts: ApiDependencies, service: Service, now: Now) -> dict[str, object]:
    instances = parts.registry.instances
    online = instances.online(service.tenant, service.name, now.steady)
    return service_line(
        service,
        instances.known(service.tenant, service.name),
        sum(not one.draining for one in online),
    )


def _no_service(name: str) -> ApiProblem:
    return absent("/name", f"there is no service {name!r}")
