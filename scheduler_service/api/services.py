"""Services and their instances: registered, listed, removed; drift of jobs (SPEC sections 11, 13).

Each declared timer is checked like a job, with its problems below `/timers/INDEX`.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from client_sdk.models import Heartbeat, InstanceRegistration, Problem, ServiceDeclaration, answers
from client_sdk.models.definition import JobOptions
from scheduler_service.api import openapi_examples, parameters
from scheduler_service.api.audit_writing import AuditNote, Way, audited
from scheduler_service.api.bodies import read_json, read_model
from scheduler_service.api.definitions import Creator
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.registrations import (
    instance_line,
    log_warnings,
    pause_members,
    read_declaration,
    read_registration,
    service_line,
    service_members,
)
from scheduler_service.api.request import OF_SERVICES, ApiRequest, PostedBody, Routes
from scheduler_service.api.request_room import WaitingLine
from scheduler_service.api.responses import (
    ENCODER,
    ApiProblem,
    FoundFlaw,
    LongAnswer,
    absent,
    after_change,
    invalid,
    refuse,
    succeed,
)
from scheduler_service.domain.audit_acts import ActKind
from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.domain.registered_services import GRACE, Kind, RateLimit, Service
from scheduler_service.engine.definition_checks import UNKNOWN_SECRET
from scheduler_service.hosts.work_thread import work_by_size
from scheduler_service.language.json_values import LARGE_BYTES
from scheduler_service.language.urls import explain_service_name
from scheduler_service.pacing.slices import Slices
from scheduler_service.persistence.common.pagination import mark_list, write_cursor
from scheduler_service.security.callers import Role
from scheduler_service.services.drift_report import COMPARED, OWN
from scheduler_service.services.instances import Instance
from scheduler_service.services.registry import TimerDeclaration
from scheduler_service.transport.addresses import read_url
from scheduler_service.transport.errors import RefusedTarget, TransportError

ROUTES = Routes("services")

PAGE_BYTES = 4 << 20


@ROUTES.add(
    "PUT /services/{name}",
    Role.EDITOR,
    scopes=OF_SERVICES,
    query=(
        parameters.flag(
            "force",
            "Bring its jobs to the declaration now, over what was edited or made elsewhere.",
            default=False,
        ),
    ),
    body=PostedBody(ServiceDeclaration, openapi_examples.SERVICE),
    data=answers.Service,
    success=(201, 200),
)
async def put_service(request: ApiRequest) -> Response:
    """Register a service with the jobs that it declares, replacing its registration; 201 where it is new.

    Without `timers` the declared ones stay; `[]` declares that there are none any more. Its jobs are as
    declared when it is answered.
    """
    deps, name = request.deps, request.service
    if request.query["force"] and request.caller.is_narrow:
        message = "force may replace jobs of others, so it needs a key of the whole tenant"
        raise refuse(HTTPStatus.FORBIDDEN, "/force", "scope", message)
    await deps.services.registry.catch_up()  # what is declared now is not judged again
    posted, service, timers, warnings = await _read_registered(request)
    known = deps.services.registry.find(service.tenant, name)
    registered, is_new = await deps.services.registry.register(service, timers)
    _tell_changes(request, known, registered)
    if known is None or known.digest != registered.digest:
        log_warnings(deps, name, warnings)
    with after_change(f"the service {name!r} is registered"):
        if request.query["force"]:
            await deps.services.reconcile.apply(registered, force=True)
            warnings += _warn_of_limit(request, name)
        elif timers is not None:
            warnings += await _settle(request, name)
        is_said = posted.options is not None or (known is not None and known.options)
        if is_said or deps.services.reconcile.owes_options(registered):
            await deps.services.reconcile.give_options(registered)
        return await _show(request, registered, is_new=is_new, warnings=warnings)


@ROUTES.add(
    "POST /services/{name}/preview",
    Role.VIEWER,
    scopes=OF_SERVICES,
    body=PostedBody(ServiceDeclaration, openapi_examples.SERVICE),
    data=answers.ServicePreview,
    audit=Way.NONE,
)
async def preview_service(request: ApiRequest) -> Response:
    """Show what a registration would make of a service, and what is wrong with its jobs; changes nothing."""
    await request.deps.services.registry.look()
    _, service, _, warnings = await _read_registered(request)
    is_new = request.deps.services.registry.find(service.tenant, service.name) is None
    data = {"name": service.name, "isNew": is_new, **service_members(service)}
    return succeed(data, warnings=warnings)


async def _read_registered(
    request: ApiRequest,
) -> tuple[ServiceDeclaration, Service, TimerDeclaration | None, tuple[FoundFlaw, ...]]:
    """What is posted, the service that it makes, its jobs (None: none are declared), and the warnings."""
    deps, name = request.deps, request.service
    registration = await read_registration(request)
    posted = read_model(ServiceDeclaration, registration.value)
    _check_signing(request, posted.signing)
    grace, limit = posted.grace_seconds, posted.rate_limit
    known = deps.services.registry.find(request.caller.tenant, name)
    _check_name(name, known)
    address, vouched = await check_address(request, posted.address, known)
    service = Service(
        tenant=request.caller.tenant,
        name=name,
        address=address or None,
        route=posted.route,
        tags=tuple(posted.tags or ()),
        keeps=deps.services.registry.keeps if posted.on_change is None else posted.on_change == "keep",
        grace=GRACE if grace is None else round(grace * SECOND),
        rate_limit=None if limit is None else RateLimit(limit.count, round(limit.per_seconds * SECOND)),
        signing=posted.signing or "",
        options=_write_options(posted.options),
        vouched=vouched,
    )
    by = Creator(name, name, service.tenant, request.caller.is_narrow, caller=request.caller)
    digest = None if known is None else known.digest
    timers, warnings = await read_declaration(deps, by, registration.timers, current_digest=digest)
    return posted, service, timers, warnings


@ROUTES.add(
    "GET /services/{name}",
    Role.VIEWER,
    scopes=OF_SERVICES,
    data=answers.Service,
    statuses=(404,),
    answer_line=WaitingLine.STATE,
)
async def read_service(request: ApiRequest) -> Response:
    """Read a service with its timers and instances."""
    await request.deps.services.registry.look()
    return await _show(request, find_service(request))


@ROUTES.add(
    "GET /services",
    Role.VIEWER,
    scopes=OF_SERVICES,
    query=parameters.paging(),
    data=answers.Listing[answers.ServiceLine],
    answer_line=WaitingLine.STATE,
)
async def list_services(request: ApiRequest) -> Response:
    """List services by name."""
    await request.deps.services.registry.look()
    now = request.deps.clock.now()
    mark = mark_list("services", request.caller.tenant)
    after, limit = request.place(mark), request.query["limit"]
    known = request.deps.services.registry.services(request.caller.tenant)
    own = request.caller.service
    found = [one for one in known if one.name > after and own in (None, one.name)][: limit + 1]
    items: list[msgspec.Raw] = []
    slices, size = Slices(), 0
    for one in found[:limit]:
        await slices.pause()
        line = ENCODER.encode(_line(request, one, now))
        size += len(line)
        if items and size > PAGE_BYTES:
            break
        items.append(msgspec.Raw(line))
    place = write_cursor(mark, found[len(items) - 1].name) if len(items) < len(found) else None
    return succeed({"items": items, "nextCursor": place})


@ROUTES.add(
    "DELETE /services/{name}", Role.EDITOR, scopes=OF_SERVICES, data=answers.ServiceRef, statuses=(404,)
)
async def remove_service(request: ApiRequest) -> Response:
    """Remove a service: its jobs are paused, and destroyed after its grace period."""
    name = request.service
    if not await request.deps.services.registry.remove(request.caller.tenant, name):
        raise _no_service(name)
    return succeed({"name": name})


@ROUTES.add(
    "POST /services/{name}/pause",
    Role.OPERATOR,
    scopes=OF_SERVICES,
    data=answers.ServiceLine,
    statuses=(404,),
)
async def pause_service(request: ApiRequest) -> Response:
    """Pause a service: steps for it wait until it is resumed."""
    return await _change_pause(request, "pause", request.deps.services.registry.pause_service)


@ROUTES.add(
    "POST /services/{name}/resume",
    Role.OPERATOR,
    scopes=OF_SERVICES,
    data=answers.ServiceLine,
    statuses=(404,),
)
async def resume_service(request: ApiRequest) -> Response:
    """Resume a service: the steps that wait for it are sent."""
    return await _change_pause(request, "resume", request.deps.services.registry.resume_service)


@ROUTES.add(
    "GET /services/{name}/drift",
    Role.VIEWER,
    scopes=OF_SERVICES,
    query=parameters.paging(),
    data=answers.Listing[answers.Drift],
    statuses=(404,),
    answer_line=WaitingLine.STATE,
)
async def show_drift(request: ApiRequest) -> Response:
    """Show where jobs differ from what a service declares, why, and what will be done."""
    service, limit = find_service(request), request.query["limit"]
    mark = mark_list("drift", service.tenant, service.name)
    # A key of a service does not see what others have made of an id that it declares.
    compared, after = OWN if request.caller.is_narrow else COMPARED, request.place(mark)
    items, last = await request.deps.services.drift.read(service, after=after, limit=limit, compared=compared)
    if not request.caller.role.includes(Role.EDITOR):
        items = [await work_by_size(len(one), partial(_hide_plain, request, one)) for one in items]
    place = None if last is None else write_cursor(mark, last)
    return succeed({"items": items, "nextCursor": place})


def _hide_plain(request: ApiRequest, item: msgspec.Raw) -> msgspec.Raw:
    """A line of drift without the values of plain credentials."""
    masking = request.deps.security.masking
    if not masking.may_have_plain(item):
        return item
    line = msgspec.json.decode(item)
    for one in line["differences"]:
        name = one["pointer"].rpartition("/")[2]
        one |= {side: masking.hide(one[side], name) for side in ("declared", "stored")}
    return msgspec.Raw(ENCODER.encode(line))


@ROUTES.add(
    "PUT /services/{name}/instances/{instanceId}",
    Role.EDITOR,
    scopes=OF_SERVICES,
    by_service=True,
    body=PostedBody(InstanceRegistration, openapi_examples.INSTANCE),
    data=answers.Instance,
    success=(201, 200),
    audit=Way.NONE,
)
async def put_instance(request: ApiRequest) -> Response:
    """Register an instance, every 30 s.

    A service that is not registered yet is created by its first instance. New or changed jobs are as
    declared when it is answered.
    """
    deps, name, instance_id = request.deps, request.service, request.instance_id
    registration = await read_registration(request)
    posted = read_model(InstanceRegistration, registration.value)
    now, tenant = deps.clock.now(), request.caller.tenant
    known = deps.services.registry.instances.get(tenant, name, instance_id)
    service = deps.services.registry.find(tenant, name)
    _check_name(name, service)
    address, vouched = await check_address(request, posted.address, known)
    instance = Instance(
        service=name,
        tenant=tenant,
        instance_id=instance_id,
        address=address,
        tags=tuple(posted.tags or ()),
        capacity=posted.capacity,
        description=posted.description or "",
        seen=now.steady,
        vouched=vouched,
    )
    digest = None if service is None else service.digest
    by = Creator(name, name, tenant, request.caller.is_narrow, caller=request.caller)
    timers, warnings = await read_declaration(deps, by, registration.timers, current_digest=digest)
    registered, is_new = await deps.services.registry.announce(instance, timers)
    log_warnings(deps, name, warnings)
    warnings += _warn_of_shared_address(deps, registered)
    if timers is not None:
        warnings += await _settle(request, name)
    data = instance_line(registered, now, is_online=True) | {
        "heartbeatSeconds": deps.services.heartbeat_seconds,
        "offlineSeconds": deps.services.registry.instances.offline_after / SECOND,
    }
    return succeed(data, status=HTTPStatus.CREATED if is_new else HTTPStatus.OK, warnings=warnings)


@ROUTES.add(
    "DELETE /services/{name}/instances/{instanceId}",
    Role.EDITOR,
    scopes=OF_SERVICES,
    data=answers.InstanceRef,
    statuses=(404,),
    audit=Way.HANDLER,
)
async def remove_instance(request: ApiRequest) -> Response:
    """Deregister an instance before it stops: it gets no more calls."""
    name, instance_id = request.service, request.instance_id

    async def remove() -> Response:
        if not await request.deps.services.registry.deregister(request.caller.tenant, name, instance_id):
            raise _no_instance(name, instance_id)
        return succeed({"instanceId": instance_id})

    if request.caller.service is not None:
        return await remove()  # the work of an instance, as its registration is
    note = AuditNote(ActKind.SERVICE, name, detail={"given": {"instanceId": instance_id}})
    return await audited(request, note, remove)


@ROUTES.add(
    "POST /services/{name}/instances/{instanceId}/heartbeat",
    Role.EDITOR,
    scopes=OF_SERVICES,
    by_service=True,
    body=PostedBody(Heartbeat, openapi_examples.HEARTBEAT),
    data=answers.InstanceRef,
    statuses=(404,),
    is_busy=True,
    audit=Way.NONE,
)
async def take_heartbeat(request: ApiRequest) -> Response:
    """Report that an instance is alive, and its load; after a 404 it has to register again."""
    name, instance_id = request.service, request.instance_id
    raw = await request.body()
    posted = read_model(Heartbeat, read_json(raw)) if raw else Heartbeat()
    deps = request.deps

    def renew() -> Instance | None:
        now = deps.clock.now().steady
        return deps.services.registry.instances.renew(
            request.caller.tenant, name, instance_id, now, load=posted.load, draining=posted.draining
        )

    async def work() -> dict[str, str]:
        renewed = renew()
        if renewed is None:
            await deps.services.registry.catch_up()
            renewed = renew()
        if renewed is None:
            raise _no_instance(name, instance_id)
        return {"instanceId": instance_id, "state": "draining" if renewed.draining else "online"}

    subject = f"services/{name}/instances/{instance_id}/heartbeat"
    return succeed(await request.run_once(subject, raw, work))


def _write_options(options: JobOptions | None) -> str | None:
    """Those that are given, as JSON; None: none is."""
    dumped = {} if options is None else options.model_dump(mode="json", by_alias=True, exclude_unset=True)
    given = {name: value for name, value in dumped.items() if value is not None}
    return ENCODER.encode(given).decode() if given else None


def _tell_changes(request: ApiRequest, before: Service | None, after: Service) -> None:
    """What the audit says of a registration: nothing where it changes nothing."""
    new = service_members(after)
    old = dict.fromkeys(new) if before is None else service_members(before)
    same_jobs = before is not None and before.digest == after.digest
    changes = request.deps.security.masking.changes(old, new, request.secret_mask)
    request.tell_audit(
        changed=not same_jobs or old != new or request.query["force"],
        detail=changes if same_jobs else changes | {"given": {"timers": "changed"}},
    )


def find_service(request: ApiRequest) -> Service:
    """The service that the path names. Raises ApiProblem (404, 422)."""
    name = request.service
    service = request.deps.services.registry.find(request.caller.tenant, name)
    if service is None:
        raise _no_service(name)
    return service


def _warn_of_shared_address(deps: ApiDependencies, given: Instance) -> tuple[FoundFlaw, ...]:
    """A call to an address that several instances have reaches any of their processes."""
    online = deps.services.registry.instances.online(given.tenant, given.service, given.seen)
    shared = [one for one in online if one.address == given.address and one.instance_id != given.instance_id]
    others = [one.instance_id for one in shared if given.address and not one.draining]
    if not others:
        return ()
    message = (
        f"instance {others[0]!r} is online at {given.address!r} too, so a call reaches either process, and "
        "the loss of one counts for the other; give each process a port of its own, or run one worker"
    )
    return (Problem("/address", "address_shared", message),)


async def _settle(request: ApiRequest, name: str) -> tuple[FoundFlaw, ...]:
    """Makes the jobs that a registration declares, before it is answered (SPEC section 13)."""
    if await request.deps.services.reconcile.settle(request.caller.tenant, name):
        return _warn_of_limit(request, name)
    message = "the store did not take all declared jobs; the next registration or check-timers makes the rest"
    return (Problem("/timers", "not_scanned", message),)


def _warn_of_limit(request: ApiRequest, name: str) -> tuple[FoundFlaw, ...]:
    tenant = request.caller.tenant
    if (not_made := request.deps.services.reconcile.not_made(tenant, name)) is None:
        return ()
    limit, number = not_made
    message = (
        f"{number:,} of the declared jobs are not made: the tenant {tenant!r} may have {limit.value:,} jobs "
        f"(limits.{limit.name}); destroy some or declare fewer, and check-timers makes the rest"
    )
    return (Problem("/timers", "limit", message),)


async def _show(
    request: ApiRequest, service: Service, *, is_new: bool = False, warnings: tuple[FoundFlaw, ...] = ()
) -> Response:
    registry, now = request.deps.services.registry, request.deps.clock.now()
    known = await registry.texts.read(service)
    timers = await work_by_size(len(known.text), lambda: bytes(request.shown(known.text)))
    shown = [
        instance_line(one, now, is_online=registry.instances.is_online(one, now.steady))
        for one in registry.instances.known(service.tenant, service.name)
    ]
    data = _line(request, service, now) | {"instances": shown}
    headers = {"location": f"/services/{service.name}"} if is_new else {}
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    if len(timers) > LARGE_BYTES:
        return LongAnswer(data, "timers", timers, headers, owner=known, status=status, warnings=warnings)
    return succeed(data | {"timers": msgspec.Raw(timers)}, headers, status=status, warnings=warnings)


async def _change_pause(
    request: ApiRequest, verb: str, change: Callable[[str, str], Awaitable[Service | None]]
) -> Response:
    name, raw = request.service, await request.body()

    async def work() -> dict[str, object]:
        service = await change(request.caller.tenant, name)
        if service is None:
            raise _no_service(name)
        return _line(request, service, request.deps.clock.now())

    return succeed(await request.run_once(f"services/{name}/{verb}", raw, work))


def _line(request: ApiRequest, service: Service, now: Now) -> dict[str, object]:
    instances = request.deps.services.registry.instances
    online = instances.online(service.tenant, service.name, now.steady)
    known = instances.known(service.tenant, service.name)
    since = request.deps.services.registry.pauses.since(Kind.SERVICE, service.tenant, service.name)
    line = service_line(service, known, sum(not one.draining for one in online))
    return line | pause_members(since, now)


def _check_signing(request: ApiRequest, name: str | None) -> None:
    """Raises ApiProblem where the secret `name` is missing, or cannot sign."""
    tenant = request.caller.tenant
    judge = request.deps.definitions.compiler.around(tenant).judge_secret
    reason = None if name is None or judge is None else judge(tenant, name)
    if reason is not None:
        raise invalid("/signing", UNKNOWN_SECRET, reason)


def _check_name(name: str, known: Service | None) -> None:
    """Raises ApiProblem for a new service that no URL could name."""
    reason = None if known is not None else explain_service_name(name)
    if reason is not None:
        raise invalid("/name", "pattern", f"name {reason}")


def _no_service(name: str) -> ApiProblem:
    return absent("/name", f"there is no service {name!r}")


def _no_instance(name: str, instance_id: str) -> ApiProblem:
    message = f"the service {name!r} has no instance {instance_id!r} here; register it again"
    return absent("/instanceId", message)


async def check_address(
    request: ApiRequest, address: str | None, known: Service | Instance | None
) -> tuple[str, bool]:
    """A base address `http(s)://host[:port][/path]` without its last slash, and whether it may be private;
    None becomes empty.

    It may where the key of the service registers it, or that of the settings, and where one of these
    registered it before; else it is checked like a job's target (SPEC section 9). Raises ApiProblem (422).
    """
    if address is None:
        return "", False
    try:
        if not address.lower().startswith(("http://", "https://")):
            raise RefusedTarget("it begins with neither http:// nor https://")
        read_url(address)
        if "?" in address or "#" in address:
            raise RefusedTarget("a base address has neither query nor fragment: leave them out")
    except TransportError as error:
        message = f"address {address[:140]!r} is refused: {error}"
        raise invalid("/address", "invalid", message) from None
    base, admit, keys = address.rstrip("/"), request.deps.services.admit, request.deps.security.authentication
    vouched = request.caller.vouches_for(request.service)
    if not vouched and known is not None and known.address == base:
        vouched = keys.has_admin_key if known.vouched is None else known.vouched
    if admit is not None:
        try:
            await admit(address, vouched)
        except TransportError as error:
            is_helped = keys.needs_key and not vouched
            remedy = f" Or register it with a key of the service {request.service!r}." if is_helped else ""
            raise invalid("/address", "invalid", f"{error}{remedy}") from None
    return base, vouched
