"""The instances of services: registered, heard of, deregistered (SPEC section 13)."""

import re
from http import HTTPStatus

from starlette.responses import Response

from client_sdk.models import Heartbeat, InstanceRegistration
from client_sdk.models.fields import INSTANCE_ID
from scheduler_service.api.bodies import read_json, read_model
from scheduler_service.api.declared_timers import check_address, check_timers, read_declaration, read_timers
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.job_commands import run_once
from scheduler_service.api.problems import ApiProblem, Flaw, absent, invalid
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.api.services import name_of
from scheduler_service.api.shapes import instance_line
from scheduler_service.domain.moments import SECOND
from scheduler_service.services.instances import Instance
from scheduler_service.services.registry import TimerDeclaration, digest_of

_ID = re.compile(INSTANCE_ID[1:-1])
_FORM_OF_ID = "use 1 to 128 of letters, digits, '.', '_', ':' and '-', the first a letter or digit"


async def put(call: ApiRequest) -> Response:
    """`PUT /services/{name}/instances/{instanceId}`: the whole registration, repeated every 30 s.

    A service that nobody has registered is made by its first instance.
    """
    parts, name, instance_id = call.parts, name_of(call), instance_of(call)
    raw, value = await read_declaration(call)
    said = read_model(InstanceRegistration, value)
    now = parts.clock.now()
    instance = Instance(
        service=name,
        tenant=parts.surroundings.tenant,
        instance_id=instance_id,
        address=await check_address(parts, said.address),
        tags=tuple(said.tags or ()),
        capacity=said.capacity,
        description=said.description or "",
        seen=now.steady,
    )
    timers, warnings = _declared(parts, name, said, raw)
    kept, is_new = await parts.registry.announce(instance, timers)
    data = instance_line(kept, now, is_online=True) | {
        "heartbeatSeconds": parts.heartbeat_seconds,
        "offlineSeconds": parts.registry.instances.offline_after / SECOND,
    }
    return succeed(data, status=HTTPStatus.CREATED if is_new else HTTPStatus.OK, warnings=warnings)


async def remove(call: ApiRequest) -> Response:
    """`DELETE /services/{name}/instances/{instanceId}`: it stops, and gets nothing any more."""
    name, instance_id = name_of(call), instance_of(call)
    if not call.parts.registry.instances.remove(call.parts.surroundings.tenant, name, instance_id):
        raise _no_instance(name, instance_id)
    return succeed({"instanceId": instance_id})


async def take_heartbeat(call: ApiRequest) -> Response:
    """`POST …/heartbeat`: it lives, and this is how it is; 404 tells it to register again."""
    name, instance_id = name_of(call), instance_of(call)
    raw = await call.body()
    said = read_model(Heartbeat, read_json(raw)) if raw else Heartbeat()
    parts = call.parts

    async def renew() -> dict[str, str]:
        kept = parts.registry.instances.renew(
            parts.surroundings.tenant,
            name,
            instance_id,
            parts.clock.now().steady,
            load=said.load,
            draining=said.draining,
        )
        if kept is None:
            raise _no_instance(name, instance_id)
        return {"instanceId": instance_id, "state": "draining" if kept.draining else "online"}

    remembered = call.remembered(f"services/{name}/instances/{instance_id}/heartbeat", raw)
    return succeed(await run_once(parts, remembered, renew))


def instance_of(call: ApiRequest) -> str:
    """The instance that the path names. Raises ApiProblem (422) where it cannot be one."""
    instance_id = call.path["instanceId"]
    if _ID.fullmatch(instance_id) is None:
        text = f"instanceId {instance_id[:140]!r} is not well formed; {_FORM_OF_ID}"
        raise invalid("/instanceId", "pattern", text)
    return instance_id


def _declared(
    parts: ApiDependencies, name: str, said: InstanceRegistration, raw: bytes
) -> tuple[TimerDeclaration | None, tuple[Flaw, ...]]:
    """What it declares; a repetition of what is in force was checked when it came first."""
    posted = read_timers(raw)
    if posted is None or said.timers is None:
        return None, ()
    digest = digest_of(posted)
    service = parts.registry.find(parts.surroundings.tenant, name)
    if service is not None and service.digest == digest:
        return TimerDeclaration(digest), ()
    text, warnings = check_timers(parts, posted, said.timers, name)
    return TimerDeclaration(digest, text), warnings


def _no_instance(name: str, instance_id: str) -> ApiProblem:
    message = f"the service {name!r} has no instance {instance_id!r} here; register it again"
    return absent("/instanceId", message)
