"""The routes of the statistics per day."""

from client_sdk.models import answers
from scheduler_service.api import statistics
from scheduler_service.api.parameters import Parameter, day, label, text
from scheduler_service.api.request import Operation, group
from scheduler_service.security.callers import Role

SPAN: tuple[Parameter, ...] = (
    day("from", "The first day, in UTC; by default six days before `to`."),
    day("to", "The last day, in UTC, included; by default today."),
)

STATISTICS = group(
    "statistics",
    Operation(
        route="GET /jobs/{jobId}/statistics",
        handler=statistics.show_statistics_of_job,
        role=Role.VIEWER,
        summary="Show the outcomes, lateness and durations of a job by day",
        query=SPAN,
        data=answers.JobStatistics,
        statuses=(404,),
    ),
    Operation(
        route="GET /statistics",
        handler=statistics.show_daily_statistics,
        role=Role.VIEWER,
        summary="Show outcomes, lateness and durations by day, and the jobs that stand out",
        query=(*SPAN, text("jobId", "Only of this job."), label()),
        data=answers.DailyStatistics,
    ),
)
