"""All jobs: the list, and many definitions at once (SPEC section 10)."""

import asyncio
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from scheduler_service.api.answers import succeed
from scheduler_service.api.bodies import read_json
from scheduler_service.api.call import Call
from scheduler_service.api.definitions import Posted, check_posted
from scheduler_service.api.parts import ApiParts
from scheduler_service.api.problems import ApiProblem, invalid, unavailable, uncertain, write_flaw
from scheduler_service.api.shapes import job_line
from scheduler_service.api.turns import take_once, take_turn
from scheduler_service.domain.events import Created, Updated
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.replies import Taken
from scheduler_service.persistence.state.catalogue import LIVING, JobQuery, JobSort
from scheduler_service.ports import StoreError, StoreUncertain

MOST = 1_000
AT_ONCE = 50
"""So many turns share a commit, and other requests are served between two such groups."""

_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


async def list_jobs(call: Call) -> Response:
    """`GET /jobs`."""
    asked = call.query
    query = JobQuery(
        tenant=call.parts.surroundings.tenant,
        states=LIVING if asked["state"] is None else (JobState(asked["state"]),),
        kind="timing" if asked["kind"] == "timeing" else asked["kind"],
        labels=asked["label"],
        creator=asked["creator"],
        object_id=asked["objectId"],
        parent_job=asked["parentJob"],
        parent_execution=asked["parentJobExecution"],
        text=asked["text"],
        system=asked["system"],
        sort=JobSort(asked["sort"].removeprefix("-")),
        descending=asked["sort"].startswith("-"),
        limit=asked["limit"],
        cursor=asked["cursor"],
    )
    page = await call.parts.catalogue.list(query)
    return succeed({"items": [job_line(entry) for entry in page.items], "nextCursor": page.next_cursor})


async def create_all(call: Call) -> Response:
    """`POST /jobs`: each definition on its own; one result per item, in order."""
    raw = await call.body(call.parts.array_bytes)
    values = read_json(raw)
    if not isinstance(values, list):
        raise invalid(
            "", "type", "the body must be an array of definitions; one alone goes to POST /jobs/{jobId}"
        )
    if len(values) > MOST:
        raise invalid("", "range", f"{len(values)} definitions are too many; send at most {MOST} at once")
    remembered = call.remembered("jobs", raw)
    return succeed(await take_once(call.parts, remembered, lambda: _create_each(call, raw, values)))


async def _create_each(call: Call, raw: bytes, values: list[Any]) -> dict[str, Any]:
    texts = _ITEMS.decode(raw)
    may_update = call.query["onExisting"] == "update"
    results: list[dict[str, Any]] = []
    for start in range(0, len(values), AT_ONCE):
        some = zip(values[start : start + AT_ONCE], texts[start : start + AT_ONCE], strict=True)
        tasks = [_create_one(call.parts, bytes(text), value, may_update=may_update) for value, text in some]
        results.extend(await asyncio.gather(*tasks))
    return {"items": results}


async def _create_one(parts: ApiParts, text: bytes, value: Any, *, may_update: bool) -> dict[str, Any]:
    job_id = value.get("jobId") if isinstance(value, dict) else None
    named = job_id if isinstance(job_id, str) else None
    result: dict[str, Any] = {"jobId": named, "status": "refused", "problem": None, "warnings": []}
    try:
        posted = check_posted(parts, text, value, None)
        result["status"] = await _put(parts, posted, may_update=may_update)
        result["warnings"] = [write_flaw(warning) for warning in posted.warnings]
    except ApiProblem as problem:
        result["problem"] = problem.body()
    except StoreUncertain as error:
        result["problem"] = uncertain(str(error)).body()
    except StoreError as error:
        result["problem"] = unavailable(str(error)).body()
    return result


async def _put(parts: ApiParts, posted: Posted, *, may_update: bool) -> str:
    created = Created(uid="", key=b"")
    try:
        reply = await take_turn(parts, posted.job_id, created, definition=posted.definition)
        return "created" if isinstance(reply, Taken) else "unchanged"
    except ApiProblem as problem:
        if not may_update or problem.status is not HTTPStatus.CONFLICT:
            raise
    updated = Updated(revision=0, active=posted.active)
    await take_turn(parts, posted.job_id, updated, definition=posted.definition)
    return "updated"
