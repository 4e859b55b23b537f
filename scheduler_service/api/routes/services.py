"""The routes of services."""

from client_sdk.models import ServiceDeclaration, answers
from scheduler_service.api import examples, services
from scheduler_service.api.parameters import flag, paging
from scheduler_service.api.request import Body, Operation, group
from scheduler_service.security.callers import Role

SERVICES = group(
    "services",
    Operation(
        route="GET /services",
        handler=services.list_services,
        role=Role.VIEWER,
        summary="List services",
        query=paging(),
        data=answers.Listing[answers.ServiceLine],
    ),
    Operation(
        route="PUT /services/{name}",
        handler=services.put_service,
        role=Role.EDITOR,
        summary="Register a service with the jobs that it declares",
        query=(
            flag(
                "force",
                "Bring its jobs to the declaration now, over what was edited or made elsewhere.",
                default=False,
            ),
        ),
        body=Body(ServiceDeclaration, examples.SERVICE),
        data=answers.Service,
        success=(201, 200),
    ),
    Operation(
        route="GET /services/{name}",
        handler=services.read_service,
        role=Role.VIEWER,
        summary="Read a service with its timers and instances",
        data=answers.Service,
        statuses=(404,),
    ),
    Operation(
        route="DELETE /services/{name}",
        handler=services.remove_service,
        role=Role.EDITOR,
        summary="Remove a service; its jobs end after its grace period",
        data=answers.ServiceRef,
        statuses=(404,),
    ),
    Operation(
        route="GET /services/{name}/drift",
        handler=services.show_drift,
        role=Role.VIEWER,
        summary="Show where jobs differ from what a service declares, and why",
        query=paging(),
        data=answers.Listing[answers.Drift],
        statuses=(404,),
    ),
)
