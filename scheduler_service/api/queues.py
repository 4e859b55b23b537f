"""Pull queues: work claimed, leases renewed, parts completed (SPEC section 13)."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from client_sdk.models import Claim, Completion, HeldPartName, Renewal, answers
from scheduler_service.api import openapi_examples, parameters
from scheduler_service.api.audit_writing import Way
from scheduler_service.api.bodies import ClientGone, read_model
from scheduler_service.api.registrations import pause_members
from scheduler_service.api.request import OF_SERVICES, ApiRequest, PostedBody, Routes
from scheduler_service.api.request_room import WaitingLine
from scheduler_service.api.responses import ApiProblem, after_change, invalid, refuse, succeed
from scheduler_service.domain.execution import FailureType, parse_execution_id, write_execution_id
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.leases import (
    HeldPart,
    Leased,
    LeaseHolder,
    QueueFigures,
    QueueQuery,
    merge_figures,
)
from scheduler_service.domain.moments import SECOND, Now, rfc3339
from scheduler_service.domain.registered_services import Kind
from scheduler_service.domain.secret_places import Unfilled
from scheduler_service.domain.step_parts import PartEnd, PartName, write_part_id
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.engine.parts.step_options import read_queue
from scheduler_service.language.json_values import LARGE_BYTES, as_json, parse_json
from scheduler_service.language.value_masks import SecretMask
from scheduler_service.pacing.slices import Slices
from scheduler_service.persistence.common.pagination import mark_list, write_cursor
from scheduler_service.security.callers import Role
from scheduler_service.security.secrets import fill_request
from scheduler_service.services.pull_queues import Completed

ROUTES = Routes("queues")

MAX_CLAIMED = 100
_AS_IT_IS = msgspec.json.Decoder(msgspec.Raw)
FAILED = "failed"
RESERVED = frozenset(
    {
        "cancelled",
        "check",
        "egress",
        "instance_lost",
        "lease_lost",
        "lost",
        "no_instance",
        "partial",
        "queue_timeout",
        "template",
    }
)
"""Error codes that Punctual alone sets; retry policies treat some of them specially (SPEC section 6)."""


@ROUTES.add(
    "GET /queues",
    Role.VIEWER,
    scopes=OF_SERVICES,
    query=parameters.paging(),
    data=answers.Listing[answers.QueueLine],
)
async def list_queues(request: ApiRequest) -> Response:
    """List the queues in which parts wait or are held, and those that are paused, by name."""
    services, limit, tenant = request.deps.services, request.query["limit"], request.caller.tenant
    queues, mark = services.queues, mark_list("queues", tenant)
    after = request.place(mark)
    await services.registry.look()
    own = request.caller.service
    paused = [one.name for one in services.registry.pauses.all(Kind.QUEUE) if one.tenant == tenant]
    known = await queues.figures(QueueQuery(tenant, own, after, limit + 1))
    named = [QueueFigures(name) for name in paused if name > after and own in (None, name)]
    found = merge_figures([*known, *named], limit + 1)
    items = [_figures(request, one) for one in found[:limit]]
    place = write_cursor(mark, found[limit - 1].name) if len(found) > limit else None
    return succeed({"items": items, "nextCursor": place})


@ROUTES.add(
    "GET /queues/{name}",
    Role.VIEWER,
    scopes=OF_SERVICES,
    name="readQueue",
    query=parameters.paging(),
    data=answers.Queue,
    answer_line=WaitingLine.STATE,
)
async def read_queue_in_full(request: ApiRequest) -> Response:
    """Read a queue: its depth, and which instances hold its parts until when."""
    queues, limit, name = request.deps.services.queues, request.query["limit"], _read_name(request)
    tenant = request.caller.tenant
    mark = mark_list("held", tenant, name)
    after = request.place(mark)
    await request.deps.services.registry.look()
    found = await queues.held(QueueQuery(tenant, name, after, limit + 1))
    now = request.deps.clock.now()
    items = [_held(one, now) for one in found[:limit]]
    place = write_cursor(mark, found[limit - 1].part_id) if len(found) > limit else None
    return succeed({**await _show(request, name), "items": items, "nextCursor": place})


@ROUTES.add("POST /queues/{name}/pause", Role.OPERATOR, scopes=OF_SERVICES, data=answers.QueueLine)
async def pause_queue(request: ApiRequest) -> Response:
    """Pause a queue: nothing is claimed from it until it is resumed.

    It need not have had any part: a queue is there as soon as a step or a worker names it.
    """
    return await _change_pause(request, "pause", request.deps.services.registry.pause_queue)


@ROUTES.add("POST /queues/{name}/resume", Role.OPERATOR, scopes=OF_SERVICES, data=answers.QueueLine)
async def resume_queue(request: ApiRequest) -> Response:
    """Resume a queue: what waits in it may be claimed again."""

    async def resume(tenant: str, name: str) -> None:
        await request.deps.services.registry.catch_up()
        await request.deps.services.queues.resume(tenant, name)

    return await _change_pause(request, "resume", resume)


@ROUTES.add(
    "POST /queues/{name}/claim",
    Role.EDITOR,
    scopes=OF_SERVICES,
    by_service=True,
    body=PostedBody(Claim, openapi_examples.CLAIM, required=True),
    data=answers.Claimed,
    is_busy=True,
    audit=Way.NONE,
)
async def claim_work(request: ApiRequest) -> Response:
    """Claim up to `max` parts, waiting for them up to `waitSeconds`."""
    queues, name = request.deps.services.queues, _read_name(request)
    _, value = await request.json_object()
    posted = read_model(Claim, value)
    if posted.max > MAX_CLAIMED:
        raise invalid("/max", "range", f"max {posted.max} is more than {MAX_CLAIMED}; claim again instead")
    tenant, wait = request.caller.tenant, round(posted.wait_seconds * SECOND)
    claiming = queues.claim(tenant, name, posted.instance_id, most=posted.max, wait=wait)
    found = await _while_connected(request, claiming, queues.hand_back)
    now, slices, items = request.deps.clock.now(), Slices(), []
    security = request.deps.security
    for one in found:
        await slices.pause(len(one.part.request.body or b""))
        filled = fill_request(one.part.request, security.secrets)
        if one.part.request.at_send is not None:  # reports may have its values from now on
            security.secret_masks.of_request(one.part.request.at_send, security.secrets.find)
        if isinstance(filled, Unfilled):  # nobody can do it: it ends as an attempt that is sent ends
            kind = FailureType.TEMPLATE
            end = PartEnd(error=kind.value, failure_type=kind, message=filled.message, at=now.wall)
            await queues.complete(one.lease, end)
        else:
            items.append(_item(one, filled, now))
    return succeed({"items": items})


@ROUTES.add(
    "POST /leases/{lease}/renew",
    Role.EDITOR,
    scopes=OF_SERVICES,
    by_service=True,
    body=PostedBody(Renewal, openapi_examples.RENEWAL),
    data=answers.Renewed,
    statuses=(409,),
    is_busy=True,
    audit=Way.NONE,
)
async def renew_lease(request: ApiRequest) -> Response:
    """Renew the lease of claimed work, and read whether it is cancelled."""
    lease, queues = request.path["lease"], request.deps.services.queues
    _, value = await request.json_object()
    posted = read_model(Renewal, value)
    mask = request.secret_mask
    progress, message = mask.value(posted.progress), mask.value(posted.message)
    renewed = await queues.renew(lease, progress=progress, message=message, holder=_holder(request))
    if renewed is None:
        raise _lost(lease)
    return succeed(
        {
            "leaseUntil": _wall(renewed.until, request.deps.clock.now()),
            "leaseSeconds": renewed.lease / SECOND,
            "renewSeconds": renewed.renew / SECOND,
            "cancelled": renewed.cancelled,
        }
    )


@ROUTES.add(
    "POST /leases/{lease}/complete",
    Role.EDITOR,
    scopes=OF_SERVICES,
    by_service=True,
    body=PostedBody(Completion, openapi_examples.COMPLETION, required=True),
    statuses=(409,),
    is_busy=True,
    audit=Way.NONE,
)
async def complete_work(request: ApiRequest) -> Response:
    """Complete claimed work; 409 where that has no effect.

    `lease_lost`: the lease has ended, or had another end. `stale`: the job no longer waits for the part.
    """
    lease, queues = request.path["lease"], request.deps.services.queues
    _, value = await request.json_object()
    posted = read_model(Completion, value)
    if posted.status == FAILED and posted.error in RESERVED:
        text = f"error {posted.error!r} is a code of Punctual; give a code of your own, or an HTTP status"
        raise invalid("/error", "reserved", text)
    mask = request.secret_mask
    end = _end(posted, mask, request.deps.clock.now().wall)
    completed = await queues.complete(lease, end, _holder(request))
    if completed is Completed.LOST:
        raise _lost(lease)
    if completed is Completed.STALE:
        text = "the execution has ended, or this attempt of it: the completion has no effect"
        raise refuse(HTTPStatus.CONFLICT, "/lease", "stale", text)
    return succeed(None)


@ROUTES.add(
    "POST /queues/{name}/free",
    Role.OPERATOR,
    scopes=OF_SERVICES,
    body=PostedBody(HeldPartName, openapi_examples.FREEING, required=True),
    statuses=(404, 409),
)
async def free_part(request: ApiRequest) -> Response:
    """Take a part from the instance that holds it, so that others may claim it; 409 where none does."""
    queues, name = request.deps.services.queues, _read_name(request)
    _, value = await request.json_object()
    posted = read_model(HeldPartName, value)
    named = parse_execution_id(await request.execution_id(posted.execution_id))
    if named is None:
        text = f"{posted.execution_id[:80]!r} is no id of an execution; GET /queues/{name} shows them"
        raise invalid("/executionId", "invalid", text)
    part = PartName(*named, posted.request_counts, posted.step, posted.shard_index)
    if not await queues.free(request.caller.tenant, name, write_part_id(part)):
        text = f"nobody holds this part of the queue {name!r}; GET /queues/{name} lists those that are held"
        raise refuse(HTTPStatus.CONFLICT, "/executionId", "not_held", text)
    return succeed(None)


def show_body(body: bytes) -> object:
    """The body as JSON, or as a text where it is none. What is large is not decoded: it takes much more."""
    if len(body) > LARGE_BYTES:
        try:
            body.decode()
            return _AS_IT_IS.decode(body)
        except (ValueError, msgspec.MsgspecError, RecursionError):
            pass  # as with a byte order mark, or `NaN`
    return parse_json(body)


async def _change_pause(
    request: ApiRequest, verb: str, change: Callable[[str, str], Awaitable[None]]
) -> Response:
    name = _read_name(request)

    async def work() -> dict[str, object]:
        await change(request.caller.tenant, name)
        with after_change(f"{verb} of the queue {name!r} is done"):
            return await _show(request, name)

    return succeed(await request.run_once(f"queues/{name}/{verb}", await request.body(), work))


def _holder(request: ApiRequest) -> LeaseHolder:
    """Whose leases the caller may renew and complete: its tenant's, a service those of its own queue."""
    return LeaseHolder(request.caller.tenant, request.caller.service)


