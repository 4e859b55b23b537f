"""The routes that try something without creating anything."""

from http import HTTPStatus

from client_sdk.models import TemplateRequest, answers
from scheduler_service.api import examples, previews
from scheduler_service.api.parameters import text
from scheduler_service.api.request import Operation

TRIALS: tuple[Operation, ...] = (
    Operation(
        name="showRetryPlan",
        method="GET",
        path="/jobs/{jobId}/retry-plan",
        take=previews.show_retry_plan,
        summary="Show the retries of an execution that fails with one error every time",
        tag="jobs",
        query=(text("error", "The error code, as 500 or timeout.", required=True, example="500"),),
        data=answers.RetryPlan,
        statuses=(HTTPStatus.NOT_FOUND,),
    ),
    Operation(
        name="previewTemplate",
        method="POST",
        path="/templates/preview",
        take=previews.try_template,
        summary="Try a template on a root without creating anything",
        tag="jobs",
        body=TemplateRequest,
        body_required=True,
        body_example=examples.TEMPLATE,
        data=answers.TemplateValue,
    ),
)
