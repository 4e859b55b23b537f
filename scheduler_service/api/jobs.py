"""Jobs: create, read, list, update, pause, start again, trigger, destroy (SPEC section 10)."""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from client_sdk.models import Activation, JobDefinition, answers
from scheduler_service.api import openapi_examples, parameters
from scheduler_service.api.audit_writing import Way
from scheduler_service.api.bodies import read_json, read_model
from scheduler_service.api.definitions import (
    PostedDefinition,
    check_posted,
    warnings_today,
)
from scheduler_service.api.job_answers import job_in_full, list_lines
from scheduler_service.api.job_commands import (
    find_changes,
    find_sender,
    keep_creator,
    read_owner,
    run_command,
    run_command_once,
)
from scheduler_service.api.key_scopes import check_within
from scheduler_service.api.query_filters import JOB_FILTERS, job_query
from scheduler_service.api.request import OF_JOBS, ApiRequest, PostedBody, Routes
from scheduler_service.api.request_keys import wrong_token
from scheduler_service.api.request_room import WaitingLine
from scheduler_service.api.responses import ENCODER, ApiProblem, invalid, no_job, refused, succeed
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.execution import ExecutionState, JobState, write_execution_id
from scheduler_service.domain.job_key import DEFAULT_TENANT, is_trial, read_job_key
from scheduler_service.domain.moments import SECOND, rfc3339
from scheduler_service.domain.replies import Reactivated, Reply, Started, Taken
from scheduler_service.domain.turn_events import (
    Activated,
    Created,
    Destroyed,
    Event,
    FeedbackArrived,
    Paused,
    Triggered,
    Updated,
)
from scheduler_service.engine.compile import CALENDAR, UNKNOWN_CALENDAR
from scheduler_service.engine.compile_cache import read_members
from scheduler_service.engine.decide import OWN_JOB
from scheduler_service.engine.lifecycle import refuse_revision
from scheduler_service.hosts.work_thread import work_by_size
from scheduler_service.language.value_masks import NO_MASK
from scheduler_service.pacing.slices import Slices
from scheduler_service.persistence.common.pagination import Number, mark_list, read_cursor, write_cursor
from scheduler_service.ports.catalogue import CatalogueEntry, JobSort, Revision
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from scheduler_service.ports.state import Remembered
from scheduler_service.security.callers import Role
from scheduler_service.services.shared_calendars import find_name
from scheduler_service.timing.timer import missing_calendar

ROUTES = Routes("jobs")
MAX_DELAY_SECONDS = 315_360_000
MAX_PARTS = 100_000
SORTS = tuple(f"{sign}{sort}" for sort in JobSort for sign in ("", "-"))

EDIT_TRIES = 5
STATE_OF_RESET = {"failed": ExecutionState.TERMINATED, "succeeded": ExecutionState.SUCCEEDED}
PAGE_BYTES = 4 << 20
READ_AT_ONCE = 8


@ROUTES.add(
    "POST /jobs/{jobId}",
    Role.EDITOR,
    scopes=OF_JOBS,
    body=PostedBody(JobDefinition, openapi_examples.DEFINITION, required=True),
    data=answers.Job,
    success=(201, 200),
    statuses=(409,),
    headers=("X-Service",),
    is_busy=True,
    audit=Way.TURN,
)
async def create_job(request: ApiRequest) -> Response:
    """Create a job: 201; 200 where it exists with the same definition."""
    job_id = request.job_id
    raw = await request.body()
    posted = await check_posted(request.deps, raw, job_id, request.creator)
    check_within(request.caller, posted.definition.program)
    reply = await _create(request, raw, posted)
    warnings = await warnings_today(request.deps, posted)
    if not isinstance(reply, Taken):
        data, headers = await _show_after(request, request.job_key)
        warnings = (*warnings, *_warn_of_active(posted.active, data.get("state")))
        return succeed(data, headers, warnings=warnings)
    data, headers = await _show_after(request, request.job_key, text=posted.definition.text)
    headers = {"location": f"/jobs/{job_id}"} | headers
    return succeed(data, headers, status=HTTPStatus.CREATED, warnings=warnings)


def _warn_of_active(active: bool | None, state: object) -> Iterator[Problem]:
    """An `active` that a job which is there does not follow: definitions are compared without it."""
    if active is None or state is None or active is not (state == JobState.PAUSED):
        return
    way = f"PUT /jobs/{{jobId}}?active={int(active)}"
    text = f"the job is there with this definition, and stays {state}; {way} changes that"
    yield Problem("/active", "active_ignored", text)


