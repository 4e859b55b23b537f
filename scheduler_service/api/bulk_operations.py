"""One command for many jobs or executions, as an operation with its progress (SPEC section 10)."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from http import HTTPStatus
from secrets import token_hex

from starlette.responses import Response

from client_sdk.models import BulkExecutions, BulkJobs, WireModel, answers
from scheduler_service.api import openapi_examples
from scheduler_service.api.authentication import check_role
from scheduler_service.api.bodies import read_json_by_size, read_model
from scheduler_service.api.bulk_actions import ExecutionWork, JobWork, select_executions, select_jobs
from scheduler_service.api.request import ApiRequest, PostedBody, Routes
from scheduler_service.api.request_keys import key_reused
from scheduler_service.api.request_room import WaitingLine
from scheduler_service.api.responses import (
    ApiProblem,
    FoundFlaw,
    absent,
    invalid,
    refuse,
    succeed,
    write_flaw,
)
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.moments import rfc3339
from scheduler_service.hosts.operations.operation_run import (
    EXECUTIONS,
    INTERRUPTED,
    JOBS,
    RUNNING,
    Operation,
    Outcome,
    Work,
    read_piece,
)
from scheduler_service.hosts.operations.operations import NoRoom
from scheduler_service.security.callers import Role

ROUTES = Routes("bulk")

MOST_SHOWN = 100
FEW = 100
"""Work on so many is waited for."""
PATIENCE_SECONDS = 2.0
NOT_KEPT = (
    "the operation of this key was begun by an earlier version, which did not keep what its filter found; "
    "look at what is left, and send a new request with a new key"
)
EDITING = frozenset({"label", "destroy"})
"""What needs the role of an editor, as the routes of one job do."""
ACTIONS_WITH = {
    "drain": ("pause",),
    "misfire": ("resume",),
    "params": ("trigger", "replay"),
    "labels": ("label",),
    "reason": ("cancel",),
    "from_step": ("replay",),
}
"""The actions to which a member of the body belongs."""


@ROUTES.add(
    "POST /bulk/jobs",
    Role.OPERATOR,
    body=PostedBody(BulkJobs, openapi_examples.BULK_JOBS, required=True),
    data=answers.Bulk,
    success=(200, 202),
    statuses=(429,),
)
async def change_many_jobs(request: ApiRequest) -> Response:
    """Pause, resume, disable, enable, trigger, label or destroy many jobs, each as its own route does."""
    raw = await request.body()
    posted = read_model(BulkJobs, await read_json_by_size(raw))
    _check_members(posted, posted.action)
    if posted.action == "label" and not posted.labels:
        raise invalid("/labels", "required", 'labels is required; write {"name": "value"}, null removes one')
    check_role(request.caller, Role.EDITOR if posted.action in EDITING else Role.OPERATOR)
    asked = _AskedOperation(request, JOBS, posted.action, raw)
    asked.tell_audit(posted.select.filter, posted.select.job_ids)
    if posted.dry_run:
        request.tell_audit(changed=False)
        return _show_selected(await select_jobs(request, posted.select, is_checked=True))
    if (begun := await asked.find_begun()) is not None:
        return _show_begun(begun)
    ids = await asked.find_choice(is_by_filter=posted.select.filter is not None)
    if ids is None:
        ids = await select_jobs(request, posted.select)
    return await asked.begin(ids, JobWork(request, posted, asked.key).do)


@ROUTES.add(
    "POST /bulk/executions",
    Role.OPERATOR,
    body=PostedBody(BulkExecutions, openapi_examples.BULK_EXECUTIONS, required=True),
    data=answers.Bulk,
    success=(200, 202),
    statuses=(429,),
)
async def change_many_executions(request: ApiRequest) -> Response:
    """Cancel or replay many executions, each as its own route does."""
    raw = await request.body()
    posted = read_model(BulkExecutions, await read_json_by_size(raw))
    _check_members(posted, posted.action)
    asked = _AskedOperation(request, EXECUTIONS, posted.action, raw)
    asked.tell_audit(posted.select.filter, posted.select.execution_ids)
    if posted.dry_run:
        request.tell_audit(changed=False)
        return _show_selected(*await select_executions(request, posted))
    if (begun := await asked.find_begun()) is not None:
        return _show_begun(begun)
    ids = await asked.find_choice(is_by_filter=posted.select.filter is not None)
    if ids is None:
        ids, behind = await select_executions(request, posted)
    else:
        behind = await request.catch_up()
    return await asked.begin(ids, ExecutionWork(request, posted, asked.key, behind).do, behind)


@ROUTES.add(
    "GET /operations/{operationId}",
    Role.VIEWER,
    data=answers.Operation,
    statuses=(404,),
    answer_line=WaitingLine.STATE,
)
async def read_operation(request: ApiRequest) -> Response:
    """Show how far an operation is; 404 once it is forgotten, 24 hours after its end."""
    return succeed((await _find(request)).wire())


@ROUTES.add(
    "POST /operations/{operationId}/cancel",
    Role.OPERATOR,
    body=PostedBody(dict),
    data=answers.Operation,
    statuses=(404,),
)
async def cancel_operation(request: ApiRequest) -> Response:
    """End an operation before it is done: what is done stays done."""
    await request.json_text()
    operation = await _find(request)
    await request.deps.upkeep.operations.cancel(operation)
    return succeed(operation.wire())


class _AskedOperation:
    """The operation that a request asks for: under an Idempotency-Key its id follows from that.

    `key`: that of each of its commands.
    """

    def __init__(self, request: ApiRequest, kind: str, action: str, raw: bytes) -> None:
        remembered = request.remembered(f"bulk/{kind}", raw)
        self._request = request
        self._kind = kind
        self._action = action
        self._digest = sha256(raw).digest()
        self._id = token_hex(16)
        self._is_repeatable = remembered is not None
        self._left: Operation | None = None
        if remembered is not None:
            name = "\n".join((request.caller.tenant, remembered.scope, remembered.key))
            self._id = sha256(name.encode()).hexdigest()[:32]
        self.key = f"bulk:{self._id}"

    def tell_audit(self, chosen: Mapping[str, object] | None, named: Sequence[str] | None) -> None:
        """What the request's line says; what is done with each has a line of its own."""
        what = {"filter": chosen} if named is None else {"count": len(named)}
        self._request.tell_audit(subject=self._id, detail={"given": {"action": self._action, **what}})

    async def find_begun(self) -> Operation | None:
        """The operation, if it was begun under this key and was not interrupted: it is not done again.

        Raises ApiProblem (422) for a key that came with another body, (429); StoreUnavailable.
        """
        operations, tenant = self._request.deps.upkeep.operations, self._request.caller.tenant
        known = await operations.find(tenant, self._id) if self._is_repeatable else None
        if known is not None and known.digest != self._digest:
            raise key_reused()
        if known is not None and known.state != INTERRUPTED:
            self._request.tell_audit(changed=False)
            return known
        try:
            operations.check_room(tenant)
        except NoRoom as error:
            raise _no_room(error) from None
        self._left = known
        return None

    async def find_choice(self, *, is_by_filter: bool) -> Sequence[str] | None:
        """What the interrupted operation is about, which goes on with that; None: there is none, choose.

        Raises ApiProblem (409) where a filter chose it and that was not kept; StoreUnavailable.
        """
        if self._left is None:
            return None
        ids = await self._request.deps.upkeep.operations.choice(self._left)
        if ids is None and is_by_filter:
            raise refuse(HTTPStatus.CONFLICT, "/Idempotency-Key", "conflict", NOT_KEPT)
        return ids

    async def begin(self, ids: Sequence[str], work: Work, behind: Sequence[FoundFlaw] = ()) -> Response:
        """Begins with `work` on each of `ids`; waits for a short one. Raises ApiProblem (429), StoreError."""
        operations, now = self._request.deps.upkeep.operations, rfc3339(self._request.deps.clock.now().wall)
        operation = Operation(
            operation_id=self._id,
            kind=self._kind,
            action=self._action,
            total=len(ids),
            created_by=self._request.caller.name,
            started_at=now,
            updated_at=now,
            tenant=self._request.caller.tenant,
            digest=self._digest,
            first=[read_piece(one)[0] if self._kind == JOBS else one for one in ids[:MOST_SHOWN]],
            warnings=[write_flaw(flaw) for flaw in behind] if self._left is None else self._left.warnings,
            is_repeatable=self._is_repeatable,
            choice=(self._left.choice if self._left else "") or token_hex(16),
            kept_at=self._left.kept_at if self._left else None,
        )
        authentication = self._request.deps.security.authentication
        caller, begun = self._request.caller, operation

        async def work_for_key(one: str) -> Outcome:
            """A key that has ended does nothing more; its operation ends as if it was cancelled."""
            try:
                authentication.check_ended(caller)
            except ApiProblem as problem:
                begun.stop()
                return Outcome(problem=problem.body())
            return await work(one)

        try:
            operation = await operations.start(operation, ids, work_for_key)
        except NoRoom as error:
            raise _no_room(error) from None
        if operation.digest != self._digest:
            raise key_reused()
        if len(ids) <= FEW:
            await operations.wait(operation, PATIENCE_SECONDS)
        return _show_begun(operation)


