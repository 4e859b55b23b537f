"""Heads and framing without an end, before any key: 431 or 400, little memory, and the others go on."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.attack.bystander import open_bystander
from tests.attack.client import get, open_client
from tests.attack.service import Service, open_service

KEY = {"server.key": "a key of sixteen letters"}
PIECE = 1 << 20
PIECES = 64
REQUESTS = 500
CHUNKED = b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"


async def flood(service: Service, start: bytes, piece: bytes) -> Sequence[bytes]:
    """What comes on a connection that says `start`, then 64 MiB of `piece`, or less if it ends before."""
    async with open_client(service.url) as client:
        whole = piece * (PIECE // len(piece))
        try:
            await client.say(start)
            for _ in range(PIECES):
                await client.say(whole)
        except ConnectionError:
            pass
        return (await client.rest()).split(b"\r\n")


@pytest.mark.long
async def test_heads_without_an_end(tmp_path: Path) -> None:
    """64 MiB each of headers, a value, a URL, empty lines, the size of a chunk, its extension, trailers."""
    floods = [
        (b"GET / HTTP/1.1\r\n", b"a: b\r\n"),
        (b"GET / HTTP/1.1\r\nX: ", b"x"),
        (b"GET /", b"a"),
        (b"", b"\r\n"),
        (CHUNKED, b"0"),
        (CHUNKED + b"1;", b"e"),
        (CHUNKED + b"1\r\na\r\n0\r\nX: ", b"t"),
    ]
    async with (
        open_service(tmp_path / "data", settings=KEY) as service,
        open_client(service.url) as client,
    ):
        answers = await asyncio.gather(*(flood(service, start, piece) for start, piece in floods))
        assert await service.is_live()
        await client.say(get("/health/live"))
        assert (await client.answer())[0] == 200
    # Where the caller does not stop in time, its own sending may cost it the answer.
    told = [answer[0] for answer in answers if answer[0]]
    assert set(told) <= {
        b"HTTP/1.1 431 Request Header Fields Too Large",
        b"HTTP/1.1 401 Unauthorized",
    }


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\nX: ", b"GET /"], ids=["a value", "a URL"])
async def test_a_head_beyond_the_limit_is_answered(tmp_path: Path, start: bytes) -> None:
    """431, to a caller that stops a little behind the limit and reads."""
    async with (
        open_service(tmp_path / "data", settings=KEY) as service,
        open_client(service.url) as client,
    ):
        await client.say(start + b"x" * 66_000)
        assert (await client.answer())[0] == 431


async def test_the_log_is_not_filled_by_strangers(tmp_path: Path) -> None:
    """Hundreds of requests that are none: one line at once, the others as a count."""
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        for _ in range(REQUESTS):
            async with open_client(service.url) as client:
                await client.say(b"nonsense\r\n\r\n")
                assert (await client.answer())[0] == 400
        await bystander.check()
        assert service.logged("requests_malformed")[0]["malformed_request"] == 1
        assert await service.run.terminate() == 0
        counted = [line["malformed_request"] for line in service.logged("requests_malformed")]
    assert sum(counted) == REQUESTS
    assert len(counted) < REQUESTS / 10
