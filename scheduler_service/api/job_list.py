"""All jobs: the list (SPEC section 10)."""

from starlette.responses import Response

from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.api.shapes import job_line
from scheduler_service.domain.execution import JobState
from scheduler_service.ports.catalogue import LIVING, JobQuery, JobSort


async def list_jobs(call: ApiRequest) -> Response:
    """`GET /jobs`."""
    asked = call.query
    query = JobQuery(
        tenant=call.parts.surroundings.tenant,
        states=LIVING if asked["state"] is None else (JobState(asked["state"]),),
        kind="timing" if asked["kind"] == "timeing" else asked["kind"],
        labels=asked["label"],
        creator=asked["creator"],
        object_id=asked["objectId"],
        parent_job=asked["parentJob"],
        parent_execution=asked["parentJobExecution"],
        text=asked["text"],
        system=asked["system"],
        sort=JobSort(asked["sort"].removeprefix("-")),
        descending=asked["sort"].startswith("-"),
        limit=asked["limit"],
        cursor=asked["cursor"],
    )
    page = await call.parts.catalogue.list(query)
    return succeed({"items": [job_line(entry) for entry in page.items], "nextCursor": page.next_cursor})
