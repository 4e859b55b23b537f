"""Calendars of working days of the caller's tenant, and the jobs that use them (SPEC section 3)."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from client_sdk.models import answers
from client_sdk.models.fields import CALENDAR
from client_sdk.models.request_bodies import MAX_DAYS, DatesText, NewCalendar
from scheduler_service.api import openapi_examples, parameters
from scheduler_service.api.audit_writing import Way
from scheduler_service.api.bodies import read_json_by_size, read_model
from scheduler_service.api.previews import SOFT, softly
from scheduler_service.api.request import FORM_OF_NAME, ApiRequest, PostedBody, Routes
from scheduler_service.api.responses import ApiProblem, absent, full, invalid, invalid_all, refuse, succeed
from scheduler_service.domain.errors import DefinitionError, Problem
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.moments import as_datetime, rfc3339
from scheduler_service.hosts.work_thread import work_apart
from scheduler_service.persistence.common.pagination import count_fitting, mark_list, write_cursor
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.shared_tables import StoredCalendar
from scheduler_service.security.callers import Role
from scheduler_service.services.shared_calendars import (
    MOST_CALENDARS,
    YEARS_AHEAD,
    Calendars,
    CalendarUsers,
    Document,
    lacks_year,
    lists_none_of,
    read_calendar,
)
from scheduler_service.timing.calendar_change import find_change, find_days
from scheduler_service.timing.calendar_days import (
    FREE,
    WORK,
    Calendar,
    DaySpan,
    day_of,
    day_set,
    read_spans,
    write_spans,
)
from scheduler_service.timing.icalendar import read_days

ROUTES = Routes("calendars")
MOST_NAMED = 20
"""So many jobs are named that use a calendar, and at least so many a page of a preview looks at."""
FIRINGS = 5
_NAME = re.compile(CALENDAR[1:-1])
_YEAR = parameters.integer("year", "Of this year; default: the current one.", low=1970, high=2199)


@ROUTES.add(
    "GET /calendars", Role.VIEWER, query=parameters.paging(500), data=answers.Listing[answers.Calendar]
)
async def list_calendars(request: ApiRequest) -> Response:
    """List the calendars of the caller's tenant by name; it warns of those without the current year."""
    calendars, tenant = _calendars(request), request.caller.tenant
    await calendars.look()
    mark = mark_list("calendars", tenant)
    after, limit = request.place(mark), request.query["limit"]
    found = [one for one in calendars.list(tenant) if one.name > after]
    page = found[: count_fitting(len(one.document) for one in found[:limit])]
    items = [_wire(one) for one in page]
    warnings = [
        Problem(f"/items/{index}{warning.pointer}", warning.code, f"{one.name}: {warning.message}")
        for index, one in enumerate(page)
        for warning in _lacks(json.loads(one.document), _year(request))
    ]
    place = write_cursor(mark, page[-1].name) if len(page) < len(found) else None
    return succeed({"items": items, "nextCursor": place}, warnings=warnings)


@ROUTES.add(
    "GET /calendars/{calendarName}",
    Role.VIEWER,
    query=(_YEAR,),
    data=answers.CalendarDetail,
    statuses=(404,),
)
async def read_calendar_days(request: ApiRequest) -> Response:
    """Read a calendar: what was stored, its days of a year, and its jobs; its ETag is the version."""
    calendars, stored = _calendars(request), await _find(request)
    users = await _users(request).find(stored.tenant, stored.name, MOST_NAMED + 1)
    document = json.loads(stored.document)
    calendar = calendars.find(stored.tenant, stored.name)
    assert calendar is not None, "what is stored has days"
    year = request.query["year"] or _year(request)
    data = {**_wire(stored), **_days(calendar, year), "usedBy": _names(users)}
    return succeed(data, _tag(stored), warnings=_lacks(document, _year(request)))


@ROUTES.add(
    "PUT /calendars/{calendarName}",
    Role.EDITOR,
    body=PostedBody(NewCalendar, openapi_examples.NEW_CALENDAR, required=True),
    data=answers.Calendar,
    statuses=(412, 429),
    headers=("If-Match",),
)
async def put_calendar(request: ApiRequest) -> Response:
    """Store a calendar, or replace it, unless `If-Match` names another version: it counts from now on."""
    calendars, name, tenant = _calendars(request), _name(request), request.caller.tenant
    await calendars.look()
    document = await _read_posted(request, calendars)
    known, expected = calendars.get(tenant, name), request.if_match
    version = 0 if known is None else known.version
    if expected is not None and version not in expected:
        raise _outdated(name)
    given, masking = _posted(document), request.deps.security.masking
    before = dict.fromkeys(given) if known is None else _posted(json.loads(known.document))
    changes = masking.changes(before, given, request.secret_mask)
    request.tell_audit(subject=name, detail={"given": given, **changes})
    if known is None and len(calendars.list(tenant)) >= MOST_CALENDARS:
        message = f"the tenant {tenant!r} has {MOST_CALENDARS} calendars; remove one"
        raise full(message)
    if known is not None and json.loads(known.document) == document:
        request.tell_audit(changed=False)
        return succeed(_wire(known), _tag(known), warnings=_lacks(document, _year(request)))
    stored = await calendars.put(tenant, name, document, expected=expected)
    if stored is None:
        raise _outdated(name)
    request.deps.definitions.tell_calendar(stored)
    return succeed(_wire(stored), _tag(stored), warnings=_lacks(document, _year(request)))


