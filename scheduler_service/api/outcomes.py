"""The latest executions of many jobs in one question (SPEC section 10)."""

from starlette.responses import Response

from scheduler_service.api.freshness import catch_up
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.domain.job_key import write_job_key


async def list_outcomes(request: ApiRequest) -> Response:
    """`GET /outcomes`: an item for each job that is asked for, in this order; of destroyed ones too."""
    tenant = request.caller.tenant
    keys = {job_id: write_job_key(tenant, job_id) for job_id in request.query["jobId"]}
    behind = await catch_up(request)
    found = await request.deps.history.outcomes(tenant, list(keys.values()), request.query["count"])
    items = [{"jobId": job_id, "executions": found[key]} for job_id, key in keys.items()]
    return succeed({"items": items}, warnings=behind)
