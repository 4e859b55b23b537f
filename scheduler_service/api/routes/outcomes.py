"""The route of the latest executions of many jobs."""

from client_sdk.models import answers
from scheduler_service.api import outcomes
from scheduler_service.api.parameters import integer, texts
from scheduler_service.api.request import Operation, group
from scheduler_service.security.callers import Role

MOST_JOBS = 100
MOST_OF_A_JOB = 50

OUTCOMES = group(
    "executions",
    Operation(
        route="GET /outcomes",
        handler=outcomes.list_outcomes,
        role=Role.VIEWER,
        summary="List the latest executions of many jobs, in brief",
        query=(
            texts("jobId", "Of these jobs.", required=True, example=["nightly"], most=MOST_JOBS),
            integer("count", "So many of each, at most.", low=1, high=MOST_OF_A_JOB, default=20),
        ),
        data=answers.Outcomes,
    ),
)
