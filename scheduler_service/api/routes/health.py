"""The routes about the service itself."""

from http import HTTPStatus

from client_sdk.models import answers
from scheduler_service.api import health
from scheduler_service.api.request import Operation, group
from scheduler_service.security.callers import Role

NOT_FOUND = HTTPStatus.NOT_FOUND

HEALTH = group(
    "operation",
    Operation(
        route="GET /stats",
        handler=health.show_stats,
        role=Role.VIEWER,
        name="showStatistics",
        summary="Show how much is due, running and late",
        data=answers.Statistics,
    ),
    Operation(
        route="GET /nodes",
        handler=health.list_nodes,
        role=Role.VIEWER,
        name="listNodes",
        summary="List the scheduler processes",
        data=answers.Listing[answers.Node],
        statuses=(NOT_FOUND,),
    ),
    Operation(
        route="GET /settings",
        handler=health.show_settings,
        role=Role.ADMIN,
        name="showSettings",
        summary="Show each effective setting and where it comes from",
        data=dict,
        statuses=(NOT_FOUND,),
    ),
    Operation(
        route="GET /health/live",
        handler=health.show_live,
        role=Role.VIEWER,
        name="sayAlive",
        summary="Whether the process answers",
        data=answers.Health,
        is_open=True,
    ),
    Operation(
        route="GET /health/ready",
        handler=health.show_ready,
        role=Role.VIEWER,
        name="sayReady",
        summary="Whether it takes work",
        data=answers.Health,
        is_open=True,
    ),
)
