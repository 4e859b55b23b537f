"""The routes that show firings, planned and past."""

from http import HTTPStatus

from client_sdk.models import PreviewRequest, answers
from scheduler_service.api import examples, firings, timers
from scheduler_service.api.parameters import integer, moment, paging
from scheduler_service.api.request import Operation

NOT_FOUND = HTTPStatus.NOT_FOUND

TIMERS: tuple[Operation, ...] = (
    Operation(
        name="showNextFirings",
        method="GET",
        path="/jobs/{jobId}/next",
        take=timers.show_next,
        summary="Show a job's coming firings",
        tag="timers",
        query=(
            integer("count", "How many.", low=1, high=1_000, default=10),
            moment("until", "None after this moment."),
        ),
        data=answers.Preview,
        statuses=(NOT_FOUND,),
    ),
    Operation(
        name="listFirings",
        method="GET",
        path="/jobs/{jobId}/firings",
        take=firings.list_firings,
        summary="List what became of a job's planned firings",
        tag="timers",
        query=(
            moment("from", "Planned at this moment or later."),
            moment("to", "Planned at this moment or earlier."),
            *paging(),
        ),
        data=answers.Listing[answers.FiringLine],
        statuses=(NOT_FOUND,),
    ),
    Operation(
        name="listUpcoming",
        method="GET",
        path="/upcoming",
        take=timers.list_upcoming,
        summary="List the planned firings of all jobs",
        tag="timers",
        query=(
            moment("from", "From this moment on; now, where it is not given."),
            moment("to", "Up to this moment; a day later, where it is not given."),
            *paging(),
        ),
        data=answers.Listing[answers.Planned],
    ),
    Operation(
        name="previewTimer",
        method="POST",
        path="/timers/preview",
        take=timers.try_timer,
        summary="Try a timer without creating anything",
        tag="timers",
        body=PreviewRequest,
        body_required=True,
        body_example=examples.PREVIEW,
        data=answers.Preview,
    ),
)
