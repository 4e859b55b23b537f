"""Feedback: a target's report, whose token is checked before its body is read (SPEC section 5)."""

from starlette.responses import Response

from scheduler_service.api.bodies import read_json
from scheduler_service.api.job_commands import run_command
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.domain.events import FeedbackArrived
from scheduler_service.ports.delivery import Command


async def report_feedback(request: ApiRequest) -> Response:
    """`POST /jobs/{jobId}/feedback/{requestCounts}`: a target's report, authenticated by its token."""
    job_id, request_counts = request.job_id, request.number("requestCounts")
    token, shard = request.query["token"] or "", request.query["shard"]
    await request.deps.feedback_keys.check(request.deps, request.job_key, request_counts, token)
    raw = await request.body(request.deps.feedback_bytes)
    event = FeedbackArrived(request_counts, token, read_json(raw), shard, request.trace)
    remembered = request.remembered(f"jobs/{job_id}/feedback/{request_counts}", raw)
    await run_command(request, request.job_key, Command(event, remembered=remembered))
    return succeed(None)
