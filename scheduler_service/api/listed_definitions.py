"""The lines of a list of jobs, with timers in words or whole definitions (SPEC section 10, GET /jobs)."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from client_sdk.models import ModelError
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import ENCODER
from scheduler_service.api.shapes import job_line
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.pacing.slices import Slices
from scheduler_service.persistence.common.pagination import write_place
from scheduler_service.ports.catalogue import CatalogueEntry, JobPage, JobQuery
from scheduler_service.timing.preview import describe

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


_POSTED = msgspec.json.Decoder(_PostedTimer)
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
            line = ENCODER.encode(
                {**job_line(entry, request.deps.find_unfit(entry), mask), **_define(request, text)}
            )
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
        shown["definition"] = None if text is None else msgspec.Raw(text)
    return shown


def _read_posted(text: bytes | None) -> _PostedTimer | None:
    try:
        return None if text is None else _POSTED.decode(text)
    except _UNREADABLE:
        return None


def _describe(request: ApiRequest, raw: bytes) -> dict[str, Any] | None:
    try:
        timer = request.deps.compile_cache.timer(raw)
        texts = _TEXTS.decode(raw)
    except _UNREADABLE:
        return None
    return {
        "kind": timer.kind,
        "period": None if texts is None else texts.period,
        "timezone": timer.zone.name,
        "description": describe(timer, request.language),
    }
