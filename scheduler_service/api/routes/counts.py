"""The routes that count what a list would have."""

from client_sdk.models import answers
from scheduler_service.api import counts
from scheduler_service.api.filters import JOB_FILTERS
from scheduler_service.api.request import Operation, group
from scheduler_service.security.callers import Role

COUNTS = group(
    "jobs",
    Operation(
        route="GET /counts/jobs",
        handler=counts.count_jobs,
        role=Role.VIEWER,
        summary="Count jobs by state, kind and newest execution",
        query=JOB_FILTERS,
        data=answers.JobCounts,
    ),
)
