"""The routes of services."""

from http import HTTPStatus

from client_sdk.models import ServiceDeclaration, answers
from scheduler_service.api import examples, services
from scheduler_service.api.parameters import flag, paging
from scheduler_service.api.request import Operation, group
from scheduler_service.security.callers import Role

CREATED = HTTPStatus.CREATED
NOT_FOUND = HTTPStatus.NOT_FOUND

SERVICES = group(
    "services",
    Operation(
        route="GET /services",
        handler=services.list_all,
        role=Role.VIEWER,
        name="listServices",
        summary="List services",
        query=paging(),
        data=answers.Listing[answers.ServiceLine],
    ),
    Operation(
        route="PUT /services/{name}",
        handler=services.put,
        role=Role.EDITOR,
        name="putService",
        summary="Register a service with the jobs that it declares",
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
        route="GET /services/{name}",
        handler=services.read,
        role=Role.VIEWER,
        name="readService",
        summary="Read a service with its timers and instances",
        data=answers.Service,
        statuses=(NOT_FOUND,),
    ),
    Operation(
        route="DELETE /services/{name}",
        handler=services.remove,
        role=Role.EDITOR,
        name="removeService",
        summary="Remove a service; its jobs end after its grace period",
        data=answers.ServiceRef,
        statuses=(NOT_FOUND,),
    ),
    Operation(
        route="GET /services/{name}/drift",
        handler=services.show_drift,
        role=Role.VIEWER,
        name="showDrift",
        summary="Show where jobs differ from what a service declares, and why",
        query=paging(),
        data=answers.Listing[answers.Drift],
        statuses=(NOT_FOUND,),
    ),
)
