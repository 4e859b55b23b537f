"""The routes of jobs."""

from http import HTTPStatus

from client_sdk.models import Activation, JobDefinition, answers
from scheduler_service.api import examples, firings, job_list, jobs
from scheduler_service.api.parameters import choice, flag, integer, label, paging, text
from scheduler_service.api.request import Operation
from scheduler_service.domain.execution import JobState
from scheduler_service.ports.catalogue import JobSort

NOT_FOUND = HTTPStatus.NOT_FOUND
KINDS = ("one_time", "timing", "timeing", "cron", "external")
SORTS = tuple(f"{sign}{sort}" for sort in JobSort for sign in ("", "-"))

JOBS: tuple[Operation, ...] = (
    Operation(
        name="listJobs",
        method="GET",
        path="/jobs",
        take=job_list.list_jobs,
        summary="List jobs",
        tag="jobs",
        query=(
            choice("state", "Only in this state; without it all but the destroyed.", JobState),
            choice("kind", "Only with a timer of this kind.", KINDS),
            label(),
            text("creator", "Only of this creator."),
            text("objectId", "Only with this reference of the caller."),
            text("parentJob", "Only children of this job."),
            integer("parentJobExecution", "Only children of this execution of it."),
            text("text", "Only those with this text in jobId, jobName or objectId."),
            flag("system", "The system's own jobs instead.", default=False),
            choice("sort", "By what; with a minus sign from the end.", SORTS, "jobId"),
            *paging(),
        ),
        data=answers.Listing[answers.JobLine],
    ),
    Operation(
        name="readJob",
        method="GET",
        path="/jobs/{jobId}",
        take=jobs.read,
        summary="Read a job",
        tag="jobs",
        data=answers.Job,
        statuses=(NOT_FOUND,),
    ),
    Operation(
        name="switchJob",
        method="PUT",
        path="/jobs/{jobId}",
        take=jobs.switch,
        summary="Pause a job, or start it again",
        tag="jobs",
        query=(
            flag("active", "0: take it offline; 1: start it again from now."),
            flag("drain", "Let live executions end by themselves.", default=False),
            choice(
                "misfire", "What becomes of the pause's firings.", ("skip", "fire_once", "fire_all"), "skip"
            ),
        ),
        body=Activation,
        body_example={"active": 0},
        data=answers.Job,
        statuses=(NOT_FOUND,),
    ),
    Operation(
        name="updateJob",
        method="POST",
        path="/jobs/{jobId}/update",
        take=jobs.update,
        summary="Replace a job's definition, and schedule it anew",
        tag="jobs",
        body=JobDefinition,
        body_required=True,
        body_example=examples.DEFINITION,
        data=answers.Job,
        statuses=(NOT_FOUND, HTTPStatus.PRECONDITION_FAILED),
        headers=("If-Match",),
    ),
    *(
        Operation(
            name=name,
            method="DELETE",
            path=path,
            take=jobs.destroy,
            summary="Destroy a job",
            tag="jobs",
            data=answers.Destroyed,
            statuses=(NOT_FOUND,),
        )
        for name, path in (("destroyJob", "/jobs/{jobId}"), ("destroyJobBySourcePath", "/job/{jobId}"))
    ),
    Operation(
        name="listRevisions",
        method="GET",
        path="/jobs/{jobId}/revisions",
        take=firings.list_revisions,
        summary="List a job's definitions as they were",
        tag="jobs",
        query=paging(),
        data=answers.Listing[answers.RevisionLine],
        statuses=(NOT_FOUND,),
    ),
)
