"""The audit: who changed what, from where and with which key (SPEC section 14)."""

from starlette.responses import Response

from client_sdk.models import answers
from scheduler_service.api import parameters
from scheduler_service.api.request import ApiRequest, Routes
from scheduler_service.api.request_room import WaitingLine
from scheduler_service.api.responses import invalid, succeed
from scheduler_service.domain.audit_acts import OwnAct
from scheduler_service.ports.audit import AuditQuery
from scheduler_service.security.callers import Role

ROUTES = Routes("operation")
OWN_ACTS = frozenset(act.value for act in OwnAct)


@ROUTES.add(
    "GET /audit",
    Role.ADMIN,
    query=(
        parameters.moment("from", "At this moment or later."),
        parameters.moment("to", "At this moment or earlier."),
        parameters.text("who", "Only by this one: the name of a key, or `system`."),
        parameters.text("key", "Only with the key of this id."),
        parameters.text(
            "operation",
            f"Only by this operation, as `updateJob`, or by {', '.join(f'`{act}`' for act in OwnAct)}.",
            example="updateJob",
        ),
        parameters.text("jobId", "Only of this job."),
        parameters.text("service", "Only of this service, or for it."),
        *parameters.paging(),
    ),
    data=answers.Listing[answers.AuditLine],
    answer_line=WaitingLine.HISTORY,
)
async def list_audit(request: ApiRequest) -> Response:
    """List what was changed, the newest first: by whom, from where, with which key, and the difference."""
    asked = request.query
    _check_operation(asked["operation"], OWN_ACTS | request.scope["app"].state.audited)
    query = AuditQuery(
        tenant=request.caller.tenant,
        since=asked["from"],
        until=asked["to"],
        who=asked["who"],
        key_id=asked["key"],
        operation=asked["operation"],
        job_id=asked["jobId"],
        service=asked["service"],
        limit=asked["limit"],
        cursor=asked["cursor"],
    )
    behind = await request.catch_up()
    items, following = await request.deps.security.audit.page(query)
    return succeed({"items": items, "nextCursor": following}, warnings=behind)


def _check_operation(name: str | None, known: frozenset[str]) -> None:
    """Raises ApiProblem (422) for one that no change is made by: its list would be empty for ever."""
    if name is None or name in known:
        return
    message = f"no change is made by {name[:80]!r}; known are {', '.join(sorted(known))}"
    raise invalid("/operation", "choice", message)
