"""The route of the alerts."""

from client_sdk.models import answers
from scheduler_service.api import alerts
from scheduler_service.api.request import Operation, group
from scheduler_service.security.callers import Role

ALERTS = group(
    "operation",
    Operation(
        route="GET /alerts",
        handler=alerts.list_alerts,
        role=Role.VIEWER,
        summary="List the alerts of the settings, and what of them is open",
        data=answers.Alerts,
        statuses=(404,),
    ),
)
