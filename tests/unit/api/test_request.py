"""The body of a request: its media type and its size (SPEC sections 10, 14)."""

import gzip
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from scheduler_service.api.request import preferred
from tests.rows import each_row
from tests.unit.api.world import World, definition, pointers

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx"]
)
async def test_a_body_is_json_by_its_type(client: httpx.AsyncClient, kind: str | None) -> None:
    """415 wrong type: no web page can post (SPEC sections 10, 14)."""
    headers = {} if kind is None else {"Content-Type": kind}
    response = await client.post("/jobs/j1", content=json.dumps(definition()), headers=headers)
    assert (response.status_code, pointers(response)) == (415, [("/Content-Type", "media_type")])


@each_row("coding", ["gzip", "br", "gzip, identity", "x" * 1_000])
async def test_a_packed_body_is_refused_unread(coding: str) -> None:
    """Nothing is unpacked, and nothing is said of malformed JSON; `identity` is no coding."""
    async with World().client() as client:
        headers = {"Content-Type": "application/json", "Content-Encoding": coding}
        response = await client.post("/jobs/one", content=gzip.compress(b"{}"), headers=headers)
        assert (response.status_code, pointers(response)) == (415, [("/Content-Encoding", "coding")])
        assert len(response.json()["detail"]) < 200
        headers["Content-Encoding"] = "identity"
        assert (await client.post("/jobs/one", json=definition(), headers=headers)).status_code == 201


async def test_a_type_may_name_its_charset(client: httpx.AsyncClient) -> None:
    """`application/json; charset=utf-8` is JSON."""
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    response = await client.post("/jobs/j1", content=json.dumps(definition()), headers=headers)
    assert response.status_code == 201


async def test_a_long_body_is_read_as_it_is(client: httpx.AsyncClient) -> None:
    """Its pieces are joined beside the loop; the same under a key is the same request."""
    many = [definition(jobId=f"j{number}", jobDescription="x" * 700_000) for number in range(3)]
    text = json.dumps(many).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(text), 65_536):
            yield text[start : start + 65_536]

    for _ in range(2):
        response = await client.post("/jobs", content=pieces(), headers=JSON | {"Idempotency-Key": "a"})
        assert [one["status"] for one in response.json()["data"]["items"]] == ["created"] * 3
    text = text.replace(b"xx", b"yy", 1)
    other = await client.post("/jobs", content=pieces(), headers=JSON | {"Idempotency-Key": "a"})
    assert pointers(other) == [("/Idempotency-Key", "key_reused")]


async def test_a_body_has_a_limit_announced_or_not() -> None:
    """413 too large: `limits.body_bytes`, more for arrays (SPEC section 10)."""
    world = World(body_bytes=600, array_bytes=2_000)
    large = json.dumps(definition(jobDescription="x" * 600)).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 100):
            yield large[start : start + 100]

    async with world.client() as client:
        assert (await client.post("/jobs/j1", content=large, headers=JSON)).status_code == 413
        assert (await client.post("/jobs/j1", content=pieces(), headers=JSON)).status_code == 413
        half = json.dumps(definition(jobId="j2", jobDescription="x" * 300)).encode()
        many = b"[" + b",".join([half, half.replace(b"j2", b"j3")]) + b"]"
        assert len(half) < 600 < len(many)
        assert (await client.post("/jobs", content=many, headers=JSON)).status_code == 200
        one = await client.post("/jobs", content=b"[" + half + b"," + large + b"]", headers=JSON)
        assert (one.status_code, pointers(one)) == (413, [("/1", "too_large")])
        assert (await client.post("/jobs", content=b" " * 2_001, headers=JSON)).status_code == 413


@each_row(
    ("header", "language"),
    [
        (None, "en"),
        ("", "en"),
        ("zh-CN", "zh"),
        ("ZH", "zh"),
        ("fr, zh-Hans;q=0.4", "zh"),
        ("zh;q=0.2, en-GB;q=0.9", "en"),
        ("en;q=0.5, zh;q=0.9", "zh"),
        ("zh;q=0", "en"),
        ("en;q = 0.5, zh ; Q=0.9", "zh"),
        ("zh;q=much", "en"),
        ("*, fr", "en"),
        (",;;=,", "en"),
    ],
)
def test_the_best_liked_of_those_that_there_are(header: str | None, language: str) -> None:
    """By quality, the first among equals; English where nothing fits or can be read."""
    assert preferred(header) == language
