"""Reports without a token, as large as a body may be: refused unread, and the others go on."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tests.attack.bystander import JOB, open_bystander
from tests.attack.client import open_client, post
from tests.attack.service import open_service

CALLERS = 4
REPORTS = 10
ARRAY = b"[" + b",".join([b"{}"] * 349_000) + b"]"


@pytest.mark.parametrize(
    "workers",
    [pytest.param(1, id="alone", marks=pytest.mark.long), pytest.param(2, id="with a worker process")],
)
async def test_reports_without_a_token(tmp_path: Path, workers: int) -> None:
    """1 MiB of `[{},{},…]` each, with a token and a job that do not exist, or a wrong token."""
    settings = {"server.workers": workers}
    async with (
        open_service(tmp_path / "data", settings=settings) as service,
        open_bystander(service) as bystander,
    ):

        async def report(path: str) -> int:
            async with open_client(service.url) as client:
                with suppress(ConnectionError, asyncio.IncompleteReadError):
                    await client.say(post(path, ARRAY))
                    return (await client.answer())[0]
            return 0

        async def go_on(path: str) -> set[int]:
            return {await report(path) for _ in range(REPORTS)}

        wrong, absent = f"/jobs/{JOB}/feedback/1?token=x", "/jobs/none/feedback/1?token=x"
        found = await asyncio.gather(*(go_on(path) for path in (wrong, absent) * (CALLERS // 2)))
        await bystander.check()
    # The connection may end before all of a body has left: then the answer may be lost with it.
    assert set().union(*found) <= {403, 404, 0}


async def test_a_wrong_token_is_answered_before_the_body(tmp_path: Path) -> None:
    """Of the 1 MiB that the head announces no byte has left."""
    async with open_service(tmp_path / "data") as service, open_bystander(service):
        for job, status in ((JOB, 403), ("none", 404)):
            async with open_client(service.url) as client:
                await client.say(post(f"/jobs/{job}/feedback/1?token=x", b"", length=1 << 20))
                assert (await client.answer())[0] == status
