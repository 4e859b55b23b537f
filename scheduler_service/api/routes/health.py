"""The routes about the service itself."""

from client_sdk.models import answers
from scheduler_service.api import health
from scheduler_service.api.request import Operation, group
from scheduler_service.security.callers import Role

HEALTH = group(
    "operation",
    Operation(
        route="GET /stats",
        handler=health.show_statistics,
        role=Role.VIEWER,
        summary="Show how much is due, running and late",
        data=answers.Statistics,
    ),
    Operation(
        route="GET /nodes",
        handler=health.list_nodes,
        role=Role.VIEWER,
        summary="List the scheduler processes",
        data=answers.Listing[answers.Node],
        statuses=(404,),
    ),
    Operation(
        route="GET /metrics",
        handler=health.show_metrics,
        role=Role.VIEWER,
        summary="Show the figures of all processes for Prometheus",
        media_type="text/plain",
        statuses=(404,),
    ),
    Operation(
        route="GET /settings",
        handler=health.show_settings,
        role=Role.ADMIN,
        summary="Show each effective setting and where it comes from",
        data=dict,
        statuses=(404,),
    ),
    Operation(
        route="GET /health/live",
        handler=health.say_alive,
        role=Role.VIEWER,
        summary="Check that the process answers",
        data=answers.Health,
        is_open=True,
    ),
    Operation(
        route="GET /health/ready",
        handler=health.say_ready,
        role=Role.VIEWER,
        summary="Check that the service accepts work",
        data=answers.Health,
        is_open=True,
    ),
)
