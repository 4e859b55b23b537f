"""The routes that show firings, planned and past."""

from client_sdk.models import answers
from scheduler_service.api import firings
from scheduler_service.api.parameters import integer, moment, paging, texts
from scheduler_service.api.request import Operation, group
from scheduler_service.security.callers import Role

FIRINGS = group(
    "timers",
    Operation(
        route="GET /jobs/{jobId}/next",
        handler=firings.show_next_firings,
        role=Role.VIEWER,
        summary="Show a job's coming firings",
        query=(
            integer("count", "How many.", low=1, high=1_000, default=10),
            moment("until", "None after this moment."),
        ),
        data=answers.Preview,
        statuses=(404,),
    ),
    Operation(
        route="GET /jobs/{jobId}/firings",
        handler=firings.list_firings,
        role=Role.VIEWER,
        summary="List the outcomes of a job's planned firings",
        query=(
            moment("from", "Planned at this moment or later."),
            moment("to", "Planned at this moment or earlier."),
            *paging(),
        ),
        data=answers.Listing[answers.FiringLine],
        statuses=(404,),
    ),
    Operation(
        route="GET /upcoming",
        handler=firings.list_upcoming,
        role=Role.VIEWER,
        summary="List the planned firings of all jobs",
        query=(
            moment("from", "From this moment on; default: now."),
            moment("to", "Up to this moment; default: a day after `from`."),
            texts("jobId", "Only of this job; given several times, of any of them.", example=["nightly"]),
            integer(
                "perJob",
                "How many firings of a job at most, counted from `from` on; default: all.",
                low=1,
                high=firings.MAX_PER_JOB,
            ),
            *paging(),
        ),
        data=answers.Listing[answers.Planned],
    ),
)
