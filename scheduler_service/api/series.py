"""Executions by buckets of time, for charts (SPEC section 10)."""

from starlette.responses import Response

from scheduler_service.api.counts import key_of
from scheduler_service.api.filters import execution_query
from scheduler_service.api.freshness import catch_up
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import invalid, succeed
from scheduler_service.domain.moments import DAY, MINUTE, SECOND, rfc3339
from scheduler_service.persistence.history.queries import SeriesQuery
from scheduler_service.persistence.history.slot_counts import SLOT, SLOT_DAYS

MOST_BUCKETS = 200
DEFAULT_BUCKETS = 96
# Widths that a chart can name, in minutes; beyond them whole days.
_WIDTHS = (5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1_440)


async def show_series(request: ApiRequest) -> Response:
    """`GET /series/executions`: buckets begin at multiples of their width, the first at `from` or before."""
    first, last = _read_span(request)
    width = _read_width(request, last - first)
    begin = first - first % width
    executions = await execution_query(request, key_of(request), request.query)
    query = SeriesQuery(executions=executions, first=begin, last=last, width=width)
    behind = await catch_up(request)
    found = await request.deps.history.series(query)
    span = {"from": rfc3339(begin), "to": rfc3339(last), "bucketSeconds": width // SECOND}
    return succeed({**span, **found}, warnings=behind)


def _read_span(request: ApiRequest) -> tuple[int, int]:
    """The moments from `from` to `to`, by default a day up to now. Raises ApiProblem (422)."""
    now = request.deps.clock.now().wall
    first, last = request.query["from"], request.query["to"]
    if last is None:
        last = now if first is None else max(now, first)
    if first is None:
        first = last - DAY
    if first > last:
        raise invalid("/from", "range", f"from {rfc3339(first)} is after to, {rfc3339(last)}")
    oldest = now - now % DAY - SLOT_DAYS * DAY
    if not oldest <= first <= last <= now + SLOT_DAYS * DAY:
        message = f"a series reaches from {rfc3339(oldest)} to {SLOT_DAYS} days from now"
        raise invalid("/from", "range", f"{message}; GET /statistics has longer spans, by day")
    return first, last


def _read_width(request: ApiRequest, length: int) -> int:
    """The width of a bucket in ms. Raises ApiProblem (422)."""
    seconds, wanted = request.query["bucketSeconds"], request.query["buckets"]
    if seconds is None:
        # The first bucket may begin before the span: there is one more then.
        least = length / min(wanted or DEFAULT_BUCKETS, MOST_BUCKETS - 1)
        fitting = (width * MINUTE for width in _WIDTHS if width * MINUTE >= least)
        return next(fitting, -(-int(least) // DAY) * DAY)
    if wanted is not None:
        raise invalid("/buckets", "contradiction", "give bucketSeconds or buckets, not both")
    width = int(seconds) * SECOND
    if width % SLOT:
        message = f"bucketSeconds {seconds} must be a multiple of {SLOT // SECOND}"
        raise invalid("/bucketSeconds", "invalid", message)
    if length // width + 2 > MOST_BUCKETS:
        least = -(-length // (MOST_BUCKETS - 2) // SLOT) * (SLOT // SECOND)
        message = f"that is more than {MOST_BUCKETS} buckets; give bucketSeconds of {least} or more"
        raise invalid("/bucketSeconds", "range", message)
    return width
