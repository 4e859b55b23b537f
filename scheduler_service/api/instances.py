"""Instances of services: registration, heartbeat, deregistration (SPEC section 13)."""

from http import HTTPStatus

from starlette.responses import Response

from client_sdk.models import Heartbeat, InstanceRegistration
from scheduler_service.api.bodies import read_json, read_model
from scheduler_service.api.declared_timers import check_address, read_declaration, read_registration
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import ApiProblem, absent, succeed
from scheduler_service.api.shapes import instance_line
from scheduler_service.domain.moments import SECOND
from scheduler_service.services.instances import Instance


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


def _no_instance(name: str, instance_id: str) -> ApiProblem:
    message = f"the service {name!r} has no instance {instance_id!r} here; register it again"
    return absent("/instanceId", message)
