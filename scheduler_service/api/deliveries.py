"""Notifications: the list, and commands on pending ones (SPEC section 7)."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from msgspec.structs import replace
from starlette.responses import Response

from client_sdk.models import answers
from scheduler_service.api import parameters
from scheduler_service.api.key_scopes import as_seen, sees
from scheduler_service.api.query_filters import DELIVERY_FILTERS, delivery_query
from scheduler_service.api.request import BEHIND, OF_JOBS, ApiRequest, PostedBody, Routes
from scheduler_service.api.request_room import WaitingLine
from scheduler_service.api.responses import ApiProblem, absent, refuse, succeed
from scheduler_service.domain.execution import DeliveryState, parse_execution_id
from scheduler_service.domain.job_key import write_job_key
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.security.callers import Role

ROUTES = Routes("deliveries")
_OVER = "not pending any more"
_NOT_KEPT = "what was to be sent is not kept any more: replay the execution"
_LOST = (
    "was lost with the process that had it, so it cannot be sent again: dismiss it, and replay the "
    "execution; or another node has it"
)
_ELSEWHERE = "another node has it: ask that one"


@ROUTES.add(
    "GET /deliveries",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=(*DELIVERY_FILTERS, *parameters.paging()),
    data=answers.Listing[answers.DeliveryLine],
    answer_line=WaitingLine.HISTORY,
)
async def list_deliveries(request: ApiRequest) -> Response:
    """List notifications, the newest first."""
    query = replace(
        await delivery_query(request), limit=request.query["limit"], cursor=request.query["cursor"]
    )
    behind = await request.catch_up(query.job_id)
    page = await request.deps.history.deliveries(query)
    items = [await as_seen(request, one) for one in page.items]
    return succeed({**page.wire(), "items": items}, warnings=behind)


@ROUTES.add(
    "POST /deliveries/{deliveryId}/resend",
    Role.OPERATOR,
    scopes=OF_JOBS,
    body=PostedBody(dict),
    data=answers.DeliveryRef,
    statuses=(404, 409),
)
async def resend_delivery(request: ApiRequest) -> Response:
    """Try a notification again now."""
    return await _run(request, "resend", request.deps.jobs.resend, _LOST)


@ROUTES.add(
    "POST /deliveries/{deliveryId}/dismiss",
    Role.OPERATOR,
    scopes=OF_JOBS,
    body=PostedBody(dict),
    data=answers.DeliveryRef,
    statuses=(404, 409),
)
async def dismiss_delivery(request: ApiRequest) -> Response:
    """Give up a notification."""
    return await _run(request, "dismiss", request.deps.jobs.dismiss, _ELSEWHERE)


async def _run(
    request: ApiRequest, verb: str, command: Callable[[str], Awaitable[bool]], pending: str
) -> Response:
    """`pending`: why it is not done where the delivery is pending all the same."""
    delivery_id = request.path["deliveryId"]
    raw, _ = await request.json_object()

    async def work() -> object:
        await _check_own(request, delivery_id)
        if not await command(write_job_key(request.caller.tenant, delivery_id)):
            reasons = {DeliveryState.PENDING: pending, DeliveryState.FAILED: _NOT_KEPT}
            raise await _not_pending(request, delivery_id, reasons)
        await request.catch_up()  # for reads at another node
        return {"deliveryId": delivery_id}

    return succeed(await request.run_once(f"deliveries/{delivery_id[:255]}/{verb}", raw, work))


async def _check_own(request: ApiRequest, delivery_id: str) -> None:
    """Raises ApiProblem (404) where the caller does not see its job, StoreError.

    Of a job that has gone the delivery itself says whose it is, where the command is carried out.
    """
    caller, execution = request.caller, parse_execution_id(delivery_id.rpartition("-")[0])
    entry = None if execution is None else await request.deps.catalogue.find(execution[0])
    is_own = not caller.is_narrow if entry is None else sees(caller, entry)
    if not is_own or "|" in delivery_id:  # which stands behind a tenant, in no id
        raise _absent(delivery_id)


async def _not_pending(
    request: ApiRequest, delivery_id: str, reasons: Mapping[DeliveryState, str]
) -> ApiProblem:
    is_behind = bool(await request.catch_up())
    found = await request.deps.history.delivery(request.caller.tenant, delivery_id)
    if found is None:
        return _absent(delivery_id)
    state = DeliveryState(str(found["state"]))
    if is_behind and state is DeliveryState.PENDING:
        raise StoreUnavailable(BEHIND.message, is_public=True)
    message = f"the delivery {delivery_id!r} is {state.value}, and {reasons.get(state, _OVER)}"
    return refuse(HTTPStatus.CONFLICT, "/deliveryId", "conflict", message)


def _absent(delivery_id: str) -> ApiProblem:
    return absent("/deliveryId", f"there is no delivery {delivery_id[:200]!r}")
