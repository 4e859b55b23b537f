"""Requests behind one that stays, from callers that go away: what they have sent is gone with them."""

from asyncio import IncompleteReadError
from contextlib import suppress
from pathlib import Path

import pytest

from tests.attack.bystander import open_bystander
from tests.attack.client import get, open_client
from tests.attack.service import open_service

pytestmark = pytest.mark.timeout(120)
CALLERS = 2_000
BEHIND = get("/x", "X: " + "y" * 15_000) * 15


@pytest.mark.long
async def test_requests_behind_one_that_stays(tmp_path: Path) -> None:
    """Each left 200 KiB: the service is within 300 MiB after a third of a GiB of them."""
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        for _ in range(CALLERS):
            # One that the service has no room for is closed.
            with suppress(ConnectionError, IncompleteReadError):
                async with open_client(service.url) as client:
                    await client.say(get("/events") + BEHIND)
                    await client.begin()
        await bystander.check()
