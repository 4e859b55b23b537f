"""The routes that try something without creating anything."""

from client_sdk.models import PreviewRequest, TemplateRequest, answers
from scheduler_service.api import examples, previews
from scheduler_service.api.parameters import text
from scheduler_service.api.request import Body, Operation, group
from scheduler_service.security.callers import Role

PREVIEWS = (
    *group(
        "timers",
        Operation(
            route="POST /timers/preview",
            handler=previews.preview_timer,
            role=Role.VIEWER,
            summary="Try a timer without creating anything",
            body=Body(PreviewRequest, examples.PREVIEW, required=True),
            data=answers.Preview,
        ),
    ),
    *group(
        "jobs",
        Operation(
            route="GET /jobs/{jobId}/retry-plan",
            handler=previews.show_retry_plan,
            role=Role.VIEWER,
            summary="Show the retries of an execution that fails with one error every time",
            query=(text("error", "The error code, as 500 or timeout.", required=True, example="500"),),
            data=answers.RetryPlan,
            statuses=(404,),
        ),
        Operation(
            route="POST /templates/preview",
            handler=previews.preview_template,
            role=Role.VIEWER,
            summary="Try a template on a root without creating anything",
            body=Body(TemplateRequest, examples.TEMPLATE, required=True),
            data=answers.TemplateValue,
        ),
    ),
)
