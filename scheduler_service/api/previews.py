"""Definitions, timers, templates, retries: tried without creating anything (SPEC sections 3, 4, 6, 10)."""

import re
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from itertools import accumulate
from typing import Any, TypeVar

from msgspec.structs import replace
from starlette.responses import Response

from client_sdk.models import JobDefinition, OutlookRequest, PreviewRequest, TemplateRequest, answers
from client_sdk.models import Timer as TimerModel
from client_sdk.models.definition_schema import definition_schema
from scheduler_service.api import openapi_examples, parameters
from scheduler_service.api.audit_writing import Way
from scheduler_service.api.bodies import read_json_by_size, read_model
from scheduler_service.api.definitions import check_posted, warnings_today
from scheduler_service.api.job_answers import firing_preview
from scheduler_service.api.job_commands import read_owner
from scheduler_service.api.jobs import find_job
from scheduler_service.api.key_scopes import check_reach
from scheduler_service.api.request import OF_JOBS, ApiRequest, PostedBody, Routes
from scheduler_service.api.responses import ApiProblem, invalid, invalid_all, no_job, refused, succeed
from scheduler_service.api.statistics import END_OF_TIMERS, count_planned
from scheduler_service.domain.errors import DefinitionError, ExpressionError
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.job_key import write_job_key
from scheduler_service.domain.moments import DAY, HOUR, rfc3339
from scheduler_service.domain.secret_places import speaks_of_secret
from scheduler_service.domain.token_masks import MARK
from scheduler_service.engine.answer_rules import RULE_MEMBERS
from scheduler_service.engine.compile import below_timer, bind_timer, compile_posted_timer
from scheduler_service.engine.decision import Job
from scheduler_service.engine.definition_checks import refuse_ownerless
from scheduler_service.engine.program import Program, Surroundings
from scheduler_service.engine.retry import PLANNED_MAX, Failure, plan_retries
from scheduler_service.engine.template_preview import PreviewedTemplate, TemplatePreview, preview_rule
from scheduler_service.hosts.work_thread import work_apart
from scheduler_service.security.callers import Role
from scheduler_service.timing.preview import COUNT_MAX, DayAhead, FiringCounts, Outlook, look_ahead, preview
from scheduler_service.timing.schedule import warnings_at
from scheduler_service.timing.timer import Timer
from scheduler_service.timing.times import parse_time

ROUTES = Routes("jobs")
SOFT = parameters.flag("soft", 'Answer `{"problem": …}` with status 200 where a 422 would be.', default=False)

DEFAULT_COUNT = 10
APART_COUNT = 100
"""So many firings are computed on the loop: 4 ms at the worst."""

