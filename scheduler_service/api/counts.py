"""How many jobs fit the filters of a list (SPEC section 10)."""

from starlette.responses import Response

from scheduler_service.api.filters import job_query
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.domain.execution import JobState
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