async def _while_connected(
    request: ApiRequest,
    claiming: Coroutine[Any, Any, tuple[Leased, ...]],
    hand_back: Callable[[tuple[Leased, ...]], None],
) -> tuple[Leased, ...]:
    """The claimed items. A caller that disconnects while it waits claims nothing, nor one whose key ends.

    Raises ClientGone, ApiProblem.
    """
    work = asyncio.ensure_future(claiming)
    gone = asyncio.ensure_future(request.disconnected())
    is_wanted = False
    try:
        async with request.watching():
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if is_wanted := not gone.done():
            return work.result()
    finally:
        gone.cancel()
        if not is_wanted and work.done():
            hand_back(work.result())
        work.cancel()
    raise ClientGone


def _read_name(request: ApiRequest) -> str:
    """The queue that the path names. Raises ApiProblem (422)."""
    name = request.path["name"]
    if read_queue(f"queue://{name}") is None:
        text = "use letters, digits, '.', '_' and '-'"
        raise invalid("/name", "pattern", f"{name[:80]!r} is not a queue's name; {text}")
    return name


async def _show(request: ApiRequest, name: str) -> dict[str, object]:
    """The figures of a queue, zeros where it has no parts."""
    found = await request.deps.services.queues.figures(QueueQuery(request.caller.tenant, name, "", 1))
    return _figures(request, *(found or [QueueFigures(name)]))