@ROUTES.add(
    "GET /jobs/{jobId}",
    Role.VIEWER,
    scopes=OF_JOBS,
    data=answers.Job,
    statuses=(404,),
    answer_line=WaitingLine.STATE,
)
async def read_job(request: ApiRequest) -> Response:
    """Read a job; its ETag is the revision."""
    entry = await find_job(request, request.job_key)
    return succeed(await _in_full(request, entry), _tag(entry))


@ROUTES.add(
    "GET /jobs",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=(
        *JOB_FILTERS,
        parameters.choice("sort", "By what; with a minus sign from the end.", SORTS, "jobId"),
        parameters.flag("timers", "Each job's timer in words too.", default=False),
        parameters.flag("definitions", "Each job's definition too.", default=False),
        *parameters.paging(),
    ),
    data=answers.Listing[answers.JobLine],
    answer_line=WaitingLine.STATE,
)
async def list_jobs(request: ApiRequest) -> Response:
    """List jobs."""
    filters = request.query
    query = msgspec.structs.replace(
        job_query(request.caller, filters),
        sort=JobSort(filters["sort"].removeprefix("-")),
        descending=filters["sort"].startswith("-"),
        limit=filters["limit"],
        cursor=filters["cursor"],
    )
    return succeed(await list_lines(request, query, await request.deps.catalogue.list(query)))


@ROUTES.add(
    "POST /jobs/{jobId}/update",
    Role.EDITOR,
    scopes=OF_JOBS,
    body=PostedBody(JobDefinition, openapi_examples.DEFINITION, required=True),
    data=answers.Job,
    statuses=(404, 412),
    headers=("If-Match", "X-Service"),
    audit=Way.TURN,
)
async def update_job(request: ApiRequest) -> Response:
    """Replace a job's definition, unless `If-Match` names another revision, and schedule it anew."""
    job_id = request.job_id
    raw = await request.body()
    by = await find_sender(request, request.job_key)
    posted = await check_posted(request.deps, raw, job_id, by)
    posted = await keep_creator(request, request.job_key, raw, posted, by)
    check_within(request.caller, posted.definition.program)
    owner = read_owner(request) or None
    event = Updated(revision=0, active=posted.active, if_match=request.if_match, owner=owner)
    remembered = request.remembered(f"jobs/{job_id}/update", raw)
    act = request.act(await find_changes(request, request.job_key, posted.definition.text))
    await run_command(request, request.job_key, Command(event, posted.definition, remembered, act=act))
    warnings = await warnings_today(request.deps, posted)
    return succeed(*await _show_after(request, request.job_key), warnings=warnings)


@ROUTES.add(
    "PUT /jobs/{jobId}",
    Role.OPERATOR,
    scopes=OF_JOBS,
    query=(
        parameters.flag("active", "0: take it offline; 1: start it again from now."),
        parameters.flag("disabled", "true: nothing of it runs any more; false: it runs again as planned."),
        parameters.flag("drain", "Let live executions end by themselves.", default=False),
        parameters.choice(
            "misfire",
            "How to treat the firings missed in the pause.",
            ("skip", "fire_once", "fire_all"),
            "skip",
        ),
    ),
    body=PostedBody(Activation, {"active": 0}),
    data=answers.Job,
    statuses=(404, 412),
    headers=("If-Match",),
    audit=Way.TURN,
)
async def switch_job(request: ApiRequest) -> Response:
    """Pause, resume, disable or enable a job, unless `If-Match` names another revision."""
    query, (name, value), meant = request.query, await _read_switch(request), request.if_match
    if name == "disabled":
        await edit_definition(
            request, request.job_key, name, lambda old: value or (old and False), if_match=meant
        )
        return succeed(*await _show_after(request, request.job_key))
    event: Event = (
        Activated(misfire=query["misfire"], if_match=meant)
        if value
        else Paused(drain=bool(query["drain"]), if_match=meant)
    )
    act = request.act({"given": {"active": int(value)}})
    reply = await run_command(request, request.job_key, Command(event, act=act))
    data, headers = await _show_after(request, request.job_key)
    return succeed(data | ({"missed": reply.missed} if isinstance(reply, Reactivated) else {}), headers)


@ROUTES.add(
    "DELETE /jobs/{jobId}",
    Role.EDITOR,
    scopes=OF_JOBS,
    data=answers.Destroyed,
    statuses=(404, 412),
    headers=("If-Match",),
    audit=Way.TURN,
)
@ROUTES.add(
    "DELETE /job/{jobId}",
    Role.EDITOR,
    scopes=OF_JOBS,
    name="destroyJobBySourcePath",
    data=answers.Destroyed,
    statuses=(404, 412),
    headers=("If-Match",),
    audit=Way.TURN,
)
async def destroy_job(request: ApiRequest) -> Response:
    """Destroy a job, unless `If-Match` names another revision; its history stays until it is cleaned."""
    job_id = request.job_id
    await run_command(request, request.job_key, Command(Destroyed(if_match=request.if_match)))
    return succeed({"jobId": job_id, "state": JobState.DESTROYED})


