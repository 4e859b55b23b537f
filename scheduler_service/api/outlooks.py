"""What a timer will do over many days, and beside the jobs that are there (SPEC section 10)."""

import re
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from client_sdk.models import OutlookRequest, answers
from scheduler_service.api import examples
from scheduler_service.api.bodies import read_json_by_size, read_model
from scheduler_service.api.planned_counts import END_OF_TIMERS, count_planned
from scheduler_service.api.previews import SOFT, read_anchor, softly
from scheduler_service.api.request import ApiRequest, Body, Routes
from scheduler_service.api.responses import invalid, invalid_all, succeed
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.domain.moments import DAY, HOUR, rfc3339
from scheduler_service.engine.compile import below_timer, compile_posted_timer
from scheduler_service.hosts.large_work import work_apart
from scheduler_service.security.callers import Role
from scheduler_service.timing.occurrences import warnings_at
from scheduler_service.timing.outlook import DayAhead, FiringCounts, Outlook, look_ahead
from scheduler_service.timing.timer import Timer

ROUTES = Routes("timers")

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@ROUTES.add(
    "POST /timers/outlook",
    Role.VIEWER,
    body=Body(OutlookRequest, examples.OUTLOOK, required=True),
    query=(SOFT,),
    data=answers.OutlookOrProblem,
)
async def show_outlook(request: ApiRequest) -> Response:
    """Show what a timer does over many days, without creating anything."""
    return await softly(request, _show_outlook)


async def _show_outlook(request: ApiRequest) -> Response:
    posted = read_model(OutlookRequest, await read_json_by_size(await request.body()))
    try:
        timer = compile_posted_timer(posted.timer, default_zone=request.deps.surroundings.default_zone)
    except DefinitionError as error:
        raise invalid_all(error.problems) from None
    since = posted.from_
    if since is not None and _DATE.fullmatch(since):
        since = f"{since} 00:00:00"
    anchor = read_anchor(request, since, timer)
    if anchor >= END_OF_TIMERS:
        raise invalid("/from", "range", "from is after 2199, where timers end (SPEC section 3); look earlier")
    ahead = await work_apart(
        lambda: look_ahead(timer, anchor=anchor, days=posted.days, language=request.language)
    )
    starts = [anchor - anchor % HOUR + number * HOUR for number in range(DAY // HOUR)]
    others, is_capped = await count_planned(request, starts, HOUR, posted.job_id)
    own = await work_apart(lambda: _count_hours(timer, anchor, starts))
    hours = [
        {"from": rfc3339(start), "count": count, "others": other}
        for start, count, other in zip(starts, own, others, strict=True)
    ]
    data = {**_write(timer, ahead), "nextDay": hours, "othersAreCapped": is_capped}
    return succeed(data, warnings=below_timer((*timer.warnings, *warnings_at(timer, anchor))))


def _write(timer: Timer, ahead: Outlook) -> dict[str, Any]:
    return {
        "timezone": timer.zone.name,
        "total": ahead.total,
        "until": rfc3339(ahead.until),
        "days": [_write_day(day) for day in ahead.days],
        "byHour": ahead.by_hour,
    }


def _write_day(day: DayAhead) -> dict[str, Any]:
    return {
        "date": rfc3339(day.day * DAY)[:10],
        "count": day.count,
        "first": None if day.first is None else rfc3339(day.first),
        "last": None if day.last is None else rfc3339(day.last),
        "note": None if day.step is None else "gap" if day.step > 0 else "overlap",
        "noteText": day.note,
    }


def _count_hours(timer: Timer, anchor: int, starts: Sequence[int]) -> list[int]:
    counts = FiringCounts(timer, anchor)
    return [counts.within(start, start + HOUR) for start in starts]
