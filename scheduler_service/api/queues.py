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
from scheduler_service.api.problems import ApiProblem, invalid, refuse
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.domain.execution import FailureType, write_execution_id
from scheduler_service.domain.leases import Leased
from scheduler_service.domain.moments import SECOND, Now, rfc3339
from scheduler_service.domain.parts import PartEnd
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.engine.parts.options import read_queue
from scheduler_service.language.values import as_json, parse_json
from scheduler_service.services.pull_queues import PullQueues

MOST_CLAIMED = 100
FAILED = "failed"
RESERVED = frozenset(
    {"cancelled", "check", "egress", "lease_lost", "lost", "no_instance", "partial", "template"}
)
"""Codes by which Punctual says what it met with itself; policies read some of them otherwise
(SPEC section 6)."""


async def claim(call: ApiRequest) -> Response:
    """`POST /queues/{name}/claim`: up to `max` items, waited for up to `waitSeconds`."""
    name, queues = call.path["name"], _queues(call.parts)
    if read_queue(f"queue://{name}") is None:
        text = "a queue's name is letters, digits, '.', '_' and '-'"
        raise invalid("/name", "pattern", f"{name[:80]!r} is none: {text}")
    _, value = await call.object()
    asked = read_model(Claim, value)
    if asked.max > MOST_CLAIMED:
        raise invalid("/max", "range", f"max {asked.max} is more than {MOST_CLAIMED}; claim again instead")
    tenant = call.parts.surroundings.tenant
    found = await _while_somebody_listens(
        call,
        queues.claim(
            tenant, name, asked.instance_id, most=asked.max, wait=round(asked.wait_seconds * SECOND)
        ),
    )
    now = call.parts.clock.now()
    return succeed({"items": [_item(one, now) for one in found]})


async def renew(call: ApiRequest) -> Response:
    """`POST /leases/{lease}/renew`: until when it goes on now, and whether anybody still wants the work."""
    lease, queues = call.path["lease"], _queues(call.parts)
    _, value = await call.object()
    said = read_model(Renewal, value)
    renewed = await queues.renew(lease, progress=said.progress, message=said.message)
    if renewed is None:
        raise _lost(lease)
    return succeed(
        {
            "leaseUntil": _wall(renewed.until, call.parts.clock.now()),
            "leaseSeconds": renewed.lease / SECOND,
            "renewSeconds": renewed.renew / SECOND,
            "cancelled": renewed.cancelled,
        }
    )


async def complete(call: ApiRequest) -> Response:
    """`POST /leases/{lease}/complete`: how the part ended; another end than before is 409 `lease_lost`."""
    lease, queues = call.path["lease"], _queues(call.parts)
    _, value = await call.object()
    said = read_model(Completion, value)
    if said.status == FAILED and said.error in RESERVED:
        text = f"error {said.error!r} is Punctual's own word; give a code of your own, or an HTTP status"
        raise invalid("/error", "reserved", text)
    if not await queues.complete(lease, _end(said, call.parts.clock.now().wall)):
        raise _lost(lease)
    return succeed(None)


async def _while_somebody_listens(
    call: ApiRequest, claiming: Coroutine[Any, Any, tuple[Leased, ...]]
) -> tuple[Leased, ...]:
    """What the claim brings. Whoever hangs up while it waits takes nothing. Raises ClientGone."""
    work = asyncio.ensure_future(claiming)
    gone = asyncio.ensure_future(_hang_up(call))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientGone
        return work.result()
    finally:
        gone.cancel()
        work.cancel()


async def _hang_up(call: ApiRequest) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass


def _queues(parts: ApiDependencies) -> PullQueues:
    if parts.queues is None:
        text = "the Dapr host has no pull queues; ask a scheduler on the embedded host"
        raise refuse(HTTPStatus.SERVICE_UNAVAILABLE, "", "not_available", text)
    return parts.queues


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


def _end(said: Completion, at: int) -> PartEnd:
    body = as_json(said.data) if "data" in said.model_fields_set else None
    if said.status != FAILED:
        return PartEnd(body=body, at=at)
    code = said.error or FAILED
    message = said.message or f"the instance reported {code}"
    kind = FailureType.BUSINESS
    return PartEnd(body=body, error=code, failure_type=kind, message=message, at=at)


def _lost(lease: str) -> ApiProblem:
    text = f"the lease {lease[:80]!r} has ended, was completed otherwise, or never was: stop working on it"
    return refuse(HTTPStatus.CONFLICT, "/lease", "lease_lost", text)
