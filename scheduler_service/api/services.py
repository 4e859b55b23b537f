"""Services and their instances: registered, listed, removed; drift of jobs (SPEC sections 11, 13).

Each declared timer is checked like a job, with its problems below `/timers/INDEX`.
"""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, Literal

import msgspec
from starlette.responses import Response

from client_sdk.models import Heartbeat, InstanceRegistration, Problem, ServiceDeclaration
from scheduler_service.api.bodies import read_json, read_model
from scheduler_service.api.definitions import add_members, check_posted
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import ApiProblem, Flaw, absent, invalid, invalid_all, refuse, succeed
from scheduler_service.api.shapes import instance_line, service_line
from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.domain.services import GRACE, RateLimit, Service
from scheduler_service.persistence.common.pagination import read_cursor, write_cursor
from scheduler_service.services.instances import Instance
from scheduler_service.services.registry import TimerDeclaration, digest_of
from scheduler_service.transport.addresses import read_url
from scheduler_service.transport.errors import RefusedTarget, TransportError

_ServicePlace = tuple[Literal["services"], str]
_DriftPlace = tuple[Literal["drift"], str]
MAX_TIMERS = 1_000


class _Body(msgspec.Struct):
    timers: msgspec.Raw = msgspec.Raw(b"null")


_BODY = msgspec.json.Decoder(_Body)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


async def put_service(request: ApiRequest) -> Response:
    """`PUT /services/{name}`: replaces the registration; 201 where the service is new.

    Without `timers` the declared ones stay; `[]` declares that there are none any more.
    """
    deps, name = request.deps, request.service
    raw, value = await read_registration(request)
    posted = read_model(ServiceDeclaration, value)
    if posted.signing is not None:
        raise invalid("/signing", "not_available", "signing is not available in this version; remove it")
    grace, limit = posted.grace_seconds, posted.rate_limit
    service = Service(
        tenant=request.caller.tenant,
        name=name,
        address=await check_address(deps, posted.address) or None,
        route=posted.route,
        tags=tuple(posted.tags or ()),
        keeps=posted.on_change == "keep",
        grace=GRACE if grace is None else round(grace * SECOND),
        rate_limit=None if limit is None else RateLimit(limit.count, round(limit.per_seconds * SECOND)),
    )
    timers, warnings = read_declaration(deps, name, raw, posted.timers)
    registered, is_new = await deps.registry.register(service, timers)
    if request.query["force"]:
        await deps.reconcile.apply(registered, force=True)
    return await _show(request, registered, is_new=is_new, warnings=warnings)


async def read_service(request: ApiRequest) -> Response:
    """`GET /services/{name}`: with its timers and instances."""
    return await _show(request, find_service(request))


async def list_services(request: ApiRequest) -> Response:
    """`GET /services`, by name."""
    now = request.deps.clock.now()
    after, limit = _read_place(request.query["cursor"], _ServicePlace), request.query["limit"]
    known = request.deps.registry.services(request.caller.tenant)
    found = [one for one in known if one.name > after][: limit + 1]
    items = [_line(request, one, now) for one in found[:limit]]
    place = write_cursor(("services", items[-1]["name"])) if len(found) > limit else None
    return succeed({"items": items, "nextCursor": place})


async def remove_service(request: ApiRequest) -> Response:
    """`DELETE /services/{name}`: its jobs are paused, and destroyed after its grace period."""
    name = request.service
    if not await request.deps.registry.remove(request.caller.tenant, name):
        raise _no_service(name)
    return succeed({"name": name})


async def show_drift(request: ApiRequest) -> Response:
    """`GET /services/{name}/drift`: where jobs differ from the declaration, and what will be done."""
    after, limit = _read_place(request.query["cursor"], _DriftPlace), request.query["limit"]
    found = await request.deps.drift.read(find_service(request), after=after, limit=limit + 1)
    items = found[:limit]
    place = write_cursor(("drift", items[-1]["jobId"])) if len(found) > limit else None
    return succeed({"items": items, "nextCursor": place})


