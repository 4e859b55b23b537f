"""How many jobs, executions, notifications and parts in queues lists would have (SPEC section 10)."""

from starlette.responses import Response

from scheduler_service.api.filters import execution_query, job_query
from scheduler_service.api.freshness import catch_up
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.job_key import read_job_key, write_job_key
from scheduler_service.domain.leases import QueueQuery
from scheduler_service.domain.moments import rfc3339
from scheduler_service.persistence.history.queries import DeliveryQuery
from scheduler_service.ports.catalogue import LastOutcome

MOST_QUEUES = 1_000
"""The parts of so many queues are counted, in order of their names."""
MOST_NAMED = 20
KINDS = ("one_time", "timing", "cron", "external")


async def count_jobs(request: ApiRequest) -> Response:
    """`GET /counts/jobs`; of those that cannot run as they stand the first are named, whatever the filter."""
    tally = await request.deps.catalogue.tally(job_query(request.caller.tenant, request.query))
    unfit = [] if request.deps.list_unfit is None else await request.deps.list_unfit()
    own = [(read_job_key(key), problem) for key, problem in unfit]
    named = [(job_id, problem) for (tenant, job_id), problem in own if tenant == request.caller.tenant]
    return succeed(
        {
            "cannotRun": len(named),
            "cannotRunJobs": [
                {"jobId": job_id, "problem": one.message} for job_id, one in named[:MOST_NAMED]
            ],
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


async def count_deliveries(request: ApiRequest) -> Response:
    """`GET /counts/deliveries`."""
    query = DeliveryQuery(
        tenant=request.caller.tenant,
        job_id=key_of(request),
        state=request.query["state"],
        event=request.query["event"],
    )
    behind = await catch_up(request, query.job_id)
    return succeed(await request.deps.history.delivery_counts(query), warnings=behind)


async def count_queued(request: ApiRequest) -> Response:
    """`GET /counts/queues`: parts that wait and parts that are held, over all queues."""
    queues, asked = request.deps.queues, QueueQuery(request.caller.tenant, limit=MOST_QUEUES + 1)
    found = [] if queues is None else await queues.figures(asked)
    counted = found[:MOST_QUEUES]
    oldest = min((one.oldest for one in counted if one.oldest is not None), default=None)
    return succeed(
        {
            "queues": {"value": len(counted), "isCapped": len(found) > len(counted)},
            "waiting": sum(one.depth for one in counted),
            "held": sum(one.held for one in counted),
            "oldestAt": None if oldest is None else rfc3339(oldest),
        }
    )


def key_of(request: ApiRequest) -> str | None:
    """The key of the job that the parameter `jobId` names, if it is given."""
    job_id = request.query["jobId"]
    return None if job_id is None else write_job_key(request.caller.tenant, job_id)