@ROUTES.add(
    "POST /jobs/{jobId}/trigger",
    Role.OPERATOR,
    scopes=OF_JOBS,
    query=(
        parameters.number("delaySeconds", "Delay in seconds.", high=MAX_DELAY_SECONDS),
        parameters.moment("at", "At this moment."),
        parameters.choice(
            "reset",
            "With a known Idempotency-Key: start it afresh if it ended like this.",
            ("failed", "succeeded"),
        ),
    ),
    body=PostedBody(dict, openapi_examples.PARAMETERS),
    data=answers.Triggered,
    statuses=(404, 429),
    is_busy=True,
    audit=Way.TURN,
)
async def trigger_job(request: ApiRequest) -> Response:
    """Start one execution, now or later; under a known Idempotency-Key show that execution."""
    job_id = request.job_id
    raw = await request.json_text()
    event = Triggered(params=raw, planned_at=_planned_at(request), trace=request.trace)
    remembered = request.remembered(f"jobs/{job_id}/trigger", raw)
    if remembered is None and request.query["reset"] is not None:
        raise invalid("/reset", "no_key", "reset starts a known execution afresh; send its Idempotency-Key")
    if remembered is None:
        return show_started(await run_command(request, request.job_key, Command(event)))
    # The query is when and how, not what: a key is one trigger whatever the query (SPEC section 10).
    remembered = msgspec.structs.replace(remembered, digest=sha256(raw).digest())
    return show_started(await _trigger_once(request, job_id, event, remembered))


async def find_job(request: ApiRequest, job_key: str, *, or_destroyed: bool = False) -> CatalogueEntry:
    """The catalogue entry of the caller's job. Raises ApiProblem (404), StoreUnavailable."""
    entry = await request.deps.catalogue.get(job_key)
    if entry is None or entry.tenant != request.caller.tenant:
        raise no_job(job_key)
    if entry.state is JobState.DESTROYED and not or_destroyed:
        raise no_job(job_key)
    return entry


async def read_definition(request: ApiRequest, entry: CatalogueEntry) -> bytes:
    """The text of the job's present definition. Raises StoreUnavailable."""
    text = await request.deps.store.definition(entry.uid, entry.revision)
    if text is None:
        missing = f"revision {entry.revision} of the job {entry.job_id!r} is not in the store"
        raise StoreUnavailable(missing, is_public=True)
    return text


async def edit_definition(
    request: ApiRequest,
    job_key: str,
    name: str,
    change: Callable[[Any], object],
    remembered: Remembered | None = None,
    if_match: frozenset[int] | None = None,
) -> None:
    """Gives the member `name` of the job's definition the value that `change` makes of the present one.

    The schedule stays as it is, and the rest is not judged anew. An equal value makes no new revision. Under
    `remembered` it is done once. Raises ApiProblem (404; 409: a system job; 412: always changed meanwhile, or
    at no revision of `if_match`), StoreError.
    """
    for tries_left in reversed(range(EDIT_TRIES)):
        entry = await find_job(request, job_key)
        if entry.system and not is_trial(job_key, entry.parent_job):
            raise refused(OWN_JOB)
        members = read_members(await read_definition(request, entry)) or {}
        before = msgspec.json.decode(members.get(name, b"null"))
        if (refusal := refuse_revision(entry.revision, if_match)) is not None:
            raise refused(refusal)
        if (after := change(before)) == before:
            return
        text = ENCODER.encode(members | {name: after})
        definition = Definition(text, await request.deps.definitions.compiler.stored(text, entry.tenant))
        event = Updated(revision=0, if_match=frozenset({entry.revision}), keeps_schedule=True)
        found = request.deps.security.masking.changes({name: before}, {name: after}, request.secret_mask)
        changes = found | {"fromRevision": entry.revision}
        try:
            act = request.act(changes)
            await run_command(request, job_key, Command(event, definition, remembered, act=act))
            return
        except ApiProblem as problem:
            if problem.status is not HTTPStatus.PRECONDITION_FAILED or not tries_left:
                raise