def _check_members(posted: WireModel, action: str) -> None:
    for name in posted.model_fields_set & ACTIONS_WITH.keys():
        if action not in ACTIONS_WITH[name]:
            alias = type(posted).model_fields[name].alias
            message = f"{alias} does not belong to {action!r}, but to {' or '.join(ACTIONS_WITH[name])}"
            raise invalid(f"/{alias}", "contradiction", message)


def _show_selected(ids: Sequence[str], behind: Sequence[FoundFlaw] = ()) -> Response:
    data = {"dryRun": True, "count": len(ids), "first": ids[:MOST_SHOWN], "operation": None}
    return succeed(data, warnings=behind)


def _show_begun(operation: Operation) -> Response:
    """200 where the operation has ended, 202 where it goes on."""
    data = {
        "dryRun": False,
        "count": operation.total,
        "first": operation.first,
        "operation": operation.wire(),
    }
    status = HTTPStatus.ACCEPTED if operation.state == RUNNING else HTTPStatus.OK
    location = {"location": f"/operations/{operation.operation_id}"}
    return succeed(data, location, status=status, warnings=map(_read_flaw, operation.warnings))


def _read_flaw(wire: Mapping[str, str]) -> FoundFlaw:
    return Problem(wire["pointer"], wire["code"], wire["message"])


def _no_room(error: NoRoom) -> ApiProblem:
    return refuse(HTTPStatus.TOO_MANY_REQUESTS, "", "limit", str(error), retry_seconds=10)


async def _find(request: ApiRequest) -> Operation:
    operation_id = request.path["operationId"]
    found = await request.deps.upkeep.operations.find(request.caller.tenant, operation_id)
    if found is None:
        message = (
            f"there is no operation {operation_id[:80]!r}, or it is more than 24 hours old; "
            "look at the jobs or executions, and send its request again where something is left"
        )
        raise absent("/operationId", message)
    return found