def _figures(request: ApiRequest, figures: QueueFigures) -> dict[str, object]:
    since = request.deps.services.registry.pauses.since(Kind.QUEUE, request.caller.tenant, figures.name)
    return {
        "name": figures.name,
        "depth": figures.depth,
        "oldestAt": None if figures.oldest is None else rfc3339(figures.oldest),
        "held": figures.held,
        **pause_members(since, request.deps.clock.now()),
    }


def _held(one: HeldPart, now: Now) -> dict[str, object]:
    """A leased part. Its lease is not shown: the lease is all that is needed to complete the part."""
    name = one.name
    return {
        "executionId": write_execution_id(name.uid, name.execute_number),
        "jobId": read_job_key(one.job_id)[1],
        "requestCounts": name.request_counts,
        "step": name.step,
        "shardIndex": name.index,
        "shardTotal": one.total,
        "instanceId": one.instance,
        "leaseUntil": _wall(one.until, now),
    }


def _item(leased: Leased, filled: OutboundRequest, now: Now) -> dict[str, object]:
    part = leased.part
    name = part.name
    return {
        "lease": leased.lease,
        "leaseUntil": _wall(leased.until, now),
        "leaseSeconds": part.options.lease / SECOND,
        "renewSeconds": part.options.renew / SECOND,
        "maxUnexpectedRetries": part.options.retries,
        "unexpectedRetryDelaySeconds": part.options.delay / SECOND,
        "executionId": write_execution_id(name.uid, name.execute_number),
        "requestCounts": name.request_counts,
        "request": _request(filled, leased.first_claim, now),
        "shardIndex": name.index,
        "shardTotal": part.total,
        "scheduledAt": rfc3339(part.scheduled_at),
        "cancelled": False,
    }


