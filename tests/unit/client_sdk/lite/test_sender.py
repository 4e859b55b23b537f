"""Requests of a job without a server."""

import gzip
from typing import Any

import httpx
import pytest

from client_sdk.lite import LiteJob
from tests.wire.target import HELD, Reply, Target


async def test_no_url_is_logged(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    """Targets are the caller's, and their URLs may hold tokens; other users of httpx log as before."""
    caplog.set_level("INFO", logger="httpx")
    target.answers("/moved", Reply(status=303, headers={"Location": "/here?token=other"}))
    step = {"url": f"{target.url}/moved?token=secret", "followRedirects": 1}
    async with LiteJob({"request": [step]}) as job, httpx.AsyncClient() as http:
        assert (await job.run()).state == "succeeded"
        assert not [line for line in caplog.messages if target.url in line]
        await http.get(f"{target.url}/mine")
        assert [line for line in caplog.messages if "/mine" in line]


async def test_what_the_network_does(target: Target) -> None:
    """Nobody there, no answer in time, too much of an answer, an answer elsewhere."""
    target.answers("/slow", HELD)
    target.always("/big", Reply(body={"x": "y" * 100}))
    target.answers("/moved", Reply(status=303, headers={"Location": "/here"}))
    target.always("/here", Reply(body={"here": True}))
    big = {"url": f"{target.url}/big", "respEnvName": "BIG"}
    cases: list[tuple[list[dict[str, Any]], tuple[str | None, str | None]]] = [
        ([{"url": "http://127.0.0.1:1/"}], ("500", "connect")),
        ([{"url": f"{target.url}/slow", "timeoutSeconds": 0.05}], ("500", "timeout")),
        ([big, {"url": f"{target.url}/x", "body": "${BIG.x}"}], ("response_too_large", "too_large")),
        ([{"url": f"{target.url}/moved"}], ("303", "http")),
    ]
    for steps, expected in cases:
        target.answers("/moved", Reply(status=303, headers={"Location": "/here"}))
        async with LiteJob({"request": steps}, response_bytes=50) as job:
            ended = await job.run()
            assert (ended.error, ended.failure_type) == expected, steps
    async with LiteJob({"request": [{"url": f"{target.url}/moved", "followRedirects": 1}]}) as job:
        assert (await job.run()).response == {"here": True}
    assert target.seen[-1].method == "GET"


async def test_answers_that_would_fill_the_memory_or_end_nothing(target: Target) -> None:
    """Nested too deep: text. In two layers of gzip, 64 KiB of which are 64 GiB: kept as it came."""
    target.answers("/deep", Reply(body=b"[" * 100_000))
    packed = gzip.compress(gzip.compress(bytes(1 << 24)))
    target.answers("/bomb", Reply(body=packed, headers={"Content-Encoding": "gzip, gzip"}))
    large = gzip.compress(bytes(1 << 24))
    target.answers("/large", Reply(body=large, headers={"Content-Encoding": "gzip"}))
    steps = [{"url": f"{target.url}/{name}"} for name in ("deep", "bomb", "large")]
    async with LiteJob({"request": steps}, response_bytes=1 << 20) as job:
        ended = await job.run()
    assert ended.state == "succeeded"
    assert ended.steps[0].body == "[" * 100_000
    assert len(ended.steps[1].body) <= len(r"\xff") * len(packed)
    assert len(ended.steps[2].body) == 1 << 20


async def test_no_cookie_is_kept(target: Target) -> None:
    """A target would grow the heads of all requests that follow."""
    target.answers("/one", Reply(headers={"Set-Cookie": "a=b"}))
    async with LiteJob({"request": [{"url": f"{target.url}/one"}, {"url": f"{target.url}/two"}]}) as job:
        assert (await job.run()).state == "succeeded"
    assert "cookie" not in target.seen[-1].headers