async def put_instance(request: ApiRequest) -> Response:
    """`PUT /services/{name}/instances/{instanceId}`: the whole registration, repeated every 30 s.

    A service that is not registered yet is created by its first instance.
    """
    deps, name, instance_id = request.deps, request.service, request.instance_id
    raw, value = await read_registration(request)
    posted = read_model(InstanceRegistration, value)
    now, tenant = deps.clock.now(), request.caller.tenant
    instance = Instance(
        service=name,
        tenant=tenant,
        instance_id=instance_id,
        address=await check_address(deps, posted.address),
        tags=tuple(posted.tags or ()),
        capacity=posted.capacity,
        description=posted.description or "",
        seen=now.steady,
    )
    service = deps.registry.find(tenant, name)
    digest = None if service is None else service.digest
    timers, warnings = read_declaration(deps, name, raw, posted.timers, current_digest=digest)
    registered, is_new = await deps.registry.announce(instance, timers)
    data = instance_line(registered, now, is_online=True) | {
        "heartbeatSeconds": deps.heartbeat_seconds,
        "offlineSeconds": deps.registry.instances.offline_after / SECOND,
    }
    return succeed(data, status=HTTPStatus.CREATED if is_new else HTTPStatus.OK, warnings=warnings)


async def remove_instance(request: ApiRequest) -> Response:
    """`DELETE /services/{name}/instances/{instanceId}`: the instance gets no more calls."""
    name, instance_id = request.service, request.instance_id
    if not request.deps.registry.instances.remove(request.caller.tenant, name, instance_id):
        raise _no_instance(name, instance_id)
    return succeed({"instanceId": instance_id})


async def take_heartbeat(request: ApiRequest) -> Response:
    """`POST …/heartbeat`: the instance is alive, with this load; after a 404 it has to register again."""
    name, instance_id = request.service, request.instance_id
    raw = await request.body()
    posted = read_model(Heartbeat, read_json(raw)) if raw else Heartbeat()
    deps = request.deps

    async def work() -> dict[str, str]:
        renewed = deps.registry.instances.renew(
            request.caller.tenant,
            name,
            instance_id,
            deps.clock.now().steady,
            load=posted.load,
            draining=posted.draining,
        )
        if renewed is None:
            raise _no_instance(name, instance_id)
        return {"instanceId": instance_id, "state": "draining" if renewed.draining else "online"}

    subject = f"services/{name}/instances/{instance_id}/heartbeat"
    return succeed(await request.run_once(subject, raw, work))


def find_service(request: ApiRequest) -> Service:
    """The service that the path names. Raises ApiProblem (404, 422)."""
    name = request.service
    service = request.deps.registry.find(request.caller.tenant, name)
    if service is None:
        raise _no_service(name)
    return service


def _read_place(cursor: str | None, kind: Any) -> str:
    """The last name of the page before. Raises CursorError (422)."""
    if cursor is None:
        return ""
    after: str = read_cursor(cursor, kind)[1]
    return after


async def _show(
    request: ApiRequest, service: Service, *, is_new: bool = False, warnings: tuple[Flaw, ...] = ()
) -> Response:
    registry, now = request.deps.registry, request.deps.clock.now()
    timers = await registry.timers(service.tenant, service.name)
    shown = [
        instance_line(one, now, is_online=registry.instances.is_online(one, now.steady))
        for one in registry.instances.known(service.tenant, service.name)
    ]
    data = _line(request, service, now) | {"timers": msgspec.Raw(timers), "instances": shown}
    if not is_new:
        return succeed(data, warnings=warnings)
    headers = {"location": f"/services/{service.name}"}
    return succeed(data, headers, status=HTTPStatus.CREATED, warnings=warnings)


def _line(request: ApiRequest, service: Service, now: Now) -> dict[str, object]:
    instances = request.deps.registry.instances
    online = instances.online(service.tenant, service.name, now.steady)
    known = instances.known(service.tenant, service.name)
    return service_line(service, known, sum(not one.draining for one in online))


def _no_service(name: str) -> ApiProblem:
    return absent("/name", f"there is no service {name!r}")


def _no_instance(name: str, instance_id: str) -> ApiProblem:
    message = f"the service {name!r} has no instance {instance_id!r} here; register it again"
    return absent("/instanceId", message)


