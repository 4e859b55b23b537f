"""How many firings are planned in spans of time, over all jobs (SPEC section 10)."""

from collections.abc import Sequence

from starlette.responses import Response

from client_sdk.models import answers
from scheduler_service.api import parameters
from scheduler_service.api.request import ApiRequest, Routes
from scheduler_service.api.responses import invalid, succeed
from scheduler_service.domain.job_key import write_job_key
from scheduler_service.domain.moments import DAY, HOUR, SECOND, rfc3339
from scheduler_service.hosts.large_work import work_apart
from scheduler_service.pacing.slices import Slices
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.security.callers import Role
from scheduler_service.timing.outlook import FiringCounts

ROUTES = Routes("counts")

MOST_COUNTED = 10_000
"""Of so many jobs the next firing is counted."""
MOST_READ = 200
"""Of so many of them, those that fire soonest, all firings are counted, where MOST_STEPS allows it."""
MOST_STEPS = 50_000
"""About a second of work for timers that fire in every span: so much is done for one question."""
MOST_BUCKETS = 1_000
END_OF_TIMERS = 7_258_118_400_000
"""2200-01-01T00:00:00Z in wall ms."""


@ROUTES.add(
    "GET /counts/upcoming",
    Role.VIEWER,
    query=(
        parameters.moment("from", "From the bucket of this moment on; default: now."),
        parameters.integer("bucketSeconds", "The width of a bucket.", low=60, high=DAY // SECOND, default=60),
        parameters.integer("buckets", "How many.", low=1, high=MOST_BUCKETS, default=60),
    ),
    data=answers.UpcomingCounts,
)
async def count_upcoming(request: ApiRequest) -> Response:
    """Count the planned firings of all jobs by buckets of time, from now or `from` on.

    Raises ApiProblem (422) for buckets beyond the end of timers.
    """
    query = request.query
    width = query["bucketSeconds"] * SECOND
    since = request.deps.clock.now().wall if query["from"] is None else query["from"]
    first = since - since % width
    if first + width * query["buckets"] > END_OF_TIMERS:
        raise invalid("/from", "range", "these buckets end after 2199, where timers end; look earlier")
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
    catalogue = request.deps.catalogue
    found = await catalogue.upcoming(0, end, MOST_COUNTED + 1, tenant=tenant, with_labels=False)
    own = None if left_out is None else write_job_key(tenant, left_out)
    entries = [entry for entry in found[:MOST_COUNTED] if entry.job_id != own]
    spans, most = [0] * len(starts), most_read(len(starts), width)
    slices, firings = Slices(), []
    for entry in entries[:most]:
        await slices.pause()
        if (one := await _read_firings(request, entry)) is not None:
            firings.append(one)
    await work_apart(lambda: _add_all(firings, starts[0], width, spans))
    for entry in entries[most:]:
        index = max(((entry.next_fire or 0) - starts[0]) // width, 0)
        spans[index] += 1
    return spans, len(entries) > most


def most_read(count: int, width: int) -> int:
    """Of how many jobs all firings in so many spans of `width` ms are counted; a step: a span, an hour."""
    steps = count + count * width // HOUR
    return max(1, min(MOST_READ, MOST_STEPS // steps))


async def _read_firings(request: ApiRequest, entry: CatalogueEntry) -> tuple[FiringCounts, int] | None:
    """What counts the firings of a job, and the next one of them; None: it has ended meanwhile."""
    job = await request.deps.read_job(entry.job_id)
    if job is None or job.document is None or entry.next_fire is None:
        return None
    head = job.document.head
    return FiringCounts(job.programs[head.revision].timer, head.cursor.anchor), entry.next_fire


def _add_all(firings: Sequence[tuple[FiringCounts, int]], begin: int, width: int, spans: list[int]) -> None:
    """Adds what is planned of jobs, each from its next firing on; spans without any are passed over."""
    for counts, next_fire in firings:
        at: int | None = max(next_fire, begin)
        while at is not None and (index := (at - begin) // width) < len(spans):
            stop = begin + (index + 1) * width
            spans[index] += counts.within(at, stop)
            at = counts.first(stop)