@ROUTES.add("DELETE /calendars/{calendarName}", Role.EDITOR, statuses=(404, 409, 412), headers=("If-Match",))
async def delete_calendar(request: ApiRequest) -> Response:
    """Remove a calendar that no job uses, unless `If-Match` names another version."""
    stored, calendars = await _find(request), _calendars(request)
    if request.if_match is not None and stored.version not in request.if_match:
        raise _outdated(stored.name)
    request.tell_audit(subject=stored.name)
    await _refuse_used(request, stored)
    removed = await calendars.remove(stored)
    if removed is None:
        message = f"the calendar {stored.name!r} was changed meanwhile; read it again"
        raise refuse(HTTPStatus.CONFLICT, "/calendarName", "conflict", message)
    request.deps.definitions.tell_calendar(removed)  # who finds it used later restores it
    try:
        await _refuse_used(
            request, stored
        )  # by a job that was created between the first look and the removal
    except ApiProblem:
        await calendars.restore(removed)
        raise
    return succeed(None)


async def _refuse_used(request: ApiRequest, stored: StoredCalendar) -> None:
    """Raises ApiProblem (409) where a job uses it."""
    users = await _users(request).find(stored.tenant, stored.name, 1)
    if users:
        used_by = read_job_key(users[0].job_id)[1]
        message = f"the calendar {stored.name!r} is used by the job {used_by!r}; change its timer first"
        raise refuse(HTTPStatus.CONFLICT, "/calendarName", "used", message)


@ROUTES.add(
    "POST /calendars/{calendarName}/preview",
    Role.VIEWER,
    query=(_YEAR, parameters.paging()[1], SOFT),
    body=PostedBody(NewCalendar, openapi_examples.NEW_CALENDAR, required=True),
    data=answers.CalendarPreviewOrProblem,
    audit=Way.NONE,
)
async def preview_calendar(request: ApiRequest) -> Response:
    """Show the days of a calendar, and which jobs would fire at other moments, without storing it.

    A page looks at some of the jobs that use it; where it has a cursor, the next one looks at more of them.
    """
    return await softly(request, _preview_calendar)


async def _preview_calendar(request: ApiRequest) -> Response:
    calendars, name, tenant = _calendars(request), _name(request), request.caller.tenant
    await calendars.look()
    document = await _read_posted(request, calendars)
    mark = mark_list("calendarPreview", tenant, name, json.dumps(document))
    place = request.place(mark)
    calendar = read_calendar(name, document, [], revision=1)
    users, following = await _users(request).page(tenant, name, place, enough=MOST_NAMED)
    now = request.deps.clock.now().wall
    days = await work_apart(lambda: find_days(calendars.find(tenant, name), calendar, now))
    jobs = [line for entry in users if (line := await _change_of(request, entry, calendar, days))]
    data = {
        **_days(calendar, request.query["year"] or _year(request)),
        "jobs": jobs,
        "checked": len(users),
        "nextCursor": None if following is None else write_cursor(mark, following),
    }
    return succeed(data, warnings=_lacks(document, _year(request)))


@ROUTES.add(
    "POST /dates/read",
    Role.VIEWER,
    body=PostedBody(DatesText, openapi_examples.DATES_TEXT, required=True),
    data=answers.ReadDates,
    audit=Way.NONE,
)
async def read_dates(request: ApiRequest) -> Response:
    """Read the days of an iCalendar file or of a list of dates into a calendar, without storing it."""
    posted = read_model(DatesText, await read_json_by_size(await request.body()))
    year = _year(request)
    problems: list[Problem] = []

    def read() -> dict[str, Any]:
        found = read_days(posted.text, posted.as_, range(year - 1, year + YEARS_AHEAD + 1), problems)
        known = posted.calendar.model_dump(by_alias=True)
        own = {kind: day_set(read_spans(known[kind], f"/calendar/{kind}", problems)) for kind in (FREE, WORK)}
        free, work = (own[FREE] - found.work) | found.free, (own[WORK] - found.free) | found.work
        return {
            "format": found.format,
            "free": list(write_spans(found.free)),
            "work": list(write_spans(found.work)),
            "leftOut": found.left_out[:MOST_NAMED],
            "calendar": {**known, "free": list(write_spans(free)), "work": list(write_spans(work))},
        }

    data = await work_apart(read)
    problems += [
        Problem("/text", "too_many", f"{kind} would have more than {MAX_DAYS} dates and ranges")
        for kind in (FREE, WORK)
        if len(data["calendar"][kind]) > MAX_DAYS
    ]
    if problems:
        raise invalid_all(problems)
    return succeed(data)


