"""The routes of the instances of services."""

from http import HTTPStatus

from client_sdk.models import Heartbeat, InstanceRegistration, answers
from scheduler_service.api import examples, instances
from scheduler_service.api.request import Operation, group
from scheduler_service.security.callers import Role

CREATED = HTTPStatus.CREATED
NOT_FOUND = HTTPStatus.NOT_FOUND

INSTANCES = group(
    "services",
    Operation(
        route="POST /services/{name}/instances/{instanceId}/heartbeat",
        handler=instances.renew,
        role=Role.OPERATOR,
        name="takeHeartbeat",
        summary="Say that an instance lives, and how it is",
        body=Heartbeat,
        body_example=examples.HEARTBEAT,
        data=answers.InstanceRef,
        statuses=(NOT_FOUND,),
        is_busy=True,
    ),
    Operation(
        route="PUT /services/{name}/instances/{instanceId}",
        handler=instances.put,
        role=Role.EDITOR,
        name="putInstance",
        summary="Register an instance, every 30 s",
        body=InstanceRegistration,
        body_example=examples.INSTANCE,
        data=answers.Instance,
        success=(CREATED, HTTPStatus.OK),
    ),
    Operation(
        route="DELETE /services/{name}/instances/{instanceId}",
        handler=instances.remove,
        role=Role.OPERATOR,
        name="removeInstance",
        summary="Deregister an instance before it stops",
        data=answers.InstanceRef,
        statuses=(NOT_FOUND,),
    ),
)
