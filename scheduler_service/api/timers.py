"""Coming firings: of a job, of a timer that is tried, and of all jobs (SPEC section 3)."""

import asyncio
import heapq
from collections.abc import Iterator
from itertools import islice
from typing import Any

from starlette.responses import Response

from client_sdk.models import PreviewRequest
from scheduler_service.api.bodies import read_json, read_model
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.job_commands import run_once
from scheduler_service.api.jobs import find_job
from scheduler_service.api.problems import absent, invalid, invalid_all
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.domain.document import Cursor
from scheduler_service.domain.errors import DefinitionError, ExpressionError
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import DAY, rfc3339
from scheduler_service.engine.compile import below_timer, compile_posted_timer
from scheduler_service.persistence.common.cursor import read_cursor, write_cursor
from scheduler_service.persistence.history.queries import Place
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.timing.firings import advance, between, latest, warnings_at
from scheduler_service.timing.preview import COUNT_MAX, Shown, preview, show
from scheduler_service.timing.timer import Timer
from scheduler_service.timing.times import parse_time

FEW = 10
JOBS_MAX = 10_000
WALK_MAX = 10_000


async def show_next(call: ApiRequest) -> Response:
    """`GET /jobs/{jobId}/next`: its coming firings; none while it is paused."""
    entry = await find_job(call.parts, call.job_id)
    known = await _timer_of(call.parts, entry.job_id)
    if known is None:
        raise absent("/jobId", f"there is no job {entry.job_id!r}")
    timer, cursor = known
    shown = preview(timer, anchor=cursor.anchor, count=0)
    firings: tuple[Shown, ...] = ()
    if entry.state is JobState.ACTIVE:
        firings = show(timer, cursor, count=call.query["count"], until=call.query["until"], seed=entry.uid)
    return succeed(_write(shown, firings))


async def try_timer(call: ApiRequest) -> Response:
    """`POST /timers/preview`: a timer in words, and its firings, without creating anything."""
    raw = await call.body()
    asked = read_model(PreviewRequest, read_json(raw))
    timer = _compile(call.parts, asked)
    anchor = _moment("/from", asked.from_, timer) if asked.from_ else call.parts.clock.now().wall
    until = _moment("/until", asked.until, timer) if asked.until else None
    if until is not None and until < anchor:
        raise invalid("/until", "range", "until lies before from; give a later one")
    count = asked.count or (FEW if until is None else COUNT_MAX)

    async def work() -> object:
        shown = preview(timer, anchor=anchor, count=count, until=until)
        return _write(shown, shown.firings)

    remembered = call.remembered("timers/preview", raw)
    warnings = below_timer((*timer.warnings, *warnings_at(timer, anchor)))
    return succeed(await run_once(call.parts, remembered, work), warnings=warnings)


async def list_upcoming(call: ApiRequest) -> Response:
    """`GET /upcoming`: the firings of all jobs between two moments, in order of time."""
    parts, limit = call.parts, call.query["limit"]
    since = call.query["from"] if call.query["from"] is not None else parts.clock.now().wall
    until = call.query["to"] if call.query["to"] is not None else since + DAY
    behind = (since, "") if call.query["cursor"] is None else _read_place(call.query["cursor"])
    items = await _merge(parts, behind, until, limit + 1)
    page = items[:limit]
    more = write_cursor(Place(page[-1][0], 0, page[-1][1].job_id)) if len(items) > limit else None
    return succeed({"items": [_line(moment, entry) for moment, entry in page], "nextCursor": more})


async def _merge(
    parts: ApiDependencies, behind: tuple[int, str], until: int, limit: int
) -> list[tuple[int, CatalogueEntry]]:
    """The first `limit` firings later than `behind` (moment and job), merged over all jobs."""
    entries = await parts.catalogue.upcoming(0, until, JOBS_MAX, tenant=parts.surroundings.tenant)
    heap = [(entry.next_fire or 0, entry.job_id, entry) for entry in entries]
    heapq.heapify(heap)
    courses: dict[str, Iterator[int]] = {}
    found: list[tuple[int, CatalogueEntry]] = []
    while heap and len(found) < limit:
        moment, job_id, entry = heap[0]
        if (moment, job_id) > behind:
            found.append((moment, entry))
        if job_id not in courses:
            courses[job_id] = await _course(parts, entry, max(moment + 1, behind[0]), until)
        following = next(courses[job_id], None)
        if following is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (following, job_id, entry))
    return found


async def _course(parts: ApiDependencies, entry: CatalogueEntry, since: int, until: int) -> Iterator[int]:
    """The moments of one job from `since` to `until`."""
    await asyncio.sleep(0)
    known = await _timer_of(parts, entry.job_id)
    if known is None:
        return iter(())
    timer, cursor = known
    earlier = latest(timer, cursor, entry.uid, since) if timer.repeats is None else None
    if earlier is not None:
        cursor = advance(cursor, earlier)
    walk = islice(between(timer, cursor, entry.uid, until), WALK_MAX)
    return (firing.planned_at for firing in walk if firing.planned_at >= since)


async def _timer_of(parts: ApiDependencies, job_id: str) -> tuple[Timer, Cursor] | None:
    job = await parts.read_job(job_id)
    if job is None or job.document is None:
        return None
    head = job.document.head
    return job.programs[head.revision].timer, head.cursor


def _compile(parts: ApiDependencies, asked: PreviewRequest) -> Timer:
    try:
        return compile_posted_timer(asked.timer, default_zone=parts.surroundings.default_zone)
    except DefinitionError as error:
        raise invalid_all(error.problems) from None


def _moment(pointer: str, text: str, timer: Timer) -> int:
    try:
        return parse_time(text, timer.zone)
    except ExpressionError as error:
        raise invalid(pointer, error.code, error.message) from None


def _write(shown: Any, firings: tuple[Shown, ...]) -> dict[str, Any]:
    return {
        "kind": shown.kind,
        "dialect": shown.dialect,
        "normalForm": shown.normal_form,
        "description": shown.description,
        "firings": [{"utc": rfc3339(one.utc), "local": one.local, "note": one.note} for one in firings],
    }


def _line(moment: int, entry: CatalogueEntry) -> dict[str, Any]:
    return {
        "jobId": entry.job_id,
        "jobName": entry.job_name,
        "kind": entry.kind,
        "plannedAt": rfc3339(moment),
    }


def _read_place(cursor: str) -> tuple[int, str]:
    """The moment and the job behind which the list goes on. Raises CursorError."""
    place = read_cursor(cursor, Place)
    return place.moment, place.name
