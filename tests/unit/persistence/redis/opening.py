"""Opens Redis stores for a test and collects what they report."""

import asyncio
from collections.abc import Callable

from scheduler_service.persistence.redis.store import Hooks, RedisStateStore
from tests.redis_server import RedisServer


class Ear:
    """Collects what a store reports."""

    def __init__(self) -> None:
        self.lost: list[str] = []
        self.troubles: list[str | None] = []
        self.doubts: list[str] = []
        self.unasked: list[None] = []
        self.hooks = Hooks(
            self.lost.append, self.troubles.append, self.doubts.append, lambda: self.unasked.append(None)
        )

    async def hears(self, told: list[str]) -> None:
        """Returns when there is something."""
        await until(lambda: bool(told))


async def until(condition: Callable[[], bool]) -> None:
    """Returns when it is so."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.02)


async def open_at(server: RedisServer, **options: object) -> RedisStateStore:
    return await RedisStateStore.open(address=server.address, durability="process", **options)  # type: ignore[arg-type]


def key(name: str) -> str:
    return f"punctual:{name}"
