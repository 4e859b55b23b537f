"""The routes that try something: without creating anything, or, for a run, without keeping it."""

from client_sdk.models import (
    JobDefinition,
    OutlookRequest,
    PreviewRequest,
    TemplateRequest,
    TrialRequest,
    answers,
)
from scheduler_service.api import definition_checks, examples, outlooks, previews, trials
from scheduler_service.api.parameters import flag, text
from scheduler_service.api.request import Body, Operation, group
from scheduler_service.security.callers import Role

SOFT = flag("soft", 'Answer `{"problem": …}` with status 200 where a 422 would be.', default=False)

PREVIEWS = (
    *group(
        "timers",
        Operation(
            route="POST /timers/preview",
            handler=previews.preview_timer,
            role=Role.VIEWER,
            summary="Try a timer without creating anything",
            body=Body(PreviewRequest, examples.PREVIEW, required=True),
            query=(SOFT,),
            data=answers.PreviewOrProblem,
        ),
        Operation(
            route="POST /timers/outlook",
            handler=outlooks.show_outlook,
            role=Role.VIEWER,
            summary="Show what a timer does over many days, without creating anything",
            body=Body(OutlookRequest, examples.OUTLOOK, required=True),
            query=(SOFT,),
            data=answers.OutlookOrProblem,
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
            query=(SOFT,),
            data=answers.ValueOrProblem,
        ),
    ),
    *group(
        "definitions",
        Operation(
            route="POST /definitions/check",
            handler=definition_checks.check_definition,
            role=Role.VIEWER,
            summary="Try a definition without creating anything",
            body=Body(JobDefinition, examples.DEFINITIONS[0], required=True),
            query=(SOFT,),
            data=answers.CheckOrProblem,
        ),
        Operation(
            route="POST /definitions/try",
            handler=trials.try_definition,
            role=Role.EDITOR,
            summary="Run a definition once without saving it",
            body=Body(TrialRequest, examples.TRIAL, required=True),
            data=answers.Trial,
            success=(201,),
            statuses=(429,),
        ),
        Operation(
            route="GET /schemas/job",
            handler=definition_checks.show_definition_schema,
            role=Role.VIEWER,
            summary="Read the JSON Schema of a definition",
            data=dict,
        ),
    ),
)
