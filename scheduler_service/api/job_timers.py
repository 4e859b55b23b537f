"""The timers of the jobs of a list in words (SPEC section 10, GET /jobs)."""

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


async def describe_timers(
    request: ApiRequest, entries: Sequence[CatalogueEntry]
) -> Mapping[str, dict[str, Any] | None]:
    """By job key `kind`, `period`, `timezone` and `description` of its timer; one read for all of them.

    None where the definition is too long to be read with others. Raises StoreUnavailable.
    """
    texts = await request.deps.catalogue.definitions([entry.job_id for entry in entries])
    return {entry.job_id: _describe(request, texts.get(entry.job_id)) for entry in entries}


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
        "description": describe(timer),
    }
