"""The revisions of a job's definition, a page at a time (SPEC section 10)."""

from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from scheduler_service.api.jobs import find_job
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.domain.moments import rfc3339
from scheduler_service.persistence.common.pagination import Number, mark_list, read_cursor, write_cursor
from scheduler_service.ports.catalogue import Revision

PAGE_BYTES = 4 << 20
READ_AT_ONCE = 8


async def list_revisions(request: ApiRequest) -> Response:
    """`GET /jobs/{jobId}/revisions`: definitions of its present or last life, in order."""
    entry = await find_job(request, request.job_key, or_destroyed=True)
    limit, cursor = request.query["limit"], request.query["cursor"]
    mark = mark_list("revisions", entry.uid)
    after = 0 if cursor is None else read_cursor(mark, cursor, Number)
    found, has_more = await _read_revisions(request, entry.uid, after, limit)
    items = [
        {"revision": one.revision, "createdAt": rfc3339(one.created_at), "definition": msgspec.Raw(one.text)}
        for one in found
    ]
    more = write_cursor(mark, found[-1].revision) if has_more else None
    return succeed({"items": items, "nextCursor": more})


async def _read_revisions(
    request: ApiRequest, uid: str, after: int, limit: int
) -> tuple[Sequence[Revision], bool]:
    """Up to `limit` revisions above `after`, and whether there are more.

    A page ends early where it has `PAGE_BYTES` of definitions: read by a few, they are never all in memory.
    """
    found: list[Revision] = []
    size = 0
    while True:
        wanted = min(limit - len(found) + 1, READ_AT_ONCE)
        read = await request.deps.catalogue.revisions(uid, after=after, limit=wanted)
        for one in read:
            if len(found) == limit or (found and size + len(one.text) > PAGE_BYTES):
                return found, True
            found.append(one)
            size += len(one.text)
        if len(read) < wanted:
            return found, False
        after = found[-1].revision
