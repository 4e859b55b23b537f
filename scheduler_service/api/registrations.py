"""Reads the body of a registration: its timers are counted and measured before any of them is decoded."""

from collections.abc import Sequence

import msgspec

from scheduler_service.api.array_items import split_member
from scheduler_service.api.bodies import MAX_DEPTH, read_each, read_json
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import ApiProblem, invalid
from scheduler_service.hosts.large_work import work_by_size
from scheduler_service.language.values import LARGE_BYTES
from scheduler_service.services.registry import digest_of

MAX_TIMERS = 1_000
TIMERS = "timers"


class PostedTimers(msgspec.Struct, frozen=True):
    """Declared timers, as the texts of their definitions; `digest` is that of the whole array as posted."""

    digest: bytes
    items: Sequence[bytes]


class Registration(msgspec.Struct, frozen=True):
    """The members of a registration; each object among its `timers` is an empty one here.

    `timers` None: it has no array of timers.
    """

    value: dict[str, object]
    timers: PostedTimers | None


class _Body(msgspec.Struct):
    timers: msgspec.Raw = msgspec.Raw(b"null")


_BODY = msgspec.json.Decoder(_Body)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


async def read_registration(request: ApiRequest) -> Registration:
    """The body, an object: `timers` may be as large as an array, the rest as an object.

    A large one is read beside the loop. Raises ApiProblem (400, 413, 415, 422).
    """
    deps = request.deps
    raw = await request.body(deps.array_bytes) or b"{}"
    return await work_by_size(len(raw), lambda: _read(raw, deps.body_bytes))


def _read(raw: bytes, longest: int) -> Registration:
    if len(raw) <= min(LARGE_BYTES, longest):
        return _read_small(raw)
    try:
        found = split_member(raw, TIMERS, most=MAX_TIMERS, longest=longest)
        value = _read_object(found.rest)
    except ApiProblem:
        if len(raw) <= longest:
            _read_object(raw)  # raises with the place in the whole body, where its form is wrong
        raise
    if found.items is None:
        return Registration(value, None)
    for _ in read_each(raw, found.items, within=f"/{TIMERS}", levels=MAX_DEPTH - 2):
        pass
    objects: list[object] = [{} if item.startswith(b"{") else None for item in found.items]
    timers = PostedTimers(digest_of(memoryview(raw)[found.begin : found.end]), found.items)
    return Registration(value | {TIMERS: objects}, timers)


def _read_small(raw: bytes) -> Registration:
    value = _read_object(raw)
    text = bytes(_BODY.decode(raw).timers)
    if not isinstance(value.get(TIMERS), list):
        return Registration(value, None)
    return Registration(value, PostedTimers(digest_of(text), [bytes(item) for item in _ITEMS.decode(text)]))


def _read_object(raw: bytes) -> dict[str, object]:
    value = read_json(raw)
    if not isinstance(value, dict):
        raise invalid("", "type", "the body must be a JSON object")
    return value
