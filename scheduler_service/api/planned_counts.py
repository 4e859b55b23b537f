"""How many firings are planned in spans of time, over all jobs (SPEC section 10)."""

import asyncio
from collections.abc import Sequence

from starlette.responses import Response

from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.domain.job_key import write_job_key
from scheduler_service.domain.moments import SECOND, rfc3339
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.timing.outlook import FiringCounts

MOST_COUNTED = 10_000
"""Of so many jobs the next firing is counted."""
MOST_READ = 200
"""Of so many of them, those that fire soonest, all firings are counted."""
MOST_BUCKETS = 1_000


async def count_upcoming(request: ApiRequest) -> Response:
    """`GET /counts/upcoming`: firings in buckets of equal width, from now or `from` on."""
    query = request.query
    width = query["bucketSeconds"] * SECOND
    since = request.deps.clock.now().wall if query["from"] is None else query["from"]
    first = since - since % width
    starts = [first + number * width for number in range(query["buckets"])]
    counts, is_capped = await count_planned(request, starts, width)
    data = {
        "from": rfc3339(first),
        "to": rfc3339(starts[-1] + width),
        "bucketSeconds": query["bucketSeconds"],
        "total": {"value": sum(counts), "isCapped": is_capped},
        "counts": counts,
    }
    return succeed(data)


async def count_planned(
    request: ApiRequest, starts: Sequence[int], width: int, left_out: str | None = None
) -> tuple[list[int], bool]:
    """The firings of ordinary jobs in the spans of `width` ms at `starts`, and whether some are not counted.

    The spans follow each other. `left_out`: the jobId of a job that does not count. Raises StoreUnavailable.
    """
    tenant, end = request.caller.tenant, starts[-1] + width - 1
    found = await request.deps.catalogue.upcoming(0, end, MOST_COUNTED + 1, tenant=tenant)
    own = None if left_out is None else write_job_key(tenant, left_out)
    entries = [entry for entry in found[:MOST_COUNTED] if entry.job_id != own]
    spans = [0] * len(starts)
    for entry in entries[:MOST_READ]:
        await asyncio.sleep(0)
        await _count_job(request, entry, starts[0], width, spans)
    for entry in entries[MOST_READ:]:
        index = max(((entry.next_fire or 0) - starts[0]) // width, 0)
        spans[index] += 1
    return spans, len(entries) > MOST_READ


async def _count_job(
    request: ApiRequest, entry: CatalogueEntry, begin: int, width: int, spans: list[int]
) -> None:
    """Adds what is planned of one job, from its next firing on; spans without any are passed over."""
    job = await request.deps.read_job(entry.job_id)
    if job is None or job.document is None or entry.next_fire is None:
        return
    head = job.document.head
    firings = FiringCounts(job.programs[head.revision].timer, head.cursor.anchor)
    at: int | None = max(entry.next_fire, begin)
    while at is not None and (index := (at - begin) // width) < len(spans):
        stop = begin + (index + 1) * width
        spans[index] += firings.within(at, stop)
        at = firings.first(stop)
