"""Attacks by strangers who call the API."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from tests.attack.bystander import JOB
from tests.attack.client import open_client, post
from tests.bench.attacks.registry import Scene, attack

CALLERS = 2
PIECE = b"x" * (1 << 20)
ARRAY = b"[" + b",".join([b"{}"] * 349_000) + b"]"


async def go_on(ask: Callable[[], Awaitable[None]]) -> None:
    """Again and again, whatever becomes of it."""
    while True:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await ask()


async def all_along(ask: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Some callers who ask and ask, while the attack goes on."""
    callers = [asyncio.create_task(go_on(ask)) for _ in range(CALLERS)]
    yield
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)


@attack("heads")
async def endless_heads(scene: Scene) -> AsyncIterator[None]:
    """Two callers, whose one header has no end."""

    async def ask() -> None:
        async with open_client(scene.service.url) as client:
            await client.say(b"GET / HTTP/1.1\r\nHost: a\r\nX: ")
            for _ in range(256):
                await client.say(PIECE)

    async for _ in all_along(ask):
        yield


@attack("feedback")
async def reports_without_a_token(scene: Scene) -> AsyncIterator[None]:
    """Two callers, each of whom posts 1 MiB of `[{},{},…]` without a token."""

    async def ask() -> None:
        async with open_client(scene.service.url) as client:
            await client.say(post(f"/jobs/{JOB}/feedback/1?token=x", ARRAY))
            await client.answer()

    async for _ in all_along(ask):
        yield
