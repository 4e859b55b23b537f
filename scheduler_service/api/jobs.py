"""One job: create, read, update, pause, start again, destroy (SPEC section 10)."""

import re
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from client_sdk.models import Activation
from scheduler_service.api.bodies import header, read_json, read_model
from scheduler_service.api.definitions import check_posted
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.job_commands import run_command
from scheduler_service.api.problems import absent, invalid
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.api.shapes import job_in_full
from scheduler_service.domain.events import Activated, Created, Destroyed, Event, Paused, Updated
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.replies import Reactivated, Taken
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError, StoreUnavailable

_STRONG_TAG = re.compile(r'"([1-9][0-9]{0,17})"')


async def create(call: ApiRequest) -> Response:
    """`POST /jobs/{jobId}`: 201, or 200 where this very job exists already."""
    job_id = call.job_id
    raw = await call.body()
    posted = check_posted(call.parts, raw, job_id)
    remembered = call.remembered(f"jobs/{job_id}", raw)
    reply = await run_command(
        call.parts, job_id, Command(Created(uid="", key=b""), posted.definition, remembered)
    )
    if not isinstance(reply, Taken):
        return await _show_after(call.parts, job_id, warnings=posted.warnings)
    return await _show_after(
        call.parts,
        job_id,
        status=HTTPStatus.CREATED,
        warnings=posted.warnings,
        headers={"location": f"/jobs/{job_id}"},
        text=posted.definition.text,
    )


async def read(call: ApiRequest) -> Response:
    """`GET /jobs/{jobId}`: the whole job; its ETag is the revision."""
    entry = await find_job(call.parts, call.job_id)
    return succeed(await _in_full(call.parts, entry), headers=_tag(entry))


async def update(call: ApiRequest) -> Response:
    """`POST /jobs/{jobId}/update`: another definition, unless `If-Match` names another revision."""
    job_id = call.job_id
    raw = await call.body()
    posted = check_posted(call.parts, raw, job_id)
    event = Updated(revision=0, active=posted.active, if_match=_expected(header(call.scope, b"if-match")))
    remembered = call.remembered(f"jobs/{job_id}/update", raw)
    await run_command(call.parts, job_id, Command(event, posted.definition, remembered))
    return await _show_after(call.parts, job_id, warnings=posted.warnings)


async def switch(call: ApiRequest) -> Response:
    """`PUT /jobs/{jobId}`: 0 takes the job offline, 1 starts it again from now."""
    job_id = call.job_id
    active = await _asked_active(call)
    event: Event = (
        Activated(misfire=call.query["misfire"]) if active else Paused(drain=bool(call.query["drain"]))
    )
    reply = await run_command(call.parts, job_id, Command(event))
    extra = {"missed": reply.missed} if isinstance(reply, Reactivated) else {}
    return await _show_after(call.parts, job_id, extra=extra)


async def destroy(call: ApiRequest) -> Response:
    """`DELETE /jobs/{jobId}`: the job is gone; its history stays until it is cleaned."""
    job_id = call.job_id
    await run_command(call.parts, job_id, Command(Destroyed()))
    return succeed({"jobId": job_id, "state": JobState.DESTROYED})


async def find_job(parts: ApiDependencies, job_id: str) -> CatalogueEntry:
    """The line of a job that lives. Raises ApiProblem (404), StoreUnavailable."""
    entry = await parts.catalogue.get(job_id)
    if entry is None or entry.state is JobState.DESTROYED or entry.tenant != parts.surroundings.tenant:
        raise absent("/jobId", f"there is no job {job_id!r}")
    return entry


async def read_definition(parts: ApiDependencies, entry: CatalogueEntry) -> bytes:
    """The text of the definition in force. Raises StoreUnavailable."""
    text = await parts.store.definition(entry.uid, entry.revision)
    if text is None:
        raise StoreUnavailable(f"revision {entry.revision} of the job {entry.job_id!r} is not in the store")
    return text


async def _show_after(
    parts: ApiDependencies,
    job_id: str,
    *,
    status: HTTPStatus = HTTPStatus.OK,
    warnings: tuple[Any, ...] = (),
    headers: dict[str, str] | None = None,
    extra: dict[str, Any] | None = None,
    text: bytes | None = None,
) -> Response:
    """The job as a turn left it, its definition being `text`, where that is known.

    The turn counts already: where reading fails, the answer is shorter.
    """
    data: dict[str, Any] = {"jobId": job_id}
    sent = dict(headers or {})
    try:
        entry = parts.peek(job_id) or await parts.catalogue.get(job_id)
        if entry is not None and entry.state is not JobState.DESTROYED:
            known = text if entry.revision == 1 else None
            data = await _in_full(parts, entry, known)
            sent |= _tag(entry)
    except StoreError:
        pass
    return succeed(data | (extra or {}), status=status, warnings=warnings, headers=sent)


async def _in_full(
    parts: ApiDependencies, entry: CatalogueEntry, text: bytes | None = None
) -> dict[str, Any]:
    """The job as it is shown; `text` is its definition, where that is known. Raises StoreError."""
    text = text or await read_definition(parts, entry)
    reason = await _read_pause_reason(parts, entry)
    return job_in_full(entry, text, parts.options, pause_reason=reason)


async def _read_pause_reason(parts: ApiDependencies, entry: CatalogueEntry) -> str | None:
    """Why the job is paused: its own state knows, and no list does. Raises StoreError."""
    if entry.state is not JobState.PAUSED:
        return None
    job = await parts.read_job(entry.job_id)
    if job is None or job.document is None or job.document.head.uid != entry.uid:
        return None
    return job.document.head.pause_reason


def _tag(entry: CatalogueEntry) -> dict[str, str]:
    return {"etag": f'"{entry.revision}"'}


def _expected(if_match: str | None) -> frozenset[int] | None:
    """The revisions that `If-Match` lists, compared strongly (RFC 9110, section 13.1.1); None: any will do.

    What is no tag of ours, weak ones too, is none of them.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    tags = (_STRONG_TAG.fullmatch(tag.strip()) for tag in if_match.split(","))
    return frozenset(int(tag[1]) for tag in tags if tag is not None)


async def _asked_active(call: ApiRequest) -> bool:
    raw = await call.body()
    given = call.query["active"]
    if raw:
        said = read_model(Activation, read_json(raw)).active
        if given is not None and said is not None and given != said:
            raise invalid("/active", "contradiction", "the query and the body say different things of active")
        given = said if given is None else given
    if given is None:
        raise invalid("/active", "required", "say active=0 or active=1, in the query or in the body")
    return bool(given)
