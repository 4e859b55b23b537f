"""The busiest routes: what creates jobs, sets them off, and reports on them."""

from http import HTTPStatus

from client_sdk.models import JobDefinition, answers
from scheduler_service.api import bulk_jobs, examples, jobs, triggers
from scheduler_service.api.parameters import choice, integer, moment, number, text
from scheduler_service.api.request import Operation

CREATED, NOT_FOUND, CONFLICT = HTTPStatus.CREATED, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
DECADE = 315_360_000
PARTS = 100_000

HOT: tuple[Operation, ...] = (
    Operation(
        name="triggerJob",
        method="POST",
        path="/jobs/{jobId}/trigger",
        take=triggers.trigger,
        summary="Start one execution, now or later",
        tag="jobs",
        query=(
            number("delaySeconds", "So much later.", high=DECADE),
            moment("at", "At this moment."),
            choice("reset", "Under a known key: start it afresh if it ended so.", ("failed", "succeeded")),
        ),
        body=dict,
        body_example=examples.PARAMETERS,
        data=answers.Triggered,
        statuses=(NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS),
    ),
    Operation(
        name="reportFeedback",
        method="POST",
        path="/jobs/{jobId}/feedback/{requestCounts}",
        take=triggers.feedback,
        summary="Report the progress or the end of an attempt",
        tag="jobs",
        query=(
            text("token", "The token of the feedback URL."),
            integer("shard", "The part of the step that reports, from 0.", low=0, high=PARTS),
        ),
        body=dict,
        body_required=True,
        body_example=examples.FEEDBACK,
        statuses=(HTTPStatus.FORBIDDEN, NOT_FOUND, CONFLICT),
        is_open=True,
    ),
    Operation(
        name="createJob",
        method="POST",
        path="/jobs/{jobId}",
        take=jobs.create,
        summary="Create a job",
        tag="jobs",
        body=JobDefinition,
        body_required=True,
        body_example=examples.DEFINITION,
        data=answers.Job,
        success=(CREATED, HTTPStatus.OK),
        statuses=(CONFLICT,),
    ),
    Operation(
        name="createJobs",
        method="POST",
        path="/jobs",
        take=bulk_jobs.create_all,
        summary="Create or update up to 1,000 jobs, each on its own",
        tag="jobs",
        query=(choice("onExisting", "What to do with another definition.", ("refuse", "update"), "refuse"),),
        body=JobDefinition,
        body_required=True,
        body_example=examples.DEFINITIONS,
        data=answers.Results,
        is_array=True,
    ),
)
