"""Requests of a job without a server."""

from typing import Any

import httpx
import pytest

from client_sdk.lite import LiteJob
from tests.wire.target import HELD, Reply, Target

pytestmark = pytest.mark.anyio


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
