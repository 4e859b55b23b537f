"""Registrations: their bodies, of which the declared jobs are counted and measured before any is decoded; and
how services and instances are shown.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from client_sdk.models import Problem
from scheduler_service.api.bodies import MAX_DEPTH, read_each, read_json, split_member
from scheduler_service.api.definitions import Creator, Hosts, check_posted, warn_of_hosts
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.key_scopes import NOT_FREE, not_free
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import ApiProblem, FoundFlaw, invalid, invalid_all
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.job_key import write_job_key
from scheduler_service.domain.moments import SECOND, Now, rfc3339
from scheduler_service.domain.registered_services import Service
from scheduler_service.hosts.work_thread import work_by_size
from scheduler_service.pacing.slices import Slices
from scheduler_service.services.instances import Instance
from scheduler_service.services.registry import TimerDeclaration, digest_of

MAX_TIMERS = 1_000
TIMERS = "timers"
SHORT_BYTES = 200


class PostedTimers(msgspec.Struct, frozen=True):
    """Declared timers, as the texts of their definitions; `digest` is that of the whole array as posted."""

    digest: bytes
    items: Sequence[bytes]


class PostedRegistration(msgspec.Struct, frozen=True):
    """The members of a registration; each object among its `timers` is an empty one here.

    `timers` None: it has no array of timers.
    """

    value: dict[str, object]
    timers: PostedTimers | None


async def read_registration(request: ApiRequest) -> PostedRegistration:
    """The body, an object: `timers` may be as large as an array, the rest as an object.

    A large one is read beside the loop. Raises ApiProblem (400, 413, 415, 422).
    """
    deps = request.deps
    raw = await request.body(deps.limits.array_bytes) or b"{}"
    return await work_by_size(len(raw), lambda: _read(raw, deps.limits.body_bytes))


def _read(raw: bytes, longest: int) -> PostedRegistration:
    try:
        found = split_member(raw, TIMERS, most=MAX_TIMERS, longest=longest)
        value = _read_object(found.rest)
    except ApiProblem:
        if len(raw) <= longest:
            _read_object(raw)  # raises with the place in the whole body, where its form is wrong
        raise
    if found.items is None:
        return PostedRegistration(value, None)
    for _ in read_each(raw, found.items, within=f"/{TIMERS}", levels=MAX_DEPTH - 2):
        pass
    objects = [_brief(item) for item in found.items]
    timers = PostedTimers(digest_of(memoryview(raw)[found.begin : found.end]), found.items)
    return PostedRegistration(value | {TIMERS: objects}, timers)


def _brief(item: bytes) -> object:
    """What stands for a definition while the rest is checked; what is none is named, where it is short."""
    if item.startswith(b"{"):
        return {}
    return msgspec.json.decode(item) if len(item) <= SHORT_BYTES else []


def _read_object(raw: bytes) -> dict[str, object]:
    value = read_json(raw)
    if not isinstance(value, dict):
        raise invalid("", "type", "the body must be a JSON object")
    return value


async def read_declaration(
    deps: ApiDependencies,
    service: Creator,
    posted: PostedTimers | None,
    *,
    current_digest: bytes | None = None,
) -> tuple[TimerDeclaration | None, tuple[FoundFlaw, ...]]:
    """The timers that are `posted`, and their warnings, also those about host names; None: none are.

    Timers with `current_digest` are not checked again: that was done when they were declared. Where a
    definition has no creator, the service is its creator. Raises ApiProblem (422) with all problems.
    """
    if posted is None:
        return None, ()
    if posted.digest == current_digest:
        return TimerDeclaration(posted.digest), ()
    checked, warnings = await _check_timers(deps, posted.items, service)
    for index, found in enumerate(await warn_of_hosts(deps, checked)):
        warnings += _below(index, found)
    kept = [text for text, _ in checked]
    size = sum(map(len, kept))
    text = await work_by_size(size, lambda: b"".join(_as_array(kept)))
    return TimerDeclaration(posted.digest, text), tuple(warnings)


def log_warnings(deps: ApiDependencies, service: str, warnings: Iterable[FoundFlaw]) -> None:
    """Logs the warnings about new or changed jobs: a service that declares them may read none."""
    for warning in warnings:
        deps.shown.log(
            "declaration_warned",
            service=service,
            pointer=warning.pointer,
            code=warning.code,
            message=warning.message,
        )


def _as_array(items: Sequence[bytes]) -> Iterator[bytes]:
    """The pieces of a JSON array, to be joined once: a large one is not copied again."""
    for index, item in enumerate(items):
        yield b"," if index else b"["
        yield item
    yield b"]" if items else b"[]"


async def _check_timers(
    deps: ApiDependencies, items: Sequence[bytes], service: Creator
) -> tuple[list[tuple[bytes, Hosts]], list[FoundFlaw]]:
    """The texts to keep, each with its hosts, and the warnings."""
    kept: list[tuple[bytes, Hosts]] = []
    warnings: list[FoundFlaw] = []
    errors: list[FoundFlaw] = []
    seen: dict[str, int] = {}
    slices = Slices()
    for index, item in enumerate(items):
        await slices.pause(len(item))
        try:
            checked = await check_posted(deps, item, None, service)
        except ApiProblem as problem:
            errors.extend(_below(index, (Problem(**error) for error in problem.errors)))
            continue
        if service.is_bound and checked.definition.program.creator != service.creator:
            message = f"with the key of a service creator is {service.creator!r}, or left out"
            errors.append(Problem(f"/timers/{index}/creator", "scope", message))
        if checked.job_id in seen:
            message = f"jobId {checked.job_id!r} is declared twice; a job is declared once"
            errors.append(Problem(f"/timers/{index}/jobId", "duplicate", message))
        seen.setdefault(checked.job_id, index)
        kept.append((checked.definition.text, checked.hosts))
        warnings.extend(_below(index, checked.warnings))
    if service.is_bound:
        errors += await _find_taken(deps, seen, service)
    if errors:
        raise invalid_all(errors)
    return kept, warnings


async def _find_taken(deps: ApiDependencies, job_ids: Mapping[str, int], service: Creator) -> list[FoundFlaw]:
    """Ids of destroyed jobs of others: whoever makes the next job of an id sees what is kept of those before.

    Of one that exists nothing is made: its declaration is a difference (`drift`). Raises StoreError.
    """
    indices = {write_job_key(service.tenant, job_id): index for job_id, index in job_ids.items()}
    return [
        Problem(f"/timers/{indices[key]}/jobId", NOT_FREE, not_free(key))
        for key, entry in (await deps.catalogue.some(list(indices))).items()
        if entry.state is JobState.DESTROYED and entry.creator != service.creator
    ]


def _below(index: int, flaws: Iterable[FoundFlaw]) -> list[FoundFlaw]:
    return [Problem(f"/timers/{index}{flaw.pointer}", flaw.code, flaw.message) for flaw in flaws]


def service_line(service: Service, instances: Sequence[Instance], online: int) -> dict[str, Any]:
    """A service in a list: without its timers and instances; `online` of these take calls."""
    return {
        "name": service.name,
        **service_members(service),
        "instanceCount": len(instances),
        "onlineCount": online,
        "createdAt": rfc3339(service.created_at),
        "updatedAt": rfc3339(service.updated_at),
    }


def service_members(service: Service) -> dict[str, Any]:
    """What a service says of itself, beside the jobs that it declares."""
    limit = service.rate_limit
    return {
        "address": service.address,
        "route": service.route,
        "tags": service.tags,
        "onChange": "keep" if service.keeps else "update",
        "graceSeconds": service.grace / SECOND,
        "rateLimit": None if limit is None else {"count": limit.count, "perSeconds": limit.per / SECOND},
        "signing": service.signing or None,
        "options": msgspec.json.decode(service.options or "{}"),
    }


def instance_line(instance: Instance, now: Now, *, is_online: bool) -> dict[str, Any]:
    """A running process of a service, as of its last registration or heartbeat."""
    state = "draining" if instance.draining else "online"
    return {
        "instanceId": instance.instance_id,
        "address": instance.address or None,
        "tags": instance.tags,
        "capacity": instance.capacity,
        "description": instance.description or None,
        "state": state if is_online else "offline",
        "load": instance.load,
        "lastHeartbeat": rfc3339(now.wall - (now.steady - instance.seen)),
    }


def pause_members(since: int | None, now: Now) -> dict[str, Any]:
    """How a pause of a queue or a service since a steady moment is shown; None: it is not paused."""
    at = None if since is None else rfc3339(now.wall + since - now.steady)
    return {"paused": since is not None, "pausedAt": at}
