"""The routes that try something without creating anything."""

from http import HTTPStatus

from client_sdk.models import PreviewRequest, TemplateRequest, answers
from scheduler_service.api import examples, previews
from scheduler_service.api.parameters import text
from scheduler_service.api.request import Operation, group
from scheduler_service.security.callers import Role

NOT_FOUND = HTTPStatus.NOT_FOUND

PREVIEWS = (
    *group(
        "timers",
        Operation(
            route="POST /timers/preview",
            handler=previews.preview_timer,
            role=Role.VIEWER,
            name="previewTimer",
            summary="Try a timer without creating anything",
            body=PreviewRequest,
            body_required=True,
            body_example=examples.PREVIEW,
            data=answers.Preview,
        ),
    ),
    *group(
        "jobs",
        Operation(
            route="GET /jobs/{jobId}/retry-plan",
            handler=previews.show_retry_plan,
            role=Role.VIEWER,
            name="showRetryPlan",
            summary="Show the retries of an execution that fails with one error every time",
            query=(text("error", "The error code, as 500 or timeout.", required=True, example="500"),),
            data=answers.RetryPlan,
            statuses=(NOT_FOUND,),
        ),
        Operation(
            route="POST /templates/preview",
            handler=previews.preview_template,
            role=Role.VIEWER,
            name="previewTemplate",
            summary="Try a template on a root without creating anything",
            body=TemplateRequest,
            body_required=True,
            body_example=examples.TEMPLATE,
            data=answers.TemplateValue,
        ),
    ),
)