def show_started(reply: Reply) -> Response:
    """The execution that a trigger or a replay started."""
    assert isinstance(reply, Started)
    execution_id = write_execution_id(reply.uid, reply.execute_number)
    data = {"executionId": execution_id, "executeNumber": reply.execute_number, "state": reply.state}
    return succeed(data, {"location": f"/executions/{execution_id}"})


async def _create(request: ApiRequest, raw: bytes, posted: PostedDefinition) -> Reply:
    """The reply to a creation; a job by another caller, who is not named in `raw` either, is the same."""
    remembered = request.remembered(f"jobs/{request.job_id}", raw)
    event = Created(uid="", key=b"", owner=read_owner(request))
    try:
        return await run_command(request, request.job_key, Command(event, posted.definition, remembered))
    except ApiProblem as problem:
        if problem.status is not HTTPStatus.CONFLICT:
            raise
        kept = await keep_creator(request, request.job_key, raw, posted)
        if kept is posted:
            raise
    return await run_command(request, request.job_key, Command(event, kept.definition, remembered))


async def _show_after(
    request: ApiRequest, job_key: str, text: bytes | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Data and headers for a job after a turn; `text` is its definition, if it was created with that.

    The turn is committed: where the job cannot be read, the answer is shorter.
    """
    try:
        entry = request.deps.jobs.peek(job_key) or await request.deps.catalogue.get(job_key)
        if entry is not None and entry.state is not JobState.DESTROYED:
            known = text if entry.revision == 1 else None
            return await _in_full(request, entry, known), _tag(entry)
    except StoreError:
        pass
    return {"jobId": read_job_key(job_key)[1]}, {}


async def _in_full(request: ApiRequest, entry: CatalogueEntry, text: bytes | None = None) -> dict[str, Any]:
    """The job in its wire form; `text` is its definition, if that is known. Raises StoreError."""
    text = text or await read_definition(request, entry)
    reason = await _read_pause_reason(request, entry)
    parts = request.deps.definitions
    unfit = parts.find_problem(await parts.compiler.stored(text, entry.tenant))
    unfit = unfit or _find_missing_calendar(request, entry, text)
    options, mask = parts.compiler.options(entry.tenant), request.secret_mask
    shown = await work_by_size(len(text), lambda: request.shown(text))
    return job_in_full(entry, text, options, shown=shown, pause_reason=reason, unfit=unfit, mask=mask)


def _find_missing_calendar(request: ApiRequest, entry: CatalogueEntry, text: bytes) -> Problem | None:
    """What is said of a job whose calendar is not there (any more)."""
    name, calendars = find_name(text), request.deps.definitions.calendars
    if name is None or calendars.get(entry.tenant, name) is not None:
        return None
    return Problem(CALENDAR, UNKNOWN_CALENDAR, missing_calendar(name))


async def _read_pause_reason(request: ApiRequest, entry: CatalogueEntry) -> str | None:
    """Why the job is paused: that is in its document, not in the catalogue. Raises StoreError."""
    if entry.state is not JobState.PAUSED:
        return None
    job = await request.deps.jobs.read(entry.job_id)
    if job is None or job.document is None or job.document.head.uid != entry.uid:
        return None
    return job.document.head.pause_reason


def _tag(entry: CatalogueEntry) -> dict[str, str]:
    return {"etag": f'"{entry.revision}"'}


async def _read_switch(request: ApiRequest) -> tuple[str, bool]:
    """`active` or `disabled` with its value, from the query or the body."""
    raw = await request.body()
    posted = read_model(Activation, read_json(raw)) if raw else Activation()
    found: list[tuple[str, bool]] = []
    for name in ("active", "disabled"):
        in_query, in_body = request.query[name], getattr(posted, name)
        if in_query is not None and in_body is not None and in_query != in_body:
            message = f"the query and the body have different values of {name}"
            raise invalid(f"/{name}", "contradiction", message)
        if (value := in_query if in_body is None else in_body) is not None:
            found.append((name, bool(value)))
    if len(found) > 1:
        raise invalid("/disabled", "contradiction", "give active or disabled, a request for each")
    if not found:
        message = "give active=0 or active=1 (or disabled=true or false), in the query or in the body"
        raise invalid("/active", "required", message)
    return found[0]


def _planned_at(request: ApiRequest) -> int | None:
    delay, at = request.query["delaySeconds"], request.query["at"]
    if delay is not None and at is not None:
        raise invalid("/at", "contradiction", "give delaySeconds or at, not both")
    if delay is None:
        return int(at) if at is not None else None
    return request.deps.clock.now().wall + round(float(delay) * SECOND)


async def _trigger_once(request: ApiRequest, job_id: str, event: Triggered, remembered: Remembered) -> Reply:
    """The key's execution, the newest where it was started afresh.

    With `reset`, one with that end is started afresh, under a key derived from it.
    """
    turn = await run_command_once(request, request.job_key, Command(event, remembered=remembered))
    reset = request.query["reset"]
    followed = {remembered.key}
    while turn.is_recalled:
        known = turn.reply
        if not isinstance(known, Started):
            break
        key = f"{remembered.key}\n{write_execution_id(known.uid, known.execute_number)}"
        if key in followed:
            break
        may_be_last = reset is None or known.state is not STATE_OF_RESET[reset]
        if may_be_last and await request.deps.store.recall(remembered.scope, key, remembered.since) is None:
            break  # it was not started afresh
        followed.add(key)
        following = msgspec.structs.replace(remembered, key=key)
        turn = await run_command_once(request, request.job_key, Command(event, remembered=following))
    return turn.reply


@ROUTES.add(
    "POST /jobs/{jobId}/feedback/{requestCounts}",
    Role.VIEWER,
    query=(
        parameters.text("token", "The token of the feedback URL."),
        parameters.integer("shard", "The part of the step that reports, from 0.", low=0, high=MAX_PARTS),
        parameters.text("tenant", "The job's tenant, as the feedback URL names it.", example=DEFAULT_TENANT),
    ),
    body=PostedBody(dict, openapi_examples.FEEDBACK, required=True),
    statuses=(403, 404, 409, 429),
    is_open=True,
    is_busy=True,
    audit=Way.NONE,
)
async def report_feedback(request: ApiRequest) -> Response:
    """Report the progress or the end of an attempt, with the token of its feedback URL."""
    job_id, request_counts = request.job_id, request.number("requestCounts")
    token, shard = request.query["token"] or "", request.query["shard"]
    deps = request.deps
    # Whoever sends this: the token alone decides, and it is one of a job of this tenant.
    request.caller = msgspec.structs.replace(request.caller, tenant=request.query["tenant"] or DEFAULT_TENANT)
    try:
        await deps.feedback_keys.check(request.job_key, request_counts, token)
    except ApiProblem:
        authentication = deps.security.authentication
        if authentication.has_key_of(request.scope, request.caller.tenant):
            raise
        # Strangers do not learn which jobs exist.
        authentication.count_wrong_key(request.scope, "token")
        raise wrong_token(request_counts) from None
    raw = await request.body(deps.limits.feedback_bytes)
    mask = deps.security.secret_masks.of_tenant(read_job_key(request.job_key)[0]) or NO_MASK
    report = mask.value(read_json(raw))
    event = FeedbackArrived(request_counts, token, report, shard, request.trace)
    remembered = request.remembered(f"jobs/{job_id}/feedback/{request_counts}", raw)
    await run_command(request, request.job_key, Command(event, remembered=remembered))
    return succeed(None)


@ROUTES.add(
    "GET /jobs/{jobId}/revisions",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=parameters.paging(),
    data=answers.Listing[answers.RevisionLine],
    statuses=(404,),
    answer_line=WaitingLine.STATE,
)
async def list_revisions(request: ApiRequest) -> Response:
    """List the definitions of a job's present or last life, in order."""
    entry = await find_job(request, request.job_key, or_destroyed=True)
    limit, cursor = request.query["limit"], request.query["cursor"]
    mark = mark_list("revisions", entry.uid)
    after = 0 if cursor is None else read_cursor(mark, cursor, Number)
    found, has_more = await _read_revisions(request, entry.uid, after, limit)
    slices, items = Slices(), list[dict[str, object]]()
    for one in found:
        await slices.pause(len(one.text))
        line = {"revision": one.revision, "createdAt": rfc3339(one.created_at)}
        items.append(line | {"definition": request.shown(one.text)})
    more = write_cursor(mark, found[-1].revision) if has_more else None
    return succeed({"items": items, "nextCursor": more})


async def _read_revisions(
    request: ApiRequest, uid: str, after: int, limit: int
) -> tuple[Sequence[Revision], bool]:
    """Up to `limit` revisions above `after`, and whether there are more.

    A page ends early where it has `PAGE_BYTES` of definitions: read by a few, they are never all in memory.
    """
    found: list[Revision] = []
    size = 0
    while True:
        wanted = min(limit - len(found) + 1, READ_AT_ONCE)
        read = await request.deps.catalogue.revisions(uid, after=after, limit=wanted)
        for one in read:
            if len(found) == limit or (found and size + len(one.text) > PAGE_BYTES):
                return found, True
            found.append(one)
            size += len(one.text)
        if len(read) < wanted:
            return found, False
        after = found[-1].revision
