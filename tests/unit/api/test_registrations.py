"""The body of a registration: its timers as texts, the rest decoded (SPEC section 13)."""

import json
from http import HTTPStatus
from typing import Any

import pytest

from scheduler_service.api.registrations import MAX_TIMERS, PostedRegistration, read_registration
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import ApiProblem
from scheduler_service.security.callers import Caller, Role
from scheduler_service.services.registry import digest_of
from tests.rows import each_row
from tests.unit.api.world import World

LIMIT = 40_000


async def read(body: bytes) -> PostedRegistration:
    """`read_registration` with 40,000 bytes for an object, four times that for an array."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    deps = World(body_bytes=LIMIT, array_bytes=4 * LIMIT).deps
    scope = {"type": "http", "headers": [(b"content-type", b"application/json")]}
    caller = Caller("default", Role.EDITOR)
    return await read_registration(
        ApiRequest(caller=caller, deps=deps, scope=scope, receive=receive, path={}, query={})
    )


@each_row("lengths", [[1], [35_000], [20_000, 20_000, 20_000]])
async def test_timers_are_texts_with_the_digest_of_the_whole(lengths: list[int]) -> None:
    """Whichever way a body of this size is read."""
    timers = [json.dumps({"jobName": "x" * length}) for length in lengths]
    text = f"[{', '.join(timers)}]"
    found = await read(f'{{"tags": ["t"], "timers": {text}}}'.encode())
    assert found.value["tags"] == ["t"]
    assert found.timers is not None
    assert [bytes(item) for item in found.timers.items] == [one.encode() for one in timers]
    assert found.timers.digest == digest_of(text.encode())


@each_row("body", [b"", b"{}", b'{"timers": null}', b'{"timers": {}}'])
async def test_one_without_an_array_has_no_timers(body: bytes) -> None:
    """No body is an empty object; the form of `timers` is checked later."""
    assert (await read(body)).timers is None


@each_row(
    ("body", "status", "pointer"),
    [
        (b"[]", 422, ""),
        (b'{"timers": [', 400, ""),
        (b'{"tags": "' + b"x" * LIMIT + b'"}', 413, ""),
        (b'{"timers": [{}, {"a": "' + b"x" * LIMIT + b'"}]}', 413, "/timers/1"),
        (b'{"timers": [' + b"{}," * (20 * MAX_TIMERS) + b"{}]}", 422, "/timers"),
        (b'{"timers": [' + b'"' + b"x" * (4 * LIMIT) + b'"]}', 413, ""),
    ],
)
async def test_what_is_refused_names_its_place(body: bytes, status: int, pointer: str) -> None:
    """Before any timer is decoded."""
    with pytest.raises(ApiProblem) as caught:
        await read(body)
    assert caught.value.status == HTTPStatus(status)
    assert [one["pointer"] for one in caught.value.errors] == [pointer]


async def test_what_is_no_definition_is_named_as_it_was_posted() -> None:
    """Where it is short: the rest of the registration is checked with it, and says what is wrong."""
    found = await read(b'{"timers": [{"jobId": "a"}, 5, null, [1], "' + b"x" * 300 + b'"]}')
    assert found.value["timers"] == [{}, 5, None, [1], []]
