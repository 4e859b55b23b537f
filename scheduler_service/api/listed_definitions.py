"""What a list has of its jobs' definitions: timers in words, or all of it (SPEC section 10, GET /jobs)."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from client_sdk.models import ModelError
from scheduler_service.api.request import ApiRequest
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.timing.preview import describe

_UNREADABLE = (DefinitionError, ModelError, msgspec.DecodeError, RecursionError)


class _Posted(msgspec.Struct, frozen=True):
    timer: msgspec.Raw = msgspec.Raw(b"null")


class _Texts(msgspec.Struct, frozen=True):
    period: str | None = None


_POSTED = msgspec.json.Decoder(_Posted)
_TEXTS = msgspec.json.Decoder(_Texts | None)


async def read_definitions(
    request: ApiRequest, entries: Sequence[CatalogueEntry]
) -> Sequence[Mapping[str, Any]]:
    """Of each job `timer` and `definition`, as they were asked for; one read for all of them.

    They are None where the definition is too long to be read with others. Raises StoreUnavailable.
    """
    wants_timers, wants_all = request.query["timers"], request.query["definitions"]
    if not (wants_timers or wants_all):
        return [{} for _ in entries]
    found = await request.deps.catalogue.definitions([entry.job_id for entry in entries])
    texts = [found.get(entry.job_id) for entry in entries]
    return [
        ({"timer": _describe(request, text)} if wants_timers else {})
        | ({"definition": None if text is None else msgspec.Raw(text)} if wants_all else {})
        for text in texts
    ]


def _describe(request: ApiRequest, text: bytes | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        raw = bytes(_POSTED.decode(text).timer)
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
