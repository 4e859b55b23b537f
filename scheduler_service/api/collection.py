"""All jobs: the list, and many definitions at once (SPEC section 10)."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from scheduler_service.api.answers import succeed
from scheduler_service.api.bodies import read_items, read_json
from scheduler_service.api.call import Call
from scheduler_service.api.definitions import Posted, check_posted, recognize
from scheduler_service.api.parts import ApiParts
from scheduler_service.api.problems import (
    ApiProblem,
    Flaw,
    invalid,
    refused,
    unavailable,
    uncertain,
    write_flaw,
)
from scheduler_service.api.shapes import job_line
from scheduler_service.api.turns import take_once, take_turn
from scheduler_service.domain.events import Updated
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.replies import Refusal, Reply, Taken
from scheduler_service.persistence.state.catalogue import LIVING, JobQuery, JobSort
from scheduler_service.ports import StoreError, StoreUncertain

MOST = 1_000
AT_ONCE = 50
"""So many definitions are checked before other requests are served."""


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
    texts = read_items(raw)
    if len(texts) > MOST:
        raise invalid("", "range", f"{len(texts)} definitions are too many; send at most {MOST} at once")
    remembered = call.remembered("jobs", raw)
    creating = partial(_create_each, call, raw, texts)
    return succeed(await take_once(call.parts, remembered, creating, is_final=_is_final))


def _is_final(result: object) -> bool:
    """Whether nothing was refused for a reason that passes: who repeats that wants it tried again."""
    assert isinstance(result, dict)
    problems = (item["problem"] for item in result["items"])
    return not any(one and one["status"] == HTTPStatus.SERVICE_UNAVAILABLE for one in problems)


Checked = Posted | ApiProblem


async def _create_each(call: Call, raw: bytes, texts: Sequence[bytes]) -> dict[str, Any]:
    parts, may_update = call.parts, call.query["onExisting"] == "update"
    checked = await _check_each(parts, raw, texts)
    wanted = [item for item in checked if isinstance(item, Posted)]
    replies = iter(await parts.create_all([posted.definition for posted in wanted]))
    items = []
    for text, item in zip(texts, checked, strict=True):
        if isinstance(item, ApiProblem):
            items.append(_result(_named(text), "refused", problem=item))
        else:
            items.append(await _conclude(parts, item, next(replies), may_update=may_update))
    return {"items": items}


async def _check_each(parts: ApiParts, raw: bytes, texts: Sequence[bytes]) -> list[Checked]:
    """All of them before anything is created: what is no JSON refuses the whole request."""
    checked: list[Checked] = []
    is_read = False
    for place, text in enumerate(texts):
        posted = recognize(parts, text)
        if posted is None and not is_read:
            read_json(raw)
            is_read = True
        checked.append(_check(parts, text) if posted is None else posted)
        if place % AT_ONCE == 0:
            await asyncio.sleep(0)
    return checked


def _check(parts: ApiParts, text: bytes) -> Checked:
    try:
        return check_posted(parts, text, None)
    except ApiProblem as problem:
        return problem


async def _conclude(
    parts: ApiParts, posted: Posted, reply: Reply | StoreError, *, may_update: bool
) -> dict[str, Any]:
    """The result of one definition, which may still become an update."""
    try:
        return _result(posted.job_id, await _status(parts, posted, reply, may_update), posted.warnings)
    except ApiProblem as problem:
        return _result(posted.job_id, "refused", problem=problem)
    except StoreUncertain as error:
        return _result(posted.job_id, "refused", problem=uncertain(str(error)))
    except StoreError as error:
        return _result(posted.job_id, "refused", problem=unavailable(str(error)))


async def _status(parts: ApiParts, posted: Posted, reply: Reply | StoreError, may_update: bool) -> str:
    if isinstance(reply, StoreError):
        raise reply
    if not isinstance(reply, Refusal):
        return "created" if isinstance(reply, Taken) else "unchanged"
    problem = refused(reply)
    if not may_update or problem.status is not HTTPStatus.CONFLICT:
        raise problem
    updated = Updated(revision=0, active=posted.active)
    await take_turn(parts, posted.job_id, updated, definition=posted.definition)
    return "updated"


def _result(
    job_id: str | None, status: str, warnings: Iterable[Flaw] = (), problem: ApiProblem | None = None
) -> dict[str, Any]:
    return {
        "jobId": job_id,
        "status": status,
        "problem": None if problem is None else problem.body(),
        "warnings": [write_flaw(warning) for warning in warnings],
    }


def _named(text: bytes) -> str | None:
    """The id that a refused definition gives itself."""
    value = msgspec.json.decode(text)
    job_id = value.get("jobId") if isinstance(value, dict) else None
    return job_id if isinstance(job_id, str) else None
