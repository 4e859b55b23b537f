"""The routes of notifications."""

from http import HTTPStatus

from client_sdk.models import answers
from scheduler_service.api import deliveries
from scheduler_service.api.parameters import choice, paging, text
from scheduler_service.api.request import Operation, group
from scheduler_service.domain.execution import DeliveryState
from scheduler_service.security.callers import Role

NOT_FOUND = HTTPStatus.NOT_FOUND
CONFLICT = HTTPStatus.CONFLICT

DELIVERIES = group(
    "deliveries",
    Operation(
        route="GET /deliveries",
        handler=deliveries.list_all,
        role=Role.VIEWER,
        name="listDeliveries",
        summary="List notifications",
        query=(
            text("jobId", "Only of this job."),
            choice("state", "Only in this state.", DeliveryState),
            text("event", "Only of this event.", example="finalFailed"),
            *paging(),
        ),
        data=answers.Listing[answers.DeliveryLine],
    ),
    Operation(
        route="POST /deliveries/{deliveryId}/resend",
        handler=deliveries.resend,
        role=Role.OPERATOR,
        name="resendDelivery",
        summary="Try a notification again now",
        body=dict,
        data=answers.DeliveryRef,
        statuses=(NOT_FOUND, CONFLICT),
    ),
    Operation(
        route="POST /deliveries/{deliveryId}/dismiss",
        handler=deliveries.dismiss,
        role=Role.OPERATOR,
        name="dismissDelivery",
        summary="Give a notification up",
        body=dict,
        data=answers.DeliveryRef,
        statuses=(NOT_FOUND, CONFLICT),
    ),
)
