"""Hundreds of requests that stay: half bodies and long polls, as long as are read without a place in line."""

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from tests.attack.bystander import open_bystander
from tests.attack.client import open_client, post
from tests.attack.service import open_service
from tests.faults.processes import Fleet

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
SIZE = 63 << 10
CALLERS = 900
POLL = b'{"instanceId":"one","max":1,"waitSeconds":30}'
ATTACKS = {
    "half bodies": post("/jobs/one", b"x" * SIZE, length=SIZE + 1),
    "long polls": post("/queues/one/claim", POLL.ljust(SIZE)),
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_hundreds_of_requests_that_stay(fleet: Fleet, tmp_path: Path, attack: str) -> None:
    """Those that have been held for longest end; the service stays within 300 MiB, the others go on."""
    async with open_service(fleet, tmp_path / "data") as service, AsyncExitStack() as stack:
        async with open_bystander(service) as bystander:
            for _ in range(CALLERS):
                with suppress(ConnectionError):
                    client = await stack.enter_async_context(open_client(service.url))
                    await client.say(ATTACKS[attack])
            await asyncio.sleep(1)
            await bystander.check()
        assert service.logged("connections_closed")
