"""Results of executions: what each was answered last, waited for, downloaded (SPEC section 10)."""

import asyncio
import re
from base64 import b64encode
from functools import partial
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from client_sdk.models import answers
from scheduler_service.api import parameters
from scheduler_service.api.bodies import ClientGone
from scheduler_service.api.executions import not_found
from scheduler_service.api.key_scopes import check_sight
from scheduler_service.api.request import OF_JOBS, ApiRequest, Routes
from scheduler_service.api.request_room import WaitingLine
from scheduler_service.api.responses import ApiProblem, refuse, succeed
from scheduler_service.domain.execution import TERMINAL, ExecutionState, parse_execution_id
from scheduler_service.domain.records import ResultKept
from scheduler_service.engine.job_summary import find_state
from scheduler_service.hosts.work_thread import work_by_size
from scheduler_service.language.charsets import charset_of
from scheduler_service.language.json_values import NO_JSON, read_json
from scheduler_service.persistence.history.history_reads import FoundResult
from scheduler_service.persistence.history.row_shapes import result_wire
from scheduler_service.security.callers import Role
from scheduler_service.security.name_masks import DefinitionMasking

ROUTES = Routes("executions")
LONGEST_WAIT_SECONDS = 60
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 1.0
"""Between two looks whether it has ended; each pause is half as long again as the one before."""
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}(?:;[ -~]{0,200})?", re.ASCII)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SUFFIXES = {"json": "json", "text": "txt", "base64": "bin"}
_INERT = {"content-security-policy": "default-src 'none'; sandbox"}
"""What a target answered is a file and never a page of this origin."""


async def wait_for_end(request: ApiRequest) -> None:
    """Returns when the execution has ended, is not there, or after `wait` seconds; the path has its id then.

    Raises ApiProblem, StoreError, ClientGone.
    """
    seconds = request.query["wait"]
    if not seconds:
        return
    if request.caller.is_narrow:
        await check_sight(request)
    execution_id = await request.execution_id(request.path["executionId"])
    request.path = {**request.path, "executionId": execution_id}
    parsed = parse_execution_id(execution_id)
    entry = None if parsed is None else await request.deps.catalogue.find(parsed[0])
    if parsed is None or entry is None or entry.tenant != request.caller.tenant:
        return
    loop = asyncio.get_running_loop()
    end, pause = loop.time() + float(seconds), FIRST_PAUSE_SECONDS
    gone = asyncio.ensure_future(request.disconnected())
    try:
        async with request.watching():
            while not await _has_ended(request, entry.job_id, *parsed) and (left := end - loop.time()) > 0:
                if (await asyncio.wait({gone}, timeout=min(pause, left)))[0]:
                    raise ClientGone
                pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
    finally:
        gone.cancel()


@ROUTES.add(
    "GET /executions/{executionId}/result",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=(
        parameters.number("wait", "Wait so many seconds for its end.", high=LONGEST_WAIT_SECONDS),
        parameters.flag("download", "The body alone, as a file.", default=False),
    ),
    data=answers.Result,
    statuses=(404, 409),
    waits=wait_for_end,
    answer_line=WaitingLine.HISTORY,
)
async def read_result(request: ApiRequest) -> Response:
    """Read what an execution was answered last, where its job has `keepResult`; 409 before it has ended."""
    behind = await request.catch_up()
    given = request.path["executionId"]
    execution_id = await request.execution_id(given)
    found = await request.deps.history.result(request.caller.tenant, execution_id)
    if found is None:
        raise not_found(request, execution_id, behind)
    kept = found.result
    if kept is None:
        raise _no_result(given, found)
    masking = request.deps.security.masking
    if not request.caller.role.includes(Role.EDITOR) and masking.may_have_plain(kept.body):
        kept = await work_by_size(len(kept.body), partial(_hide_plain, kept, masking))
    encoding, body = await work_by_size(len(kept.body), lambda: _show(kept.body))
    if request.query["download"]:
        return _file(execution_id, kept, encoding)
    shown = {"executionId": execution_id, **result_wire(kept), "encoding": encoding, "body": body}
    return succeed(shown, _INERT, warnings=behind)


async def _has_ended(request: ApiRequest, job_key: str, uid: str, number: int) -> bool:
    """Whether it has, or is not there; also where this process stops: then the caller asks another one."""
    job = await request.deps.jobs.read(job_key)
    state = None if job is None else find_state(job, uid, number)
    return state is None or state in TERMINAL or "host" in await request.deps.shown.ready()


def _no_result(given: str, found: FoundResult) -> ApiProblem:
    """A 409 for one that has not ended, a 404 that says why there is none."""
    state, name = found.state, repr(given[:200])
    if state not in TERMINAL:
        text = f"the execution {name} is {state}; ask again when it has ended, or with wait"
        return refuse(HTTPStatus.CONFLICT, "/executionId", "not_ended", text)
    if state is not ExecutionState.SUCCEEDED:
        said = ", ".join(filter(None, (found.error, found.message)))
        text = f"the execution {name} has no result: it ended as {state}{said and ', ' + said}"
        return refuse(HTTPStatus.NOT_FOUND, "/executionId", str(state), text)
    if found.dropped:
        text = f"the history has dropped the result of {name}: it had more than history.max_bytes"
        return refuse(HTTPStatus.NOT_FOUND, "/executionId", "dropped", text)
    text = f"no result of {name} is kept: its job had no keepResult"
    return refuse(HTTPStatus.NOT_FOUND, "/executionId", "not_kept", text)


def _hide_plain(kept: ResultKept, masking: DefinitionMasking) -> ResultKept:
    """A result for those who may not edit: without plain credentials, as the execution's own bodies."""
    try:
        text = kept.body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return kept
    shown = str(masking.hide(text, "body"))
    return kept if shown == text else msgspec.structs.replace(kept, body=shown.encode(), masked=True)


def _show(body: bytes) -> tuple[str, object]:
    """How the body is written in JSON, and so: as it is, as text, or in base64."""
    if read_json(body) is not NO_JSON:
        return "json", msgspec.Raw(body.removeprefix(_BYTE_ORDER_MARK))
    try:
        return "text", body.decode()
    except UnicodeDecodeError:
        return "base64", b64encode(body).decode()


def _file(execution_id: str, kept: ResultKept, encoding: str) -> Response:
    """The body as a file, which no browser shows."""
    kind = kept.content_type if _MEDIA_TYPE.fullmatch(kept.content_type) else "application/octet-stream"
    if encoding != "base64" and charset_of(kind):  # the text became UTF-8 when it was kept
        kind = f"{kind.partition(';')[0]}; charset=utf-8"
    headers = {
        **_INERT,
        "content-type": kind,
        "content-disposition": f'attachment; filename="{execution_id}.{_SUFFIXES[encoding]}"',
    }
    return Response(kept.body, headers=headers)
