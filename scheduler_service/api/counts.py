"""How many jobs and executions fit the filters of a list (SPEC section 10)."""

from starlette.responses import Response

from scheduler_service.api.filters import execution_query, job_query
from scheduler_service.api.freshness import catch_up
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.job_key import write_job_key
from scheduler_service.ports.catalogue import LastOutcome

KINDS = ("one_time", "timing", "cron", "external")


async def count_jobs(request: ApiRequest) -> Response:
    """`GET /counts/jobs`."""
    tally = await request.deps.catalogue.tally(job_query(request.caller.tenant, request.query))
    return succeed(
        {
            "total": {"value": tally.total, "isCapped": tally.is_capped},
            "byState": {state: tally.by_state.get(state, 0) for state in JobState},
            "byKind": {kind: tally.by_kind.get(kind, 0) for kind in KINDS},
            "byLastOutcome": {outcome: tally.by_outcome.get(outcome, 0) for outcome in LastOutcome},
        }
    )


async def count_executions(request: ApiRequest) -> Response:
    """`GET /counts/executions`."""
    filters = request.query
    query = await execution_query(request, key_of(request), filters)
    behind = await catch_up(request)
    return succeed(await request.deps.history.counts(query), warnings=behind)


def key_of(request: ApiRequest) -> str | None:
    """The key of the job that the parameter `jobId` names, if it is given."""
    job_id = request.query["jobId"]
    return None if job_id is None else write_job_key(request.caller.tenant, job_id)