Result = TypeVar("Result")
FIRINGS = 5
ANY_STATUS = "500"
"""Shown for a policy that is for all errors."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@ROUTES.add(
    "POST /timers/preview",
    Role.VIEWER,
    scopes=OF_JOBS,
    body=PostedBody(PreviewRequest, openapi_examples.PREVIEW, required=True),
    query=(SOFT,),
    data=answers.PreviewOrProblem,
    tag="timers",
    audit=Way.NONE,
)
async def preview_timer(request: ApiRequest) -> Response:
    """Try a timer without creating anything: its text for people, and its firings."""
    return await softly(request, _preview_timer)


@ROUTES.add(
    "POST /templates/preview",
    Role.VIEWER,
    scopes=OF_JOBS,
    body=PostedBody(TemplateRequest, openapi_examples.TEMPLATE, required=True),
    query=(SOFT,),
    data=answers.ValueOrProblem,
    audit=Way.NONE,
)
async def preview_template(request: ApiRequest) -> Response:
    """Try a template on a root: its value, or the 422 that a job would get."""
    return await softly(request, _preview_template)


async def softly(request: ApiRequest, answer: Callable[[ApiRequest], Awaitable[Response]]) -> Response:
    """What `answer` answers; with `soft` its 422 as `{"problem": …}` with status 200.

    For pages that try while somebody types: browsers show each failed request as an error. Raises ApiProblem.
    """
    try:
        return await answer(request)
    except ApiProblem as problem:
        if not request.query["soft"] or problem.status is not HTTPStatus.UNPROCESSABLE_ENTITY:
            raise
        return succeed({"problem": problem.body()})


def read_anchor(request: ApiRequest, since: str | None, timer: Timer) -> int:
    """The moment of creation that a request supposes: `from`, else now. Raises ApiProblem (422)."""
    return read_moment("/from", since, timer) if since else request.deps.clock.now().wall


async def work_by_count(count: int, work: Callable[[], Result]) -> Result:
    """What `work`, which computes so many firings, returns: beside the loop where they are many."""
    return work() if count <= APART_COUNT else await work_apart(work)


@ROUTES.add(
    "GET /jobs/{jobId}/retry-plan",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=(parameters.text("error", "The error code, as 500 or timeout.", required=True, example="500"),),
    data=answers.RetryPlan,
    statuses=(404,),
)
async def show_retry_plan(request: ApiRequest) -> Response:
    """Show the retries of an execution that fails with one error every time."""
    entry = await find_job(request, request.job_key)
    job = await request.deps.jobs.read(entry.job_id)
    if job is None or job.document is None:
        raise no_job(entry.job_id)
    program = job.programs[job.document.head.revision]
    return succeed(write_plan(program, request.query["error"]))


def write_plan(program: Program, code: str, *, most: int = PLANNED_MAX) -> dict[str, Any]:
    """The first `most` retries of an execution that fails with `code` every time, and why they end.

    The reason is null where there are more.
    """
    failure = _failure(program, code)
    plan = plan_retries(program.policies, program.max_retries, failure, most=most)
    moments = accumulate(retry.wait for retry in plan.retries)
    items = [
        {
            "retry": number,
            "policy": retry.policy,
            "waitMs": retry.wait,
            "afterMs": moment,
            "jitter": program.policies[retry.policy].jitter,
        }
        for number, (retry, moment) in enumerate(zip(plan.retries, moments, strict=True), 1)
    ]
    return {"error": failure.code, "items": items, "reason": plan.reason}


async def _preview_timer(request: ApiRequest) -> Response:
    raw = await request.body()
    posted = read_model(PreviewRequest, await read_json_by_size(raw))
    try:
        timer = _compile(request, posted.timer)
    except DefinitionError as error:
        raise invalid_all(error.problems) from None
    anchor = read_anchor(request, posted.from_, timer)
    until = read_moment("/until", posted.until, timer) if posted.until else None
    if until is not None and until < anchor:
        raise invalid("/until", "range", "until lies before from; give a later one")
    count = posted.count or (DEFAULT_COUNT if until is None else COUNT_MAX)

    def show() -> dict[str, Any]:
        shown = preview(timer, anchor=anchor, count=count, until=until, language=request.language)
        return firing_preview(shown, shown.firings)

    async def work() -> object:
        return await work_by_count(count, show)

    warnings = below_timer((*timer.warnings, *warnings_at(timer, anchor)))
    return succeed(await request.run_once("timers/preview", raw, work), warnings=warnings)


async def _preview_template(request: ApiRequest) -> Response:
    raw = await request.body()
    posted = read_model(TemplateRequest, await read_json_by_size(raw))
    deps = request.deps
    surroundings = _without_secrets(deps.definitions.compiler.around(request.caller.tenant))
    now = deps.clock.now().wall
    try:
        tried = await work_apart(lambda: _try(posted, surroundings, now))  # a short JSONPath may visit much
    except DefinitionError as error:
        raise invalid_all(error.problems) from None

    async def work() -> object:
        return {"value": tried.value}

    return succeed(await request.run_once("templates/preview", raw, work), warnings=tried.warnings)


def _without_secrets(surroundings: Surroundings) -> Surroundings:
    """The surroundings with `***` for each variable whose name speaks of a secret: viewers preview, too."""
    known = surroundings.environment
    shown = {name: MARK if speaks_of_secret(name) else value for name, value in known.items()}
    return replace(surroundings, environment=shown)


def _compile(request: ApiRequest, posted: TimerModel | None) -> Timer:
    """A posted timer with the days of its calendar. Raises DefinitionError."""
    around = request.deps.definitions.compiler.around(request.caller.tenant)
    return bind_timer(compile_posted_timer(posted, default_zone=around.default_zone), around)


def read_moment(pointer: str, text: str, timer: Timer) -> int:
    """A posted moment, in the zone of the timer. Raises ApiProblem (422)."""
    try:
        return parse_time(text, timer.zone)
    except ExpressionError as error:
        raise invalid(pointer, error.code, error.full_message) from None


def _try(posted: TemplateRequest, surroundings: Surroundings, now: int) -> PreviewedTemplate:
    if posted.place != "body" and not isinstance(posted.template, str):
        message = f"template must be a string where place is {posted.place!r}; only a body is any JSON value"
        raise invalid("/template", "type", message)
    if posted.place in RULE_MEMBERS:
        return preview_rule(posted.place, posted.template, posted.root)
    if not isinstance(posted.root, dict):
        raise invalid("/root", "type", f"root must be an object where place is {posted.place!r}")
    preview = TemplatePreview(root=posted.root, surroundings=surroundings, now=now)
    if posted.place == "body":
        return preview.body(posted.template)
    return preview.url(posted.template) if posted.place == "url" else preview.header(posted.template)


def _failure(program: Program, code: str) -> Failure:
    """The failure with this code; a synchronous timeout raises `500`, of type timeout (SPEC section 5)."""
    if code != FailureType.TIMEOUT:
        return Failure(code, FailureType.HTTP)
    return Failure(code if program.asynchronous else "500", FailureType.TIMEOUT)


@ROUTES.add(
    "POST /definitions/check",
    Role.VIEWER,
    scopes=OF_JOBS,
    body=PostedBody(JobDefinition, openapi_examples.DEFINITIONS[0], required=True),
    query=(SOFT,),
    data=answers.CheckOrProblem,
    statuses=(409,),
    headers=("X-Service",),
    audit=Way.NONE,
)
async def check_definition(request: ApiRequest) -> Response:
    """Try a definition without creating anything: what is wrong with it, or what it would do."""
    return await softly(request, _check)


@ROUTES.add("GET /schemas/job", Role.VIEWER, scopes=OF_JOBS, data=dict)
async def show_definition_schema(request: ApiRequest) -> Response:
    """Read the JSON Schema (2020-12) of a definition, for forms and editors."""
    return succeed(definition_schema())


async def _check(request: ApiRequest) -> Response:
    raw = await request.body()
    checked = await check_posted(request.deps, raw, None, request.creator)
    program = checked.definition.program
    await check_reach(request, program)
    job = await request.deps.jobs.read(write_job_key(request.caller.tenant, checked.job_id))
    present = "" if job is None or job.document is None else job.document.head.owner
    if (refusal := refuse_ownerless(program, read_owner(request) or present)) is not None:
        raise refused(refusal)
    warnings = await warnings_today(request.deps, checked)
    now, count = request.deps.clock.now().wall, 0 if program.disabled else FIRINGS
    shown = preview(program.timer, anchor=now, count=count, language=request.language)
    data = {
        "jobId": checked.job_id,
        "kind": shown.kind,
        "timer": firing_preview(shown, shown.firings),
        "retryPlans": _plans(program),
        "existing": None if job is None else _compare(job, program),
    }
    return succeed(data, warnings=warnings)


def _plans(program: Program) -> list[dict[str, Any]]:
    """Of each policy one; together they have as many retries at most as one alone."""
    count = len(program.policies)
    return [_plan(program, index, most=PLANNED_MAX // count) for index in range(count)]


def _plan(program: Program, index: int, *, most: int) -> dict[str, Any]:
    errors = sorted(program.policies[index].errors)
    code = ANY_STATUS if errors[0] == "*" else errors[0].replace("xx", "00")
    return {"policy": index, "errors": errors, **write_plan(program, code, most=most)}


def _compare(job: Job, program: Program) -> dict[str, Any] | None:
    """The job that has this id, and whether this definition would change it."""
    if job.document is None:
        return None
    revision = job.document.head.revision
    return {"revision": revision, "isSame": job.programs[revision].fingerprint == program.fingerprint}


@ROUTES.add(
    "POST /timers/outlook",
    Role.VIEWER,
    scopes=OF_JOBS,
    body=PostedBody(OutlookRequest, openapi_examples.OUTLOOK, required=True),
    query=(SOFT,),
    data=answers.OutlookOrProblem,
    audit=Way.NONE,
)
async def show_outlook(request: ApiRequest) -> Response:
    """Show what a timer does over many days, without creating anything."""
    return await softly(request, _show_outlook)


async def _show_outlook(request: ApiRequest) -> Response:
    posted = read_model(OutlookRequest, await read_json_by_size(await request.body()))
    try:
        timer = _compile(request, posted.timer)
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
