"""The routes of the instances of services."""

from client_sdk.models import Heartbeat, InstanceRegistration, answers
from scheduler_service.api import examples, instances
from scheduler_service.api.request import Body, Operation, group
from scheduler_service.security.callers import Role

INSTANCES = group(
    "services",
    Operation(
        route="POST /services/{name}/instances/{instanceId}/heartbeat",
        handler=instances.take_heartbeat,
        role=Role.OPERATOR,
        summary="Report that an instance is alive, and its load",
        body=Body(Heartbeat, examples.HEARTBEAT),
        data=answers.InstanceRef,
        statuses=(404,),
        is_busy=True,
    ),
    Operation(
        route="PUT /services/{name}/instances/{instanceId}",
        handler=instances.put_instance,
        role=Role.EDITOR,
        summary="Register an instance, every 30 s",
        body=Body(InstanceRegistration, examples.INSTANCE),
        data=answers.Instance,
        success=(201, 200),
    ),
    Operation(
        route="DELETE /services/{name}/instances/{instanceId}",
        handler=instances.remove_instance,
        role=Role.OPERATOR,
        summary="Deregister an instance before it stops",
        data=answers.InstanceRef,
        statuses=(404,),
    ),
)
