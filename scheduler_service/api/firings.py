"""What became of a job's planned firings, and its definitions as they were (SPEC sections 3, 10)."""

import msgspec
from starlette.responses import Response

from scheduler_service.api.problems import absent
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.domain.moments import rfc3339
from scheduler_service.persistence.common.cursor import Number, read_cursor, write_cursor
from scheduler_service.persistence.history.queries import FiringQuery
from scheduler_service.ports.catalogue import CatalogueEntry


async def list_firings(call: ApiRequest) -> Response:
    """`GET /jobs/{jobId}/firings`: the ledger of its present or last life."""
    entry = await _find(call)
    query = FiringQuery(
        uid=entry.uid,
        planned_from=call.query["from"],
        planned_to=call.query["to"],
        limit=call.query["limit"],
        cursor=call.query["cursor"],
    )
    return succeed((await call.parts.history.firings(query)).wire())


async def list_revisions(call: ApiRequest) -> Response:
    """`GET /jobs/{jobId}/revisions`: in order, the first one first."""
    entry = await _find(call)
    limit = call.query["limit"]
    cursor = call.query["cursor"]
    after = 0 if cursor is None else read_cursor(cursor, Number)
    found = await call.parts.catalogue.revisions(entry.uid, after=after, limit=limit + 1)
    items = [
        {
            "revision": one.revision,
            "createdAt": rfc3339(one.created_at),
            "definition": msgspec.Raw(one.text),
        }
        for one in found[:limit]
    ]
    more = write_cursor(found[limit - 1].revision) if len(found) > limit else None
    return succeed({"items": items, "nextCursor": more})


async def _find(call: ApiRequest) -> CatalogueEntry:
    job_id = call.job_id
    entry = await call.parts.catalogue.get(job_id)
    if entry is None or entry.tenant != call.parts.surroundings.tenant:
        raise absent("/jobId", f"there is no job {job_id!r}")
    return entry
