"""The routes of services and their instances."""

from http import HTTPStatus

from client_sdk.models import Heartbeat, InstanceRegistration, ServiceDeclaration, answers
from scheduler_service.api import examples, instances, services
from scheduler_service.api.parameters import flag, paging
from scheduler_service.api.request import Operation

CREATED, NOT_FOUND = HTTPStatus.CREATED, HTTPStatus.NOT_FOUND
INSTANCE = "/services/{name}/instances/{instanceId}"

HEARTBEAT = Operation(
    name="takeHeartbeat",
    method="POST",
    path=f"{INSTANCE}/heartbeat",
    take=instances.take_heartbeat,
    summary="Say that an instance lives, and how it is",
    tag="services",
    body=Heartbeat,
    body_example=examples.HEARTBEAT,
    data=answers.InstanceRef,
    statuses=(NOT_FOUND,),
)

SERVICES: tuple[Operation, ...] = (
    Operation(
        name="putInstance",
        method="PUT",
        path=INSTANCE,
        take=instances.put,
        summary="Register an instance, every 30 s",
        tag="services",
        body=InstanceRegistration,
        body_example=examples.INSTANCE,
        data=answers.Instance,
        success=(CREATED, HTTPStatus.OK),
    ),
    Operation(
        name="removeInstance",
        method="DELETE",
        path=INSTANCE,
        take=instances.remove,
        summary="Deregister an instance before it stops",
        tag="services",
        data=answers.InstanceRef,
        statuses=(NOT_FOUND,),
    ),
    Operation(
        name="listServices",
        method="GET",
        path="/services",
        take=services.list_all,
        summary="List services",
        tag="services",
        query=paging(),
        data=answers.Listing[answers.ServiceLine],
    ),
    Operation(
        name="putService",
        method="PUT",
        path="/services/{name}",
        take=services.put,
        summary="Register a service with the jobs that it declares",
        tag="services",
        query=(
            flag(
                "force",
                "Bring its jobs to the declaration now, over what was edited or made elsewhere.",
                default=False,
            ),
        ),
        body=ServiceDeclaration,
        body_example=examples.SERVICE,
        data=answers.Service,
        success=(CREATED, HTTPStatus.OK),
    ),
    Operation(
        name="readService",
        method="GET",
        path="/services/{name}",
        take=services.read,
        summary="Read a service with its timers and instances",
        tag="services",
        data=answers.Service,
        statuses=(NOT_FOUND,),
    ),
    Operation(
        name="removeService",
        method="DELETE",
        path="/services/{name}",
        take=services.remove,
        summary="Remove a service; its jobs end after its grace period",
        tag="services",
        data=answers.ServiceRef,
        statuses=(NOT_FOUND,),
    ),
    Operation(
        name="showDrift",
        method="GET",
        path="/services/{name}/drift",
        take=services.show_drift,
        summary="Show where jobs differ from what a service declares, and why",
        tag="services",
        query=paging(),
        data=answers.Listing[answers.Drift],
        statuses=(NOT_FOUND,),
    ),
)
