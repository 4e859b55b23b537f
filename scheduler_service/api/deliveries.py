"""Notifications on their way, and the outbox (SPEC section 7)."""

import contextlib
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from starlette.responses import Response

from scheduler_service.api.job_commands import run_once
from scheduler_service.api.problems import absent, refuse
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.persistence.history.queries import DeliveryQuery
from scheduler_service.ports.errors import StoreError


async def list_all(call: ApiRequest) -> Response:
    """`GET /deliveries`, the newest first."""
    query = DeliveryQuery(
        tenant=call.parts.surroundings.tenant,
        job_id=call.query["jobId"],
        state=call.query["state"],
        event=call.query["event"],
        limit=call.query["limit"],
        cursor=call.query["cursor"],
    )
    return succeed((await call.parts.history.deliveries(query)).wire())


async def resend(call: ApiRequest) -> Response:
    """`POST /deliveries/{deliveryId}/resend`: one more try now."""
    return await _ask(call, "resend", call.parts.courier.resend)


async def dismiss(call: ApiRequest) -> Response:
    """`POST /deliveries/{deliveryId}/dismiss`: it is not sent any more."""
    return await _ask(call, "dismiss", call.parts.courier.dismiss)


async def _ask(call: ApiRequest, what: str, courier: Callable[[str], Awaitable[bool]]) -> Response:
    delivery_id = call.path["deliveryId"]
    raw, _ = await call.object()

    async def work() -> object:
        if not await courier(delivery_id):
            await _refuse(call, delivery_id)
        with contextlib.suppress(StoreError):  # lists show it at once (SPEC section 10), if they can
            await call.parts.flush()
        return {"deliveryId": delivery_id}

    remembered = call.remembered(f"deliveries/{delivery_id[:255]}/{what}", raw)
    return succeed(await run_once(call.parts, remembered, work))


async def _refuse(call: ApiRequest, delivery_id: str) -> None:
    found = await call.parts.history.delivery(call.parts.surroundings.tenant, delivery_id)
    if found is None:
        raise absent("/deliveryId", f"there is no delivery {delivery_id[:200]!r}")
    message = f"the delivery {delivery_id!r} is {found['state']}: it waits for nothing any more"
    raise refuse(HTTPStatus.CONFLICT, "/deliveryId", "conflict", message)
