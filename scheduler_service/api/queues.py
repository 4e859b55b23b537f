"""Pull queues: work claimed, leases renewed, parts completed (SPEC section 13)."""

import asyncio
import os
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from client_sdk.models import Claim, Completion, Renewal
from scheduler_service.api.bodies import ClientGone, read_model
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import ApiProblem, invalid, refuse, succeed
from scheduler_service.domain.execution import FailureType, write_execution_id
from scheduler_service.domain.leases import Leased
from scheduler_service.domain.moments import SECOND, Now, rfc3339
from scheduler_service.domain.parts import PartEnd
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.engine.parts.options import read_queue
from scheduler_service.language.values import as_json, parse_json
from scheduler_service.services.pull_queues import PullQueues

MAX_CLAIMED = 100
FAILED = "failed"
RESERVED = frozenset(
    {"cancelled", "check", "egress", "lease_lost", "lost", "no_instance", "partial", "template"}
)
"""Error codes that Punctual alone sets; retry policies treat some of them specially (SPEC section 6)."""


async def claim_work(request: ApiRequest) -> Response:
    """`POST /queues/{name}/claim`: up to `max` items, after a wait of at most `waitSeconds`."""
    name, queues = request.path["name"], _queues(request.deps)
    if read_queue(f"queue://{name}") is None:
        text = "use letters, digits, '.', '_' and '-'"
        raise invalid("/name", "pattern", f"{name[:80]!r} is not a queue's name; {text}")
    _, value = await request.json_object()
    posted = read_model(Claim, value)
    if posted.max > MAX_CLAIMED:
        raise invalid("/max", "range", f"max {posted.max} is more than {MAX_CLAIMED}; claim again instead")
    tenant, wait = request.caller.tenant, round(posted.wait_seconds * SECOND)
    claiming = queues.claim(tenant, name, posted.instance_id, most=posted.max, wait=wait)
    found = await _while_connected(request, claiming)
    now = request.deps.clock.now()
    return succeed({"items": [_item(one, now) for one in found]})


async def renew_lease(request: ApiRequest) -> Response:
    """`POST /leases/{lease}/renew`: its new end, and whether the work is cancelled."""
    lease, queues = request.path["lease"], _queues(request.deps)
    _, value = await request.json_object()
    posted = read_model(Renewal, value)
    renewed = await queues.renew(lease, progress=posted.progress, message=posted.message)
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


async def complete_work(request: ApiRequest) -> Response:
    """`POST /leases/{lease}/complete`: the end of the part; a second, different end is 409 `lease_lost`."""
    lease, queues = request.path["lease"], _queues(request.deps)
    _, value = await request.json_object()
    posted = read_model(Completion, value)
    if posted.status == FAILED and posted.error in RESERVED:
        text = f"error {posted.error!r} is a code of Punctual; give a code of your own, or an HTTP status"
        raise invalid("/error", "reserved", text)
    if not await queues.complete(lease, _end(posted, request.deps.clock.now().wall)):
        raise _lost(lease)
    return succeed(None)


async def _while_connected(
    request: ApiRequest, claiming: Coroutine[Any, Any, tuple[Leased, ...]]
) -> tuple[Leased, ...]:
    """The claimed items. A caller that disconnects while it waits claims nothing. Raises ClientGone."""
    work = asyncio.ensure_future(claiming)
    gone = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientGone
        return work.result()
    finally:
        gone.cancel()
        work.cancel()


async def _disconnect(request: ApiRequest) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _queues(deps: ApiDependencies) -> PullQueues:
    if deps.queues is None:
        text = "the Dapr host has no pull queues; ask a scheduler on the embedded host"
        raise refuse(HTTPStatus.SERVICE_UNAVAILABLE, "", "not_available", text)
    return deps.queues


def _item(leased: Leased, now: Now) -> dict[str, object]:
    part = leased.part
    name = part.name
    return {
        "lease": leased.lease,
        "leaseUntil": _wall(leased.until, now),
        "leaseSeconds": part.options.lease / SECOND,
        "renewSeconds": part.options.renew / SECOND,
        "executionId": write_execution_id(name.uid, name.execute_number),
        "requestCounts": name.request_counts,
        "request": _request(part.request),
        "shardIndex": name.index,
        "shardTotal": part.total,
        "scheduledAt": rfc3339(part.scheduled_at),
        "cancelled": False,
    }


def _request(request: OutboundRequest) -> dict[str, object]:
    headers = dict(request.headers)
    if not any(name.lower() == "traceparent" for name in headers):
        headers["traceparent"] = f"00-{request.trace}-{os.urandom(8).hex()}-01"
    return {
        "method": request.method,
        "url": request.url,
        "headers": headers,
        "body": None if request.body is None else parse_json(request.body),
    }


def _wall(steady: int, now: Now) -> str:
    return rfc3339(now.wall + steady - now.steady)


def _end(posted: Completion, at: int) -> PartEnd:
    body = as_json(posted.data) if "data" in posted.model_fields_set else None
    if posted.status != FAILED:
        return PartEnd(body=body, at=at)
    code = posted.error or FAILED
    message = posted.message or f"the instance reported {code}"
    kind = FailureType.BUSINESS
    return PartEnd(body=body, error=code, failure_type=kind, message=message, at=at)


def _lost(lease: str) -> ApiProblem:
    text = f"the lease {lease[:80]!r} has ended, was completed otherwise, or never was: stop working on it"
    return refuse(HTTPStatus.CONFLICT, "/lease", "lease_lost", text)
