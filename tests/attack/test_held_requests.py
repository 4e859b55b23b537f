"""Hundreds of requests that stay: half bodies and long polls, as long as are read without a place in line."""

from asyncio import IncompleteReadError
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from tests.attack.bystander import open_bystander
from tests.attack.client import get, open_client, post
from tests.attack.service import Service, open_service

pytestmark = pytest.mark.timeout(120)
SIZE = 63 << 10
CALLERS = 900
POLL = b'{"instanceId":"one","max":1,"waitSeconds":30}'
ATTACKS = {
    "half bodies": post("/jobs/one", b"x" * SIZE, length=SIZE + 1),
    "long polls": post("/queues/one/claim", POLL.ljust(SIZE)),
}


@pytest.mark.parametrize("attack", ["half bodies", pytest.param("long polls", marks=pytest.mark.long)])
async def test_hundreds_of_requests_that_stay(tmp_path: Path, attack: str) -> None:
    """Those that have been held for longest end; the service stays within 300 MiB, the others go on."""
    async with (
        open_service(tmp_path / "data") as service,
        AsyncExitStack() as stack,
        open_bystander(service) as bystander,
    ):
        await _stay(service, stack, ATTACKS[attack])
        await bystander.check()


@pytest.mark.long
async def test_a_large_request_is_answered_beside_them(tmp_path: Path) -> None:
    """A whole request is not ended by those that came after it, however many they are."""
    async with open_service(tmp_path / "data") as service, AsyncExitStack() as stack:
        own = await stack.enter_async_context(open_client(service.url))
        await own.say(post("/queues/own/claim", b'{"instanceId":"one","max":1,"waitSeconds":4}'.ljust(SIZE)))
        await _stay(service, stack, ATTACKS["half bodies"])
        assert (await own.answer())[0] == 200


async def _stay(service: Service, stack: AsyncExitStack, said: bytes) -> None:
    """So many callers say this; returns when some of them were closed for it."""
    for _ in range(CALLERS):
        with suppress(ConnectionError):
            client = await stack.enter_async_context(open_client(service.url))
            await client.say(said)
    await service.run.until(lambda: _has_closed(service), "some of the connections were closed")


async def _has_closed(service: Service) -> bool:
    return bool(service.logged("connections_closed"))


GONE_CALLERS = 2_000
BEHIND = get("/x", "X: " + "y" * 15_000) * 15


@pytest.mark.long
async def test_requests_behind_one_that_stays(tmp_path: Path) -> None:
    """Each left 200 KiB: the service is within 300 MiB after a third of a GiB of them."""
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        for _ in range(GONE_CALLERS):
            # One that the service has no room for is closed.
            with suppress(ConnectionError, IncompleteReadError):
                async with open_client(service.url) as client:
                    await client.say(get("/events") + BEHIND)
                    await client.begin()
        await bystander.check()