async def _change_of(
    request: ApiRequest, entry: CatalogueEntry, calendar: Calendar, days: Sequence[DaySpan]
) -> dict[str, Any] | None:
    """What this calendar changes for a job; None: nothing, or the job is not there, or does not fire."""
    job = await request.deps.jobs.read(entry.job_id)
    if job is None or job.document is None or not job.document.head.active:
        return None
    head = job.document.head
    program = job.programs[head.revision]
    now = request.deps.clock.now().wall
    found = (
        None
        if program.disabled
        else await work_apart(
            lambda: find_change(
                program.timer, calendar, days, head.cursor, now=now, seed=head.uid, count=FIRINGS
            )
        )
    )
    if found is None:
        return None
    return {
        "jobId": read_job_key(entry.job_id)[1],
        "firstChange": None if found.first is None else rfc3339(found.first),
        "before": [rfc3339(one) for one in found.before],
        "after": [rfc3339(one) for one in found.after],
    }


def _calendars(request: ApiRequest) -> Calendars:
    return request.deps.definitions.calendars


def _users(request: ApiRequest) -> CalendarUsers:
    return CalendarUsers(catalogue=request.deps.catalogue)


def _name(request: ApiRequest) -> str:
    """The name in the path. Raises ApiProblem (422)."""
    name = request.path["calendarName"]
    if not _NAME.fullmatch(name):
        message = f"{name[:80]!r} is not a calendar's name; use 1 to 128 of {FORM_OF_NAME}"
        raise invalid("/calendarName", "pattern", message)
    return name


async def _find(request: ApiRequest) -> StoredCalendar:
    """The calendar of the path. Raises ApiProblem (404, 422)."""
    calendars, name = _calendars(request), _name(request)
    await calendars.look()
    stored = calendars.get(request.caller.tenant, name)
    if stored is None:
        raise absent("/calendarName", f"there is no calendar {name!r}")
    return stored


async def _read_posted(request: ApiRequest, calendars: Calendars) -> Document:
    """The posted calendar with the holidays of its country. Raises ApiProblem (422)."""
    posted = read_model(NewCalendar, await read_json_by_size(await request.body()))
    try:
        return await work_apart(lambda: calendars.complete(posted.model_dump(by_alias=True)))
    except DefinitionError as error:
        raise invalid_all(error.problems) from None


def _outdated(name: str) -> ApiProblem:
    message = f"the calendar {name!r} is at another version than those of If-Match; read it again"
    return refuse(HTTPStatus.PRECONDITION_FAILED, "/If-Match", "precondition", message)


def _tag(stored: StoredCalendar) -> dict[str, str]:
    return {"etag": f'"{stored.version}"'}


def _posted(document: Document) -> Document:
    return {name: value for name, value in document.items() if name != "holidays"}


def _wire(stored: StoredCalendar) -> dict[str, Any]:
    return {
        "name": stored.name,
        **_posted(json.loads(stored.document)),
        "version": stored.version,
        "createdAt": rfc3339(stored.created_at),
        "updatedAt": rfc3339(stored.changed_at),
    }


def _days(calendar: Calendar, year: int) -> dict[str, Any]:
    """The days of a year on which it is not as its week says, and how many working days there are."""
    first, last = day_of(date(year, 1, 1)), day_of(date(year, 12, 31))
    days = range(first, last + 1)
    other = [day for day in days if not calendar.is_usual(day)]
    return {
        "year": year,
        "workingDays": sum(map(calendar.is_work, days)),
        "freeDays": list(write_spans(day for day in other if not calendar.is_work(day))),
        "makeUpDays": list(write_spans(day for day in other if calendar.is_work(day))),
    }


def _names(users: list[CatalogueEntry]) -> dict[str, Any]:
    named = [read_job_key(one.job_id)[1] for one in users[:MOST_NAMED]]
    return {"jobs": named, "isCapped": len(users) > MOST_NAMED}


def _year(request: ApiRequest) -> int:
    return as_datetime(request.deps.clock.now().wall).year


def _lacks(document: Mapping[str, Any], year: int) -> list[Problem]:
    """A warning where a calendar that lists days has none of the current year."""
    return [Problem("/free", "year_missing", lacks_year(year))] if lists_none_of(document, year) else []
