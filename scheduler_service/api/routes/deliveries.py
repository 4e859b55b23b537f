"""The routes of notifications."""

from client_sdk.models import answers
from scheduler_service.api import deliveries
from scheduler_service.api.filters import DELIVERY_FILTERS
from scheduler_service.api.large_answers import AnswerLine
from scheduler_service.api.parameters import paging
from scheduler_service.api.request import Body, Operation, group
from scheduler_service.security.callers import Role

DELIVERIES = group(
    "deliveries",
    Operation(
        route="GET /deliveries",
        handler=deliveries.list_deliveries,
        role=Role.VIEWER,
        summary="List notifications",
        query=(*DELIVERY_FILTERS, *paging()),
        data=answers.Listing[answers.DeliveryLine],
        answer_line=AnswerLine.HISTORY,
    ),
    Operation(
        route="POST /deliveries/{deliveryId}/resend",
        handler=deliveries.resend_delivery,
        role=Role.OPERATOR,
        summary="Try a notification again now",
        body=Body(dict),
        data=answers.DeliveryRef,
        statuses=(404, 409),
    ),
    Operation(
        route="POST /deliveries/{deliveryId}/dismiss",
        handler=deliveries.dismiss_delivery,
        role=Role.OPERATOR,
        summary="Give up a notification",
        body=Body(dict),
        data=answers.DeliveryRef,
        statuses=(404, 409),
    ),
)
