"""The creator of a job that is there stays where a definition names none (SPEC section 2)."""

import msgspec

from scheduler_service.api.definitions import CheckedDefinition, Creator, check_posted
from scheduler_service.api.request import ApiRequest
from scheduler_service.domain.execution import JobState


class _Stored(msgspec.Struct, frozen=True, rename="camel"):
    """Of a stored definition, who created it."""

    creator: str | None = None
    creator_name: str | None = None


async def keep_creator(
    request: ApiRequest, job_key: str, raw: bytes, checked: CheckedDefinition
) -> CheckedDefinition:
    """`checked`, made of `raw`, with the creator of the job of this key where it names none itself.

    Returns `checked` where there is nothing to take over. So who sends a definition makes no difference to
    its comparison. Raises StoreUnavailable.
    """
    if checked.has_creator:
        return checked
    entry = await request.deps.catalogue.get(job_key)
    if entry is None or entry.state is JobState.DESTROYED:
        return checked
    text = await request.deps.store.definition(entry.uid, entry.revision)
    stored = _Stored() if text is None else msgspec.json.decode(text, type=_Stored)
    if stored.creator is None or stored.creator_name is None:
        return checked
    by = Creator(stored.creator, stored.creator_name)
    if by == request.creator:
        return checked
    return await check_posted(request.deps, raw, request.path.get("jobId"), by)
