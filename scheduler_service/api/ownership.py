"""The service that owns a job, and the creator whom a job keeps (SPEC sections 2, 9)."""

import re

import msgspec

from client_sdk.models.services import SERVICE_NAME
from scheduler_service.api.bodies import header
from scheduler_service.api.definitions import CheckedDefinition, Creator, check_posted
from scheduler_service.api.request import FORM_OF_NAME, ApiRequest
from scheduler_service.api.responses import invalid
from scheduler_service.domain.execution import JobState

OWNER_HEADER = "X-Service"
_NAME = re.compile(SERVICE_NAME[1:-1])


def read_owner(request: ApiRequest) -> str:
    """The service whose key, or whose header `X-Service`, creates or updates a job; empty: no service.

    Raises ApiProblem (422) for a header that is no name, or names another service than the key.
    """
    named = header(request.scope, OWNER_HEADER.lower().encode()) or ""
    if named and _NAME.fullmatch(named) is None:
        message = f"{OWNER_HEADER} {named[:140]!r} is no name of a service; use 1 to 128 of {FORM_OF_NAME}"
        raise invalid(f"/{OWNER_HEADER}", "pattern", message)
    of_key = request.caller.service or ""
    if named and of_key and named != of_key:
        message = f"{OWNER_HEADER} {named!r} is not the service of the key, {of_key!r}; leave the header out"
        raise invalid(f"/{OWNER_HEADER}", "invalid", message)
    return of_key or named


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
