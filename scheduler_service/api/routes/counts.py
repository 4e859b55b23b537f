"""The routes that count what a list would have, in all and by time."""

from client_sdk.models import answers
from scheduler_service.api import counts, planned_counts, series
from scheduler_service.api.filters import DELIVERY_FILTERS, EXECUTION_FILTERS, JOB_FILTERS
from scheduler_service.api.parameters import integer, moment, text
from scheduler_service.api.request import Operation, group
from scheduler_service.api.series import MOST_BUCKETS
from scheduler_service.security.callers import Role

DAY_SECONDS = 86_400

COUNTS = group(
    "counts",
    Operation(
        route="GET /counts/jobs",
        handler=counts.count_jobs,
        role=Role.VIEWER,
        summary="Count jobs by state, kind and newest execution",
        query=JOB_FILTERS,
        data=answers.JobCounts,
    ),
    Operation(
        route="GET /counts/executions",
        handler=counts.count_executions,
        role=Role.VIEWER,
        summary="Count executions by state and by error",
        query=(text("jobId", "Only of this job."), *EXECUTION_FILTERS),
        data=answers.ExecutionCounts,
    ),
    Operation(
        route="GET /counts/deliveries",
        handler=counts.count_deliveries,
        role=Role.VIEWER,
        summary="Count notifications by state",
        query=DELIVERY_FILTERS,
        data=answers.DeliveryCounts,
    ),
    Operation(
        route="GET /counts/queues",
        handler=counts.count_queued,
        role=Role.VIEWER,
        summary="Count the parts that wait or are held in all queues",
        data=answers.QueueCounts,
    ),
    Operation(
        route="GET /counts/upcoming",
        handler=planned_counts.count_upcoming,
        role=Role.VIEWER,
        summary="Count the planned firings of all jobs by buckets of time",
        query=(
            moment("from", "From the bucket of this moment on; default: now."),
            integer("bucketSeconds", "The width of a bucket.", low=60, high=DAY_SECONDS, default=60),
            integer("buckets", "How many.", low=1, high=planned_counts.MOST_BUCKETS, default=60),
        ),
        data=answers.UpcomingCounts,
    ),
    Operation(
        route="GET /series/executions",
        handler=series.show_series,
        role=Role.VIEWER,
        summary="Show executions by buckets of time: states, lateness, durations",
        query=(
            text("jobId", "Only of this job."),
            *EXECUTION_FILTERS,
            integer("bucketSeconds", "The width of a bucket, a multiple of 300.", low=300, high=DAY_SECONDS),
            integer("buckets", "About so many buckets, at most.", low=1, high=MOST_BUCKETS),
        ),
        data=answers.Series,
    ),
)