def _request(request: OutboundRequest, first: int | None, now: Now) -> dict[str, object]:
    """The request with until when its work is awaited; an earlier version did not keep that."""
    headers = {name: str(value) for name, value in request.headers}
    if request.awaited and first is not None:
        headers["X-Scheduling-Deadline"] = _wall(first + request.awaited, now)
    if not any(name.lower() == "traceparent" for name in headers):
        headers["traceparent"] = f"00-{request.trace}-{request.span or f'{os.urandom(8).hex()}-01'}"
    return {
        "method": request.method,
        "url": request.url,
        "headers": headers,
        "body": None if request.body is None else show_body(request.body),
    }


def _wall(steady: int, now: Now) -> str:
    return rfc3339(now.wall + steady - now.steady)


def _end(posted: Completion, mask: SecretMask, at: int) -> PartEnd:
    body = as_json(mask.value(posted.data)) if "data" in posted.model_fields_set else None
    if posted.status != FAILED:
        return PartEnd(body=body, at=at)
    code = mask.value(posted.error) or FAILED
    message = mask.value(posted.message) or f"the instance reported {code}"
    kind = FailureType.BUSINESS
    return PartEnd(body=body, error=code, failure_type=kind, message=message, at=at)


def _lost(lease: str) -> ApiProblem:
    text = f"the lease {lease[:80]!r} has ended, was completed otherwise, or never was: stop working on it"
    return refuse(HTTPStatus.CONFLICT, "/lease", "lease_lost", text)
