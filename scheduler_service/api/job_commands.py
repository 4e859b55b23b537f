"""Delivers an event to its job for a caller, with the job's owner and creator (SPEC sections 2, 9, 10)."""

import re

import msgspec

from client_sdk.models.services import SERVICE_NAME
from scheduler_service.api.bodies import header
from scheduler_service.api.definitions import Creator, PostedDefinition, check_posted
from scheduler_service.api.request import FORM_OF_NAME, ApiRequest
from scheduler_service.api.request_keys import key_reused
from scheduler_service.api.responses import ENCODER, invalid, no_job, refused
from scheduler_service.domain.execution import ExecutionState, JobState, write_execution_id
from scheduler_service.domain.replies import (
    Reactivated,
    Recalled,
    Refusal,
    Reply,
    Started,
    StartedMany,
    Taken,
    Unchanged,
)
from scheduler_service.engine.compile_cache import read_options
from scheduler_service.engine.decide import NO_JOB
from scheduler_service.engine.job_summary import find_state
from scheduler_service.hosts.work_thread import work_by_size
from scheduler_service.ports.delivery import Command

_DECODER: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(
    Taken | Unchanged | Started | StartedMany | Reactivated
)
OWNER_HEADER = "X-Service"
_NAME = re.compile(SERVICE_NAME[1:-1])


class CommandReply(msgspec.Struct, frozen=True):
    """A reply; `is_recalled`: an earlier turn took the key, and nothing was done now."""

    reply: Reply
    is_recalled: bool


async def run_command(request: ApiRequest, job_id: str, command: Command) -> Reply:
    """The turn's reply, or the reply of the earlier turn with the same Idempotency-Key.

    The turn writes down who changes the job, unless `command` says so already. Raises ApiProblem for a
    refusal and for a key that came with another body, StoreError.
    """
    return (await run_command_once(request, job_id, command)).reply


async def run_command_once(request: ApiRequest, job_id: str, command: Command) -> CommandReply:
    """As `run_command`; the execution of a known key has its present state (SPEC section 10)."""
    act = request.act() if command.act is None else command.act
    asked = msgspec.structs.replace(command, answer=ENCODER.encode, act=act)
    reply = await request.deps.jobs.deliver(job_id, asked)
    if isinstance(reply, Refusal):
        # A turn without a job does not know its name.
        raise no_job(job_id) if reply == NO_JOB else refused(reply)
    if not isinstance(reply, Recalled):
        return CommandReply(reply, is_recalled=False)
    if not reply.same_digest:
        raise key_reused()
    known = _DECODER.decode(reply.answer)
    if isinstance(known, Started):
        known = msgspec.structs.replace(known, state=await _present_state(request, job_id, known))
    return CommandReply(known, is_recalled=True)


async def _present_state(request: ApiRequest, job_id: str, known: Started) -> ExecutionState:
    """The execution's state: from the job's document, else from the history, else as its turn left it."""
    deps = request.deps
    job = await deps.jobs.read(job_id)
    state = None if job is None else find_state(job, known.uid, known.execute_number)
    if state is not None:
        return state
    await request.catch_up(job_id)
    execution_id = write_execution_id(known.uid, known.execute_number)
    found = await deps.history.execution(request.caller.tenant, execution_id)
    return known.state if found is None else ExecutionState(str(found["state"]))


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


class _StoredCreator(msgspec.Struct, frozen=True, rename="camel"):
    """Of a stored definition, who created it."""

    creator: str | None = None
    creator_name: str | None = None


async def find_changes(request: ApiRequest, job_key: str, text: bytes) -> dict[str, object]:
    """Where `text` differs from the present definition of the job, for the audit; nothing where it is absent.

    Another one may change the job meanwhile: `fromRevision` is the revision that was read. Raises
    StoreUnavailable.
    """
    entry = await request.deps.catalogue.get(job_key)
    if entry is None or entry.state is JobState.DESTROYED or entry.tenant != request.caller.tenant:
        return {}
    before = await request.deps.store.definition(entry.uid, entry.revision)
    if before is None:
        return {}
    mask, decode, changes = request.secret_mask, msgspec.json.decode, request.deps.security.masking.changes
    return await work_by_size(
        len(before) + len(text),
        lambda: changes(decode(before), decode(text), mask) | {"fromRevision": entry.revision},
    )


async def find_sender(request: ApiRequest, job_key: str) -> Creator:
    """The request's creator, with the options of the service to which the job of this key belongs already.

    Raises StoreUnavailable.
    """
    by, registry, tenant = request.creator, request.deps.services.registry, request.caller.tenant
    if by.options or not any(one.options for one in registry.services(tenant)):
        return by
    entry = await request.deps.catalogue.get(job_key)
    text = None if entry is None else await request.deps.store.definition(entry.uid, entry.revision)
    stored = read_options(text or b"{}")
    service = registry.find(tenant, stored["service"]) if isinstance(stored, dict) else None
    return by if service is None else msgspec.structs.replace(by, options=service.options_of_jobs)


async def keep_creator(
    request: ApiRequest, job_key: str, raw: bytes, checked: PostedDefinition, sender: Creator | None = None
) -> PostedDefinition:
    """`checked`, made of `raw`, with the creator of the job of this key where it names none itself.

    Returns `checked` where there is nothing to take over. So who sends a definition makes no difference to
    its comparison. `sender`: with what it was checked, if not with the request's. Raises StoreUnavailable.
    """
    if checked.has_creator:
        return checked
    entry = await request.deps.catalogue.get(job_key)
    if entry is None or entry.state is JobState.DESTROYED:
        return checked
    text = await request.deps.store.definition(entry.uid, entry.revision)
    stored = _StoredCreator() if text is None else msgspec.json.decode(text, type=_StoredCreator)
    if stored.creator is None or stored.creator_name is None:
        return checked
    sender = sender or request.creator
    by = msgspec.structs.replace(sender, creator=stored.creator, name=stored.creator_name)
    if by == sender:
        return checked
    return await check_posted(request.deps, raw, request.path.get("jobId"), by)
