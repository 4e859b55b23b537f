"""Calendars of working days of the caller's tenant, and the jobs that use them (SPEC section 3)."""

import json
import re
from collections.abc import Mapping
from datetime import date
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from client_sdk.models import answers
from client_sdk.models.fields import CALENDAR
from client_sdk.models.requests import NewCalendar
from scheduler_service.api import examples, parameters
from scheduler_service.api.auditing import Way
from scheduler_service.api.bodies import read_json_by_size, read_model
from scheduler_service.api.request import FORM_OF_NAME, ApiRequest, PostedBody, Routes
from scheduler_service.api.responses import absent, invalid, invalid_all, refuse, succeed
from scheduler_service.domain.errors import DefinitionError, Problem
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.moments import as_datetime, rfc3339
from scheduler_service.hosts.large_work import work_apart
from scheduler_service.ports.calendars import StoredCalendar
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.security.callers import Role
from scheduler_service.services.calendar_users import CalendarUsers
from scheduler_service.services.shared_calendars import MOST_CALENDARS, Calendars, Document, read_calendar
from scheduler_service.timing.calendar_days import Calendar
from scheduler_service.timing.calendar_text import day_of, read_span, write_spans
from scheduler_service.timing.preview import show
from scheduler_service.timing.timer import bind_calendar

ROUTES = Routes("calendars")
MOST_NAMED = 20
"""So many jobs are named that use a calendar, or follow its change."""
FIRINGS = 5
_NAME = re.compile(CALENDAR[1:-1])
_YEAR = parameters.integer("year", "Of this year; default: the current one.", low=1970, high=2199)


@ROUTES.add("GET /calendars", Role.VIEWER, data=answers.CalendarList)
async def list_calendars(request: ApiRequest) -> Response:
    """List the calendars of the caller's tenant by name."""
    calendars = _calendars(request)
    await calendars.look()
    return succeed({"items": [_wire(one) for one in calendars.list(request.caller.tenant)]})


@ROUTES.add(
    "GET /calendars/{calendarName}",
    Role.VIEWER,
    query=(_YEAR,),
    data=answers.CalendarDetail,
    statuses=(404,),
)
async def read_calendar_days(request: ApiRequest) -> Response:
    """Read a calendar: what was stored, its days of a year, and the jobs that use it."""
    calendars, stored = _calendars(request), await _find(request)
    users = await _users(request).find(stored.tenant, stored.name, MOST_NAMED + 1)
    document = json.loads(stored.document)
    calendar = calendars.find(stored.tenant, stored.name)
    assert calendar is not None, "what is stored has days"
    year = request.query["year"] or _year(request)
    data = {**_wire(stored), **_days(calendar, year), "usedBy": _names(users)}
    return succeed(data, warnings=_lacks(document, _year(request)))


@ROUTES.add(
    "PUT /calendars/{calendarName}",
    Role.EDITOR,
    body=PostedBody(NewCalendar, examples.NEW_CALENDAR, required=True),
    data=answers.Calendar,
    statuses=(429,),
)
async def put_calendar(request: ApiRequest) -> Response:
    """Store a calendar, or replace it: it counts for all firings that are still to come."""
    calendars, name, tenant = _calendars(request), _name(request), request.caller.tenant
    await calendars.look()
    document = await _read_posted(request, calendars)
    known = calendars.get(tenant, name)
    request.tell_audit(subject=name, detail={"given": _posted(document)})
    if known is None and len(calendars.list(tenant)) >= MOST_CALENDARS:
        message = f"the tenant {tenant!r} has {MOST_CALENDARS} calendars; remove one"
        raise refuse(HTTPStatus.TOO_MANY_REQUESTS, "", "limit", message, retry_seconds=1)
    if known is not None and json.loads(known.document) == document:
        request.tell_audit(changed=False)
        return succeed(_wire(known), warnings=_lacks(document, _year(request)))
    stored = await calendars.put(tenant, name, document)
    request.deps.tell_calendar(stored)
    return succeed(_wire(stored), warnings=_lacks(document, _year(request)))


@ROUTES.add("DELETE /calendars/{calendarName}", Role.EDITOR, statuses=(404, 409))
async def delete_calendar(request: ApiRequest) -> Response:
    """Remove a calendar that no job uses."""
    stored = await _find(request)
    request.tell_audit(subject=stored.name)
    users = await _users(request).find(stored.tenant, stored.name, 1)
    if users:
        used_by = read_job_key(users[0].job_id)[1]
        message = f"the calendar {stored.name!r} is used by the job {used_by!r}; change its timer first"
        raise refuse(HTTPStatus.CONFLICT, "/calendarName", "used", message)
    await _calendars(request).remove(stored.tenant, stored.name)
    return succeed(None)


@ROUTES.add(
    "POST /calendars/{calendarName}/preview",
    Role.VIEWER,
    query=(_YEAR,),
    body=PostedBody(NewCalendar, examples.NEW_CALENDAR, required=True),
    data=answers.CalendarPreview,
    audit=Way.NONE,
)
async def preview_calendar(request: ApiRequest) -> Response:
    """Show the days of a calendar, and what its jobs would do with them, without storing it."""
    calendars, name, tenant = _calendars(request), _name(request), request.caller.tenant
    document = await _read_posted(request, calendars)
    calendar = read_calendar(name, document, [], revision=1)
    users = await _users(request).find(tenant, name, MOST_NAMED + 1)
    jobs = [line for entry in users[:MOST_NAMED] if (line := await _change_of(request, entry, calendar))]
    year = request.query["year"] or _year(request)
    data = {**_days(calendar, year), "jobs": jobs, "isCapped": len(users) > MOST_NAMED}
    return succeed(data, warnings=_lacks(document, _year(request)))


async def _change_of(request: ApiRequest, entry: CatalogueEntry, calendar: Calendar) -> dict[str, Any] | None:
    """The next firings of a job as it is, and with this calendar; None: it is there no more."""
    job = await request.deps.jobs.read(entry.job_id)
    if job is None or job.document is None:
        return None
    head = job.document.head
    timer = job.programs[head.revision].timer
    cursor, seed = head.cursor, head.uid
    changed = timer if timer.rule is None else bind_calendar(timer, calendar)

    def compute() -> tuple[list[str], list[str]]:
        shown = (show(one, cursor, count=FIRINGS, seed=seed) for one in (timer, changed))
        before, after = ([rfc3339(firing.utc) for firing in firings] for firings in shown)
        return before, after

    before, after = await work_apart(compute)
    return {"jobId": read_job_key(entry.job_id)[1], "before": before, "after": after}


def _calendars(request: ApiRequest) -> Calendars:
    calendars = request.deps.calendars
    assert calendars is not None, "a service has calendars"
    return calendars


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
    holidays = document.get("holidays") or {}
    listed = [
        text for one in (document, holidays) for kind in ("free", "work") for text in one.get(kind) or ()
    ]
    first, last = day_of(date(year, 1, 1)), day_of(date(year, 12, 31))
    if not listed or any(one.first <= last and one.last >= first for one in map(read_span, listed)):
        return []
    text = f"it has no day of {year}: working days follow from its week alone"
    return [Problem("/free", "year_missing", text)]