async def read_registration(request: ApiRequest) -> tuple[bytes, dict[str, object]]:
    """The body, an object: `timers` may be as large as an array, the rest as an object.

    Raises ApiProblem (400, 413, 415, 422).
    """
    deps = request.deps
    raw = await request.body(deps.array_bytes) or b"{}"
    if len(raw) > deps.body_bytes and len(raw) - _size_of_timers(raw) > deps.body_bytes:
        text = f"the body without its timers is larger than {deps.body_bytes:,} bytes; shorten it"
        raise refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "", "too_large", text)
    value = read_json(raw)
    if not isinstance(value, dict):
        raise invalid("", "type", "the body must be a JSON object")
    return raw, value


def read_declaration(
    deps: ApiDependencies,
    service: str,
    raw: bytes,
    values: Sequence[object] | None,
    *,
    current_digest: bytes | None = None,
) -> tuple[TimerDeclaration | None, tuple[Flaw, ...]]:
    """The timers in the body `raw`, whose values are `values`, and their warnings; None: it has no timers.

    Timers with `current_digest` are not checked again: that was done when they were declared. Where a
    definition has no creator, the service is its creator. Raises ApiProblem (422) with all problems.
    """
    text = bytes(_BODY.decode(raw).timers)
    if text == b"null" or values is None:
        return None, ()
    digest = digest_of(text)
    if digest == current_digest:
        return TimerDeclaration(digest), ()
    kept, warnings = _check_timers(deps, text, values, service)
    return TimerDeclaration(digest, kept), warnings


async def check_address(deps: ApiDependencies, address: str | None) -> str:
    """A base address `http(s)://host[:port][/path]` without its last slash; None becomes empty.

    Without a key any local caller may register, so the address is checked like a job's target (SPEC
    section 9). Raises ApiProblem (422).
    """
    if address is None:
        return ""
    try:
        read_url(address)
        if "?" in address or "#" in address:
            raise RefusedTarget("a base address has neither query nor fragment: leave them out")
        if deps.admit is not None:
            await deps.admit(address)
    except TransportError as error:
        message = f"address {address[:140]!r} is refused: {error}"
        raise invalid("/address", "invalid", message) from None
    return address.rstrip("/")


def _check_timers(
    deps: ApiDependencies, text: bytes, values: Sequence[object], service: str
) -> tuple[bytes, tuple[Flaw, ...]]:
    """The text to keep, and the warnings."""
    if len(values) > MAX_TIMERS:
        message = f"{len(values)} timers are too many; declare at most {MAX_TIMERS}"
        raise invalid("/timers", "range", message)
    kept: list[bytes] = []
    warnings: list[Flaw] = []
    errors: list[Flaw] = []
    seen: set[str] = set()
    for index, (value, item) in enumerate(zip(values, _ITEMS.decode(text), strict=True)):
        try:
            checked = check_posted(deps, _add_creator(bytes(item), value, service), None)
        except ApiProblem as problem:
            errors.extend(_below(index, (Problem(**error) for error in problem.errors)))
            continue
        if checked.job_id in seen:
            message = f"jobId {checked.job_id!r} is declared twice; a job is declared once"
            errors.append(Problem(f"/timers/{index}/jobId", "duplicate", message))
        seen.add(checked.job_id)
        kept.append(checked.definition.text)
        warnings.extend(_below(index, checked.warnings))
    if errors:
        raise invalid_all(errors)
    return b"[" + b",".join(kept) + b"]", tuple(warnings)


def _size_of_timers(raw: bytes) -> int:
    """The bytes of `timers` in `raw`, which need not be valid JSON."""
    try:
        return len(_BODY.decode(raw).timers)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0


def _add_creator(item: bytes, value: object, service: str) -> bytes:
    if not isinstance(value, dict):
        return item
    left_out = [name for name in ("creator", "creatorName") if value.get(name) is None]
    return add_members(item, dict.fromkeys(left_out, msgspec.json.encode(service)))


def _below(index: int, flaws: Iterable[Flaw]) -> list[Flaw]:
    return [Problem(f"/timers/{index}{flaw.pointer}", flaw.code, flaw.message) for flaw in flaws]
