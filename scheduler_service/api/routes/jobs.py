"""The routes of jobs."""

from client_sdk.models import Activation, JobDefinition, answers
from scheduler_service.api import bulk_jobs, examples, feedback, jobs, revisions
from scheduler_service.api.filters import JOB_FILTERS
from scheduler_service.api.large_answers import AnswerLine
from scheduler_service.api.parameters import choice, flag, integer, moment, number, paging, text
from scheduler_service.api.request import Body, Operation, group
from scheduler_service.ports.catalogue import JobSort
from scheduler_service.security.callers import Role

MAX_DELAY_SECONDS = 315_360_000
MAX_PARTS = 100_000
SORTS = tuple(f"{sign}{sort}" for sort in JobSort for sign in ("", "-"))

JOBS = group(
    "jobs",
    Operation(
        route="POST /jobs/{jobId}/trigger",
        handler=jobs.trigger_job,
        role=Role.OPERATOR,
        summary="Start one execution, now or later",
        query=(
            number("delaySeconds", "Delay in seconds.", high=MAX_DELAY_SECONDS),
            moment("at", "At this moment."),
            choice(
                "reset",
                "With a known Idempotency-Key: start it afresh if it ended like this.",
                ("failed", "succeeded"),
            ),
        ),
        body=Body(dict, examples.PARAMETERS),
        data=answers.Triggered,
        statuses=(404, 429),
        is_busy=True,
    ),
    Operation(
        route="POST /jobs/{jobId}/feedback/{requestCounts}",
        handler=feedback.report_feedback,
        role=Role.VIEWER,
        summary="Report the progress or the end of an attempt",
        query=(
            text("token", "The token of the feedback URL."),
            integer("shard", "The part of the step that reports, from 0.", low=0, high=MAX_PARTS),
        ),
        body=Body(dict, examples.FEEDBACK, required=True),
        statuses=(403, 404, 409),
        is_open=True,
        is_busy=True,
    ),
    Operation(
        route="POST /jobs/{jobId}",
        handler=jobs.create_job,
        role=Role.EDITOR,
        summary="Create a job",
        body=Body(JobDefinition, examples.DEFINITION, required=True),
        data=answers.Job,
        success=(201, 200),
        statuses=(409,),
        headers=("X-Service",),
        is_busy=True,
    ),
    Operation(
        route="POST /jobs",
        handler=bulk_jobs.create_jobs,
        role=Role.EDITOR,
        summary="Create or update up to 1,000 jobs, each on its own",
        query=(choice("onExisting", "What to do with another definition.", ("refuse", "update"), "refuse"),),
        body=Body(JobDefinition, examples.DEFINITIONS, required=True, is_array=True),
        data=answers.Results,
        headers=("X-Service",),
        is_busy=True,
    ),
    Operation(
        route="GET /jobs",
        handler=jobs.list_jobs,
        role=Role.VIEWER,
        summary="List jobs",
        query=(
            *JOB_FILTERS,
            choice("sort", "By what; with a minus sign from the end.", SORTS, "jobId"),
            flag("timers", "Each job's timer in words too.", default=False),
            flag("definitions", "Each job's definition too.", default=False),
            *paging(),
        ),
        data=answers.Listing[answers.JobLine],
        answer_line=AnswerLine.STATE,
    ),
    Operation(
        route="GET /jobs/{jobId}",
        handler=jobs.read_job,
        role=Role.VIEWER,
        summary="Read a job",
        data=answers.Job,
        statuses=(404,),
        answer_line=AnswerLine.STATE,
    ),
    Operation(
        route="PUT /jobs/{jobId}",
        handler=jobs.switch_job,
        role=Role.OPERATOR,
        summary="Pause a job, or start it again; disable or enable it",
        query=(
            flag("active", "0: take it offline; 1: start it again from now."),
            flag("disabled", "true: nothing of it runs any more; false: it runs again as planned."),
            flag("drain", "Let live executions end by themselves.", default=False),
            choice(
                "misfire",
                "How to treat the firings missed in the pause.",
                ("skip", "fire_once", "fire_all"),
                "skip",
            ),
        ),
        body=Body(Activation, {"active": 0}),
        data=answers.Job,
        statuses=(404,),
    ),
    Operation(
        route="POST /jobs/{jobId}/update",
        handler=jobs.update_job,
        role=Role.EDITOR,
        summary="Replace a job's definition, and schedule it anew",
        body=Body(JobDefinition, examples.DEFINITION, required=True),
        data=answers.Job,
        statuses=(404, 412),
        headers=("If-Match", "X-Service"),
    ),
    Operation(
        route="DELETE /jobs/{jobId}",
        handler=jobs.destroy_job,
        role=Role.EDITOR,
        summary="Destroy a job",
        data=answers.Destroyed,
        statuses=(404,),
    ),
    Operation(
        route="DELETE /job/{jobId}",
        handler=jobs.destroy_job,
        role=Role.EDITOR,
        name="destroyJobBySourcePath",
        summary="Destroy a job",
        data=answers.Destroyed,
        statuses=(404,),
    ),
    Operation(
        route="GET /jobs/{jobId}/revisions",
        handler=revisions.list_revisions,
        role=Role.VIEWER,
        summary="List a job's definitions as they were",
        query=paging(),
        data=answers.Listing[answers.RevisionLine],
        statuses=(404,),
        answer_line=AnswerLine.STATE,
    ),
)
