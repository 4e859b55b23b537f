"""Jobs and firings as answers show them, and lists of jobs (SPEC section 10)."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from client_sdk.models import JobDefinition, ModelError
from client_sdk.models.definition import JobOptions
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import ENCODER
from scheduler_service.domain.document import Latest
from scheduler_service.domain.errors import DefinitionError, Problem
from scheduler_service.domain.execution import write_execution_id
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.moments import rfc3339
from scheduler_service.language.value_masks import SecretMask
from scheduler_service.pacing.slices import Slices
from scheduler_service.persistence.common.pagination import write_place
from scheduler_service.ports.catalogue import CatalogueEntry, JobPage, JobQuery
from scheduler_service.timing.preview import Preview, Shown, describe

OPTIONS = (*(field.alias or name for name, field in JobOptions.model_fields.items()), "startPolicy")
_READ = ("disabled", "serviceOptions", *OPTIONS)
_POSTED = msgspec.json.Decoder(msgspec.defstruct("Posted", [(name, Any, None) for name in _READ]))
"""Reads these members of a definition, and skips the rest of it."""
_LATEST = msgspec.json.Decoder(Latest | None)
_FIELDS = {field.alias or name: field for name, field in JobDefinition.model_fields.items()}


def job_line(entry: CatalogueEntry, unfit: Problem | None, mask: SecretMask) -> dict[str, Any]:
    """A job in a list: without its definition. `unfit`: why it cannot run as it stands.

    A target may have said any secret of the tenant as its error: `mask` hides them.
    """
    return {
        "jobId": read_job_key(entry.job_id)[1],
        "uid": entry.uid,
        "objectId": entry.object_id,
        "jobName": entry.job_name,
        "creator": entry.creator,
        "labels": entry.labels,
        "parentJob": entry.parent_job,
        "parentJobExecution": entry.parent_execution,
        "revision": entry.revision,
        "state": entry.state,
        "kind": entry.kind,
        "nextFireTime": None if entry.next_fire is None else rfc3339(entry.next_fire),
        "executeNumber": entry.execute_number,
        "requestCounts": entry.request_counts,
        "latestExecution": _latest(entry, mask),
        "missedCount": entry.missed,
        "cannotRun": None if unfit is None else unfit.message,
        "createdAt": rfc3339(entry.created_at),
        "updatedAt": rfc3339(entry.updated_at),
    }


def job_in_full(
    entry: CatalogueEntry,
    text: bytes,
    defaults: Mapping[str, object],
    *,
    shown: msgspec.Raw,
    pause_reason: str | None,
    unfit: Problem | None,
    mask: SecretMask,
) -> dict[str, Any]:
    """A job with its definition as it is `shown`, why it does not run, and where each option comes from."""
    posted: Any = _POSTED.decode(text)
    return {
        **job_line(entry, unfit, mask),
        "pauseReason": pause_reason,
        "disabled": bool(posted.disabled),
        "definition": shown,
        "options": options_of(posted, defaults),
    }


def options_of(definition: object, defaults: Mapping[str, object]) -> dict[str, Any]:
    """name → value and source: the job's value, its service's, else the default (SPEC section 13)."""
    shown: dict[str, Any] = {}
    of_service: Mapping[str, Any] = getattr(definition, "serviceOptions", None) or {}
    for name in OPTIONS:
        own = getattr(definition, name)
        if own is not None:
            shown[name] = {"value": own, "source": "job"}
        elif of_service.get(name) is not None:
            shown[name] = {"value": of_service[name], "source": "service"}
        else:
            shown[name] = defaults.get(name, {"value": _FIELDS[name].default, "source": "product"})
    return shown


def firing_preview(preview: Preview, firings: Sequence[Shown]) -> dict[str, Any]:
    """A timer as text for people, with these firings."""
    return {
        "kind": preview.kind,
        "dialect": preview.dialect,
        "normalForm": preview.normal_form,
        "description": preview.description,
        "firings": [{"utc": rfc3339(one.utc), "local": one.local, "note": one.note} for one in firings],
    }


def _latest(entry: CatalogueEntry, mask: SecretMask) -> dict[str, Any] | None:
    latest = _LATEST.decode(entry.latest or b"null")
    if latest is None:
        return None
    return {
        "executionId": write_execution_id(entry.uid, latest.execute_number),
        "executeNumber": latest.execute_number,
        "state": latest.state,
        "error": None if latest.error is None else mask.text(latest.error),
    }


PAGE_BYTES = 4 << 20
READ_AT_ONCE = 16
"""Of so many jobs the definitions are read together: at 64 KiB each, 1 MiB."""
MORE_AT_ONCE = 48
"""And of so many where those before were small."""
SMALL_BYTES = 8_192
_UNREADABLE = (DefinitionError, ModelError, msgspec.DecodeError, RecursionError)


class _PostedTimer(msgspec.Struct, frozen=True):
    timer: msgspec.Raw = msgspec.Raw(b"null")
    disabled: Any = False


class _TimerTexts(msgspec.Struct, frozen=True):
    period: str | None = None


_LISTED = msgspec.json.Decoder(_PostedTimer)
_TEXTS = msgspec.json.Decoder(_TimerTexts | None)


async def list_lines(request: ApiRequest, query: JobQuery, page: JobPage) -> dict[str, Any]:
    """`items` and `nextCursor` of what `query` has found, `timer` and `definition` as they were asked for.

    A page ends early where its lines have `PAGE_BYTES`: never are all definitions in memory. Raises
    StoreUnavailable.
    """
    slices, size, mask = Slices(), 0, request.secret_mask
    lines: list[msgspec.Raw] = []
    wanted = READ_AT_ONCE
    while len(lines) < len(page.items):
        entries = page.items[len(lines) : len(lines) + wanted]
        texts = await _read_texts(request, entries)
        is_small = sum(len(text or b"") for text in texts) < SMALL_BYTES * len(texts)
        wanted = MORE_AT_ONCE if is_small else READ_AT_ONCE
        for entry, text in zip(entries, texts, strict=True):
            await slices.pause(len(text or b""))
            unfit = request.deps.definitions.find_unfit(entry)
            line = ENCODER.encode({**job_line(entry, unfit, mask), **_define(request, text)})
            size += len(line)
            if lines and size > PAGE_BYTES:
                return {"items": lines, "nextCursor": write_place(query, page.items[len(lines) - 1])}
            lines.append(msgspec.Raw(line))
    return {"items": lines, "nextCursor": page.next_cursor}


async def _read_texts(request: ApiRequest, entries: Sequence[CatalogueEntry]) -> Sequence[bytes | None]:
    """The definition of each job; None where none was asked for, or it is too long to be read with others."""
    if not (request.query["timers"] or request.query["definitions"]):
        return [None] * len(entries)
    found = await request.deps.catalogue.definitions([entry.job_id for entry in entries])
    return [found.get(entry.job_id) for entry in entries]


def _define(request: ApiRequest, text: bytes | None) -> Mapping[str, Any]:
    query = request.query
    if not (query["timers"] or query["definitions"]):
        return {}
    posted = _read_posted(text)
    shown: dict[str, Any] = {"disabled": None if posted is None else bool(posted.disabled)}
    if query["timers"]:
        shown["timer"] = None if posted is None else _describe(request, bytes(posted.timer))
    if query["definitions"]:
        shown["definition"] = None if text is None else request.shown(text)
    return shown


def _read_posted(text: bytes | None) -> _PostedTimer | None:
    try:
        return None if text is None else _LISTED.decode(text)
    except _UNREADABLE:
        return None


def _describe(request: ApiRequest, raw: bytes) -> dict[str, Any] | None:
    try:
        timer = request.deps.definitions.compiler.compile_cache.timer(raw)
        texts = _TEXTS.decode(raw)
    except _UNREADABLE:
        return None
    return {
        "kind": timer.kind,
        "period": None if texts is None else texts.period,
        "timezone": timer.zone.name,
        "description": describe(timer, request.language),
    }
